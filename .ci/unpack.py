"""Build the wheel from a clean copy of the tree and unpack it: the package as a user gets it.

    python .ci/unpack.py FOLDER        prints the number of Python files unpacked

Tools that read the package (mypy, import-linter) must read this, not the root of the repository, where the
two mapped folders are not where Python would look for them. The copy matters too: setuptools leaves
`build/lib` behind and packs what lies there again, deleted modules included.
Needs only what the lock installs (pip, setuptools); no network.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOTS = {"memguard": "memguard", "memguard/integrations": "integrations", "memguard/bench": "bench"}
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE")


def copy_of_the_tree(folder: Path) -> set[str]:
    """Copy what belongs into the wheel; the result is every file of the three folders by its name in the wheel."""
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)
    names = set()
    for target, source in ROOTS.items():
        shutil.copytree(ROOT / source, folder / source, ignore=shutil.ignore_patterns("__pycache__"))
        files = (path for path in (folder / source).rglob("*") if path.is_file())
        names |= {f"{target}/{path.relative_to(folder / source).as_posix()}" for path in files}
    return names


def unpack(folder: Path) -> int:
    """Empty `folder`, unpack a fresh wheel there, and count the Python files.

    Raises SystemExit when a file of the tree did not reach the wheel, or one that is not in the tree did.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        tree, built = Path(temporary, "tree"), Path(temporary, "built")
        tree.mkdir()
        expected = copy_of_the_tree(tree)
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        subprocess.run([*command, "-w", str(built), str(tree)], check=True)
        (wheel,) = built.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    packed = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    packed = {name for name in packed if ".dist-info/" not in name}
    if packed != expected:
        missing, extra = sorted(expected - packed), sorted(packed - expected)
        raise SystemExit(f"the wheel is not the tree: missing {missing}, extra {extra}")
    return sum(name.endswith(".py") for name in packed)


if __name__ == "__main__":
    print(unpack(Path(sys.argv[1]).resolve()))

"""Every code in the source has a page, and every page has a code in the source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import memguard
from memguard.cli.explain import case_pages, pages

ROOTS = [Path(memguard.__file__).parent]
_CODE = re.compile(r"\bMG\d{3}\b")


def source_codes() -> set[str]:
    """Codes that appear in Python source, the three roots of the distribution together."""
    repository = Path(memguard.__file__).parent.parent
    found: set[str] = set()
    for root in ("memguard", "integrations", "bench"):
        for path in (repository / root).rglob("*.py"):
            found.update(_CODE.findall(path.read_text(encoding="utf-8")))
    return found


def test_every_code_has_a_page_and_every_page_a_code() -> None:
    codes = source_codes()
    assert len(codes) > 20, "the search found too little to mean anything"
    written = {code for code in pages() if code.startswith("MG")}
    assert codes - written == set(), "codes without a page in memguard/cli/explain.toml"
    assert written - codes == set(), "pages of codes that nothing raises"


@pytest.mark.parametrize("page", pages().values(), ids=lambda page: page.code)
def test_pages_are_whole(page) -> None:
    assert page.means.endswith((".", '"'))
    assert not page.title.endswith(".")
    assert len(page.title) <= 60
    assert page.title[0].islower() or page.title.split()[0].isupper()
    if page.code.startswith("MG"):
        assert page.do, "a code without a next step"


def test_the_nine_cases_and_the_controls_are_there() -> None:
    assert {f"T{n}" for n in range(1, 10)} | {"C1", "C2", "C3"} <= set(pages())


def test_one_page(run, data) -> None:
    result = run("explain", "mg401")
    assert result.exit_code == 0
    assert result.stdout.startswith("MG401  ")
    assert max(map(len, result.stdout.splitlines())) <= 110
    assert data(run("explain", "MG401", "--format", "json"))["code"] == "MG401"


def test_the_list(run) -> None:
    result = run("explain")
    assert result.exit_code == 0
    assert all(code in result.stdout for code in pages())
    assert "X01" in result.stdout


def test_an_unknown_code_is_a_usage_error_with_a_suggestion(run) -> None:
    result = run("explain", "MG41x")
    assert result.exit_code == 2
    assert 'Did you mean "MG4' in result.stderr


def test_the_cases_are_those_of_the_bench_in_its_own_words(run, data) -> None:
    from memguard.bench.integrity.cases import CASES

    found = case_pages()
    assert {case.id: case.title for case in CASES} == {code: page.title for code, page in found.items()}
    assert {case.id for case in CASES if case.id.startswith("T")} <= set(pages())
    for page in found.values():
        assert page.means[0].isupper()
        assert page.means.endswith(".")
    own = next(case for case in CASES if case.id.startswith("X"))
    assert data(run("explain", own.id.lower(), "--format", "json"))["title"] == own.title

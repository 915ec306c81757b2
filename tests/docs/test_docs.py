"""Every code block of the documentation does what it says."""

import re
import shutil
from pathlib import Path

import pytest
from tests.docs.blocks import Runner, blocks, matches

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
ON_SPARK = re.compile(r'\bconnect\("spark"\)')
RUN = ("python", "pycon", "deals", "console")


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_there_are_blocks() -> None:
    found = {page_id(page): blocks(page.read_text("utf-8")) for page in PAGES}
    for page in ("README.md", "docs/tutorial.md", "docs/reference/cli.md"):
        assert any(block.language == "console" for block in found[page])
    for page in ("README.md", "docs/tutorial.md", "docs/reference/python.md"):
        assert any(block.language in ("python", "pycon") for block in found[page])
    assert sum(b.language in RUN for page in found.values() for b in page) > 60


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_page(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    text = page.read_text("utf-8")
    if ON_SPARK.search(text):
        request.getfixturevalue("spark")  # the session that `connect` will find
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", "examples", ignore=shutil.ignore_patterns("data"))
    runner = Runner(page_id(page))
    for block in blocks(text):
        runner.run(block)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S)
    text = re.sub(r"`[^`\n]*`", "`…`", prose)  # `tx[R](A)` is no link
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("https://", "http://")):
            assert (page.parent / target).exists(), f"{page_id(page)} links to {target}"


def test_an_ellipsis_matches_any_text() -> None:
    assert matches("a … c\n…\nz", "a b c\n1\n2\nz  \n")
    assert not matches("a … c", "a b d")

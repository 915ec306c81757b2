"""The page that shows newcomers around names rooms and files that exist, and every room."""

import re
from pathlib import Path

import caladan

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "caladan"
PAGE = (ROOT / "docs" / "how-it-works" / "README.md").read_text("utf-8")


def test_every_path_on_the_page_exists() -> None:
    paths = re.findall(r"`([a-z_/]+(?:\.py|/))`", PAGE)
    assert len(paths) > 50
    assert [path for path in paths if not (PACKAGE / path).exists()] == []


def test_every_room_is_on_the_page() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert rooms == set(re.findall(r"^\| `([a-z]+)/` \|", PAGE, re.MULTILINE))


def test_nothing_else_stands_at_the_top() -> None:
    assert {path.name for path in PACKAGE.glob("*.py")} == {
        "__init__.py",
        "__main__.py",
        "pipeline.py",
    }


def test_a_class_name_stands_for_one_thing() -> None:
    """Where two rooms need a like thing, one name says which it is."""
    homes: dict[str, list[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for name in re.findall(r"^class ([A-Z]\w*)", path.read_text("utf-8"), re.MULTILINE):
            homes.setdefault(name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_public_errors_are_called_by_their_public_names() -> None:
    for name in ("CaladanError", "CaladanWarning", "Stopped"):
        assert getattr(caladan, name).__module__ == "caladan"

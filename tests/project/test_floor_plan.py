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


def test_a_type_has_one_name_and_a_name_one_type() -> None:
    """Classes and aliases; where two rooms need a like thing, one name says which it is."""
    homes: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text("utf-8")
        for name in re.findall(
            r"^(?:class )?([A-Z]\w*)(?:\(|\[|:)(?=.*:$|.* TypeAlias\b|$)", text, re.M
        ):
            homes.setdefault(name, set()).add(str(path.relative_to(PACKAGE)))
    assert len(homes) > 500
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_functions_are_verbs() -> None:
    """`write_value`, not `written`: a participle alone does not say what a function does."""
    verbs = {"feed", "heed", "seed", "substring", "stored"}  # `cal.stored` is public
    participle = re.compile(r"^(?:async )?def _?([a-z]+(?:ed|ing))\(", re.M)
    found = {
        f"{path.relative_to(PACKAGE)}: {name}"
        for path in PACKAGE.rglob("*.py")
        for name in participle.findall(path.read_text("utf-8"))
        if name not in verbs
    }
    assert found == set()


def test_public_errors_are_called_by_their_public_names() -> None:
    for name in ("CaladanError", "CaladanWarning", "Stopped"):
        assert getattr(caladan, name).__module__ == "caladan"

"""Files that docstrings, comments and pages speak of are there, and maps of folders are true."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.project.test_hygiene import repository_files

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "caladan"
INVENTED = {"file.py"}  # made by a test, in a folder of its own

_FILE = re.compile(r"(?<![\w./*-])([\w/]+\.py)\b")
_ENTRY = re.compile(r"^ {4}([a-z_]+(?:, [a-z_]+)*) {2,}\S")
_MODULE = re.compile(r"(?<![\w.])caladan((?:\.[a-z_]+)+)")


def pages() -> Iterator[tuple[Path, str]]:
    for path in repository_files():
        if path.suffix in (".py", ".md", ".toml") or path.name == "Makefile":
            yield path, path.read_text("utf-8")


def test_files_that_are_named_exist() -> None:
    known = [path.relative_to(ROOT).as_posix() for path in repository_files()]
    names = {f"/{path}" for path in known if path.endswith(".py")}
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in pages()
        for name in _FILE.findall(text)
        if name not in INVENTED and not any(each.endswith(f"/{name}") for each in names)
    ]
    assert missing == []


@pytest.mark.parametrize("name", ["fixpoint/fixpoint.py", "engines/spark/mesh/shard.py"])
def test_a_file_is_found_in_a_sentence(name: str) -> None:
    assert _FILE.findall(f"see `{name}`, or columns/*.py, or x.pyi") == [name]


def test_maps_of_folders_name_what_is_in_them() -> None:
    wrong: list[str] = []
    entries = 0
    for path in PACKAGE.rglob("__init__.py"):
        said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        for found in filter(None, map(_ENTRY.match, said.splitlines())):
            for name in found[1].split(", "):
                entries += 1
                at = path.parent / name
                if not at.is_dir() and not at.with_suffix(".py").exists():
                    wrong.append(f"{path.relative_to(PACKAGE)}: {name}")
    assert entries > 50
    assert wrong == []


def test_modules_that_are_named_exist() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: caladan{dotted}"
        for path, text in pages()
        for dotted in _MODULE.findall(text)
        if not _is_module(dotted[1:].split("."))
    ]
    assert wrong == []


def _is_module(parts: list[str]) -> bool:
    """Whether a path leads to a folder, a file, or something that one of them names."""
    at = PACKAGE
    if not (at / parts[0]).is_dir():
        return True  # a name that users import, or a setting of Spark
    for part in parts:
        if (at / part).is_dir():
            at /= part
            continue
        file = at / f"{part}.py"
        return file.exists() or part in (at / "__init__.py").read_text("utf-8")
    return True

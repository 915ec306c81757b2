"""Every dependency is explained, and every one is locked."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w.-]+", requirement)[0] for requirement in requirements}


EXTRAS = PROJECT["project"]["optional-dependencies"]
RUNTIME = names([*PROJECT["project"]["dependencies"], *EXTRAS["spark"]])
LOCKS = {
    "runtime": RUNTIME,
    "java": RUNTIME | names(EXTRAS["java"]),
    "build": names(PROJECT["dependency-groups"]["build"]),
    "dev": names(PROJECT["dependency-groups"]["dev"]),
}


def test_every_dependency_says_why_it_is_here() -> None:
    lines = (ROOT / "docs" / "dependencies.md").read_text().splitlines()
    explained = {match[1] for line in lines if (match := re.match(r"\| `([\w.-]+)` \| \S", line))}
    assert explained == set().union(*LOCKS.values())


@pytest.mark.parametrize("lock", LOCKS)
def test_every_dependency_is_locked_with_hashes(lock: str) -> None:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text()
    entries = re.findall(r"^([\w.-]+)==.*\\\n    --hash=sha256:", text, re.MULTILINE)
    assert LOCKS[lock] <= set(entries)
    assert len(entries) == len(re.findall(r"^\w", text, re.MULTILINE))


def test_there_is_no_other_lock() -> None:
    assert {path.stem for path in (ROOT / "requirements").glob("*.lock")} == set(LOCKS)


def test_locks_agree() -> None:
    versions: dict[str, set[str]] = {}
    for lock in LOCKS:
        text = (ROOT / "requirements" / f"{lock}.lock").read_text()
        pinned: dict[str, list[str]] = {}
        for name, rest in re.findall(r"^([\w.-]+)==(.*) \\$", text, re.MULTILINE):
            pinned.setdefault(name, []).append(rest)
        for name, rests in pinned.items():
            versions.setdefault(name, set()).add(" | ".join(sorted(rests)))
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}

"""Nothing in the repository belongs to one machine, one registry, or another day."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# What must not appear, and what it looks like. Locks and docs name packages, never where they come
# from: everyone has an index of their own.
FORBIDDEN = {
    "a registry's host name": re.compile(
        r"\b(pypi\.org|pythonhosted\.org|npmjs\.(org|com)|deb\.debian\.org|repo1?\.maven\b)"
    ),
    "a path of somebody's machine": re.compile(
        r"(?<![\w.~-])/(work|root|tmp/w|home/[a-z]\w*|Users/\w+)/"
    ),
    "a task without an issue: write TODO(#12)": re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))"),
    "a merge conflict": re.compile(r"^(<{7}|>{7})( |$)"),
}


def repository_files() -> list[Path]:
    """All files that are tracked or would be; this one spells out what is forbidden, so not it."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a git checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return [path for path in paths if path.is_file() and path != Path(__file__)]


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_contains(what: str) -> None:
    found: list[str] = []
    for path in repository_files():
        content = path.read_bytes()
        if b"\0" in content[:8192]:
            continue
        for number, line in enumerate(content.decode("utf-8").splitlines(), start=1):
            if FORBIDDEN[what].search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


@pytest.mark.parametrize(
    ("what", "bad", "good"),
    [
        (
            "a registry's host name",
            "https://files.pythonhosted.org/packages/x.whl",
            "from your package index",
        ),
        ("a path of somebody's machine", 'open("/root/x")', "src/work/file, ~/root/x"),
        ("a path of somebody's machine", "cd /work/main", "the $HOME/work/main directory"),
        ("a task without an issue: write TODO(#12)", "# TODO: later", "# TODO(#12): later"),
        ("a merge conflict", "<<<<<<< HEAD", "a <<<<<<< b"),
    ],
)
def test_patterns(what: str, bad: str, good: str) -> None:
    assert FORBIDDEN[what].search(bad)
    assert not FORBIDDEN[what].search(good)

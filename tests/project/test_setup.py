"""The Makefile offers what the documentation promises."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = (
    "install",
    "demo",
    "test",
    "versions",
    "lint",
    "format",
    "fuzz",
    "bench",
    "lock",
    "clean",
    "help",
)


def make(*arguments: str) -> str:
    """Runs make as a user would, not as a part of the make that may be running these tests."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    command = ["make", "--no-print-directory", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("arguments", [(), ("help",)])
def test_help_lists_every_target(arguments: tuple[str, ...]) -> None:
    assert set(re.findall(r"^  make (\w+) ", make(*arguments), re.MULTILINE)) == set(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_can_be_planned(target: str) -> None:
    """A dry run finds prerequisites that do not exist."""
    make("--dry-run", target)


def test_ci_is_executable() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)

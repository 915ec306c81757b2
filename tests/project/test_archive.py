"""An archive of Spark's classes: used where it is, and never heard of where it does not fit."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from caladan.engines.spark.session import archive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_none_is_none(cache: Path) -> None:
    assert archive.option() == ""
    assert not list(cache.iterdir())


def test_one_that_does_not_fit_is_passed_over_in_silence(cache: Path) -> None:
    path = archive.where({"XDG_CACHE_HOME": str(cache)})
    java = shutil.which("java")
    if path is None or java is None:
        pytest.skip("needs a Java on the path")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no archive of classes")
    options = archive.option().split()
    assert f"-XX:SharedArchiveFile={path}" in options
    done = subprocess.run([java, *options, "-version"], capture_output=True, text=True, check=True)
    assert not done.stdout
    assert "openjdk" in done.stderr or "version" in done.stderr
    assert "shared" not in done.stderr.lower().replace("sharing", "")


@pytest.mark.parametrize("given", ["-Xshare:off", "-XX:SharedArchiveFile=mine.jsa"])
def test_what_users_say_of_sharing_counts(cache: Path, given: str) -> None:
    path = archive.where({"XDG_CACHE_HOME": str(cache)})
    if path is None:
        pytest.skip("needs a Java on the path")
    path.parent.mkdir(parents=True)
    path.touch()
    assert archive.option(given) == ""


def test_other_javas_have_other_archives(tmp_path: Path) -> None:
    found: set[Path | None] = set()
    for name in ("one", "other"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin" / "java").touch()
        environ = {"XDG_CACHE_HOME": str(tmp_path), "JAVA_HOME": str(tmp_path / name)}
        found.add(archive.where(environ))
    assert len(found) == 2
    assert None not in found

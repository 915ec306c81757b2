"""Files that are written: whole or not at all, and where they are meant to be."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from caladan.data import output
from caladan.data.output import create, new_file
from caladan.engines.spark.mesh.checkpoint import CheckpointFiles, CheckpointState, SavePoint
from caladan.program.diagnostics import CaladanError

ROWS = pa.table({"A": ["x", "y"], "B": ["1", "2"]})
UNFIT = pa.table({"A": ["fine", "a\ttab"], "B": ["1", "2"]})


def test_a_failed_append_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    output.write(ROWS, path, "tsv", "error")
    before = path.read_bytes()
    with pytest.raises(CaladanError, match="C037"):
        output.write(UNFIT, path, "tsv", "append")
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz", "p.jsonl"])
def test_an_append_that_breaks_off_leaves_what_was_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    format = name.split(".")[1]
    output.write(ROWS, path, format, "error")
    before = path.read_bytes()

    def breaking_off(table: pa.Table) -> object:
        yield ("x" * 100_000, "1")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output, "rows", breaking_off)
    with pytest.raises(CaladanError, match="No space left on device"):
        output.write(ROWS, path, format, "append")
    assert path.read_bytes() == before
    with pytest.raises(CaladanError, match="No space left on device"):
        output.write(ROWS, path, format, "overwrite")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_drafts_have_names_that_nobody_can_guess(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[str] = set()
    for _ in range(2):
        with create(tmp_path / "p.csv") as stream:
            stream.write(b"1,2\n")
            seen |= {p.name for p in tmp_path.iterdir()} - {"p.csv"}
    assert len(seen) == 2
    assert not any(str(os.getpid()) == name.rsplit(".", 1)[-1] for name in seen)


def test_a_link_in_the_way_of_a_draft_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(os, "urandom", bytes)  # even if it could be guessed
    known = tmp_path / f".p.csv.{bytes(8).hex()}"
    known.symlink_to(victim)
    with pytest.raises(CaladanError, match="C037"):
        output.write(ROWS, tmp_path / "p.csv", "csv", "error")
    assert victim.read_text() == "precious"
    with pytest.raises(FileExistsError):
        new_file(known)


def test_a_link_in_the_way_of_a_checkpoint_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "known")
    saved = SavePoint(3, "0" * 16, 1)
    (tmp_path / f"000000003-{'0' * 16}-0of1.saved.known.part").symlink_to(victim)
    with pytest.raises(FileExistsError):
        CheckpointFiles(str(tmp_path), lambda: None).write(saved, 0, CheckpointState(0, {}), [])
    assert victim.read_text() == "precious"


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("")
    output.write(ROWS, tmp_path / "p.csv", "csv", "error")
    assert (tmp_path / "p.csv").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    output.write_text("/dev/null", "gone")
    assert not Path("/dev/null").is_file()


def test_a_report_is_whole_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaladanError, match="C037"):
        output.write_text(tmp_path / "file" / "report.html", "text")
    with pytest.raises(CaladanError, match="C037"):
        output.write_text(tmp_path / "new" / "report.html", "text")
    output.write_text(tmp_path / "report.html", "text")
    assert (tmp_path / "report.html").read_text() == "text"


FULL = """
import resource, signal, sys
from pathlib import Path
import pyarrow as pa
from caladan.data import output
from caladan.program.diagnostics import CaladanError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write that exceeds the limit is an OSError
rows = pa.table({"A": range(200_000), "B": [str(i * 7919 % 100_003) for i in range(200_000)]})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for name in sys.argv[2:]:
    try:
        output.write(rows, Path(sys.argv[1], name), name.split(".")[1], "error")
    except CaladanError as problem:
        assert "C037" in str(problem), problem
        assert "File too large" in str(problem), problem
    else:
        sys.exit(f"{name} was written")
"""


def test_a_full_disk_is_an_error_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """In a process of its own: the ORC writer of Arrow ended it."""
    names = ["p.parquet", "p.orc", "p.csv", "p.csv.gz", "p.csv.zst", "p.tsv", "p.json", "p.jsonl"]
    subprocess.run([sys.executable, "-c", FULL, str(tmp_path), *names], check=True)
    assert list(tmp_path.iterdir()) == []

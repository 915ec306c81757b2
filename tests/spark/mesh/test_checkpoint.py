"""Parts that are lost and go on from what was saved, side by side in one process."""

import itertools
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from tests.differential.running import check_same, run
from tests.programs.answers import answered
from tests.programs.corpus import Folder, in_turn
from tests.spark.mesh.engine import PartsEngine
from tests.spark.mesh.recursive import RECURSIVE
from tests.spark.mesh.together import Ending, Lost, run_parts
from tests.strategies.random_programs import RandomProgram, random_programs

import caladan
from caladan.columns.interner import Tuples
from caladan.engines.spark.mesh.checkpoint import (
    CheckpointFiles,
    CorruptFile,
    SavePoint,
    folder_of,
    remove_saved,
)
from caladan.engines.spark.mesh.recovery import Recovery
from caladan.engines.spark.mesh.shard import Shard
from caladan.engines.spark.mesh.skew import SkewLimits
from caladan.fixpoint.limits import Limits
from caladan.language import parse
from caladan.language.deals import unparse
from caladan.pipeline import compile_program
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram
from caladan.session.session import Session

TASKS = 3
ARC = "database({arc(A: integer, B: integer)}).\n"
CLOSURE = ARC + "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B). query tc(A, B)."
CHAIN = {"arc": pa.table({"A": pa.array(range(40), pa.int32()), "B": range(1, 41)})}


class SaveRequest:
    """Runs parts that save after every round, one attempt after another."""

    def __init__(
        self,
        folder: Path,
        *,
        local: bool = False,
        splitting: SkewLimits = SkewLimits(0),  # noqa: B008
    ) -> None:
        self.folder, self.local, self.splitting = folder, local, splitting
        self.attempts = 0
        self.resumed: list[int] = []
        self.lost: list[str] = []

    def run(
        self,
        program: DeltaProgram,
        tables: Mapping[str, pa.Table],
        lasting: int | None = None,
        options: Options = Options(),  # noqa: B008
        tasks: int = TASKS,
    ) -> tuple[list[Shard], list[Ending]]:
        self.attempts += 1
        attempt = f"{self.attempts:016x}"

        def keeper(part: Shard, me: int) -> Recovery:
            name = folder_of(part.fingerprint())
            files = CheckpointFiles(f"{self.folder}/{name}", lambda: None)
            return Recovery(files, attempt, 0, self.resumed.append, self.lost.append)

        return run_parts(
            program, tables, tasks, options,
            local=self.local, keeper=keeper, lasting=lasting, splitting=self.splitting,
        )  # fmt: skip

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*/*"))


class LosingEngine(PartsEngine):
    """Loses its tasks again and again, each time a little later; as many go on, or others."""

    def __init__(self, saving: SaveRequest, *tasks: int, every: int) -> None:
        super().__init__(tasks[0], local=saving.local)
        self.saving, self.every = saving, every
        self.sizes = tasks

    def parts(self, program: DeltaProgram, given: Mapping[str, pa.Table]) -> list[Shard]:
        sizes = itertools.cycle(self.sizes)
        for _ in range(8):
            try:
                return self.saving.run(program, given, 3 + self.every, tasks=next(sizes))[0]
            except Lost:
                continue
        return self.saving.run(program, given, tasks=next(sizes))[0]


@pytest.fixture
def saving(tmp_path: Path) -> SaveRequest:
    return SaveRequest(tmp_path)


def closure(program: str = CLOSURE) -> DeltaProgram:
    return compile_program(parse(program), {}, {}, demand=False).delta


def pairs(parts: list[Shard], name: str = "tc") -> set[tuple[object, ...]]:
    rows = [row for part in parts for row in part.owned(name).arrow().to_pylist()]
    found = {tuple(row.values()) for row in rows}
    assert len(found) == len(rows)
    return found


WANTED = {(a, b) for b in range(41) for a in range(b)}


# ── The same answers ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("folder", "setting"),
    in_turn(
        RECURSIVE,
        ((2,), SkewLimits(1e-6, least=1)),
        ((2, 3, 1, 4), SkewLimits(1e-6, least=1, moving=0)),
    ),
)
def test_program(
    folder: Folder, setting: tuple[tuple[int, ...], SkewLimits], tmp_path: Path
) -> None:
    """Every kind of relation there is: sets, best values, sums, texts that rules make."""
    sizes, splitting = setting
    saving = SaveRequest(tmp_path, splitting=splitting)
    db = Session(LosingEngine(saving, *sizes, every=2))
    answered(db, folder, is_explained=False)


@settings(max_examples=25)  # each of them is run up to nine times
@given(
    random_programs(layers=6),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.integers(0, 2),
    st.booleans(),
)
def test_random_programs(given: RandomProgram, sizes: list[int], every: int, local: bool) -> None:
    text = unparse(given.program)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        splitting = SkewLimits(1e-6, least=1, moving=every - 1) if every else SkewLimits(0)
        saving = SaveRequest(Path(folder), local=local, splitting=splitting)
        db = Session(LosingEngine(saving, *sizes, every=every))
        for name, rows in given.facts.items():
            db.add(name, rows)
        found = [answer.rows() for answer in db.run(text).answers]
    check_same(found, run("reference", text, given.facts), given)


@pytest.mark.parametrize("lasting", range(2, 8))
def test_tasks_go_on_where_they_were(saving: SaveRequest, lasting: int) -> None:
    """One exchange tells what was found before, one is that of the exit rules."""
    with pytest.raises(Lost):
        saving.run(closure(), CHAIN, lasting)
    parts, endings = saving.run(closure(), CHAIN)
    assert pairs(parts) == WANTED
    assert saving.resumed == [lasting - 1] * TASKS
    fresh = SaveRequest(saving.folder / "fresh").run(closure(), CHAIN)
    assert [(e.rounds, e.facts) for e in endings] == [(e.rounds, e.facts) for e in fresh[1]]
    assert [_counts(part) for part in parts] == [_counts(part) for part in fresh[0]]


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2), (4, 1), (1, 4), (2, 5)])
@pytest.mark.parametrize("splitting", [SkewLimits(0), SkewLimits(0.1, least=4, moving=0)])
def test_other_tasks_go_on(
    saving: SaveRequest, before: int, after: int, splitting: SkewLimits
) -> None:
    """A cluster of another size has what the first had, and derives only what is missing."""
    saving.splitting = splitting
    with pytest.raises(Lost):
        saving.run(closure(), CHAIN, 5, tasks=before)
    parts, endings = saving.run(closure(), CHAIN, tasks=after)
    assert pairs(parts) == WANTED
    if not splitting.share:  # else some of the five exchanges were for that
        assert saving.resumed == [4] * after
    assert len(saving.resumed) == after
    assert saving.lost == []
    fresh = run_parts(closure(), CHAIN, after)[1]
    assert endings[0].rounds <= fresh[0].rounds + 1
    # Of those that were there before, none is left in the end.
    assert {path.name.rpartition("of")[2] for path in saving.files} == {f"{after}.saved"}


def test_the_round_before_is_damaged_for_other_tasks_too(saving: SaveRequest) -> None:
    with pytest.raises(Lost):
        saving.run(closure(), CHAIN, 5)
    saving.files[-1].write_bytes(b"")
    parts, _ = saving.run(closure(), CHAIN, tasks=2)
    assert pairs(parts) == WANTED
    assert saving.resumed == [3] * 2
    assert saving.lost == [
        "what was saved before round 4 is not used: it is not a checkpoint of this version"
    ]


@pytest.mark.parametrize("after", [2, TASKS])
def test_what_was_split_before_is_known_to_those_who_go_on(saving: SaveRequest, after: int) -> None:
    saving.splitting = SkewLimits(1e-6, least=1, moving=0)
    with pytest.raises(Lost):
        saving.run(closure(), CHAIN, 6)
    saving.splitting = SkewLimits(0)
    parts, _ = saving.run(closure(), CHAIN, tasks=after)
    assert pairs(parts) == WANTED
    assert len(saving.resumed) == after
    assert (parts[0].heavy > 0) == (after == TASKS)


def _counts(part: Shard) -> dict[tuple[int, str | None], int]:
    return {rule: count for rule, (count, _) in part.events.solutions.items()}


# ── What is not used ─────────────────────────────────────────────────────────────────────────────


def test_the_last_round_is_damaged(saving: SaveRequest) -> None:
    """All go on one round earlier, though two of the three have a good file."""
    with pytest.raises(Lost):
        saving.run(closure(), CHAIN, 5)
    last = saving.files[-1]
    data = bytearray(last.read_bytes())
    data[len(data) // 2] ^= 1
    last.write_bytes(data)
    parts, _ = saving.run(closure(), CHAIN)
    assert pairs(parts) == WANTED
    assert saving.resumed == [3] * TASKS
    assert saving.lost == ["what was saved before round 4 is not used: its checksum is wrong"]


@pytest.mark.parametrize("content", [b"", b"caladan", bytes(1000), None])
def test_files_are_cut_short_or_gone(saving: SaveRequest, content: bytes | None) -> None:
    with pytest.raises(Lost):
        saving.run(closure(), CHAIN, 5)
    for path in saving.files:
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
    parts, _ = saving.run(closure(), CHAIN)
    assert pairs(parts) == WANTED
    assert saving.resumed == []
    assert len(saving.lost) == (0 if content is None else 2 * TASKS)


def test_a_round_that_not_all_have_saved_does_not_count(saving: SaveRequest) -> None:
    with pytest.raises(Lost):
        saving.run(closure(), CHAIN, 5)
    saving.files[-1].unlink()
    parts, _ = saving.run(closure(), CHAIN)
    assert pairs(parts) == WANTED
    assert saving.resumed == [3] * TASKS


def test_parts_of_two_attempts_are_not_put_together(saving: SaveRequest) -> None:
    with pytest.raises(Lost):
        saving.run(closure(), CHAIN, 4)
    first = saving.files[-1]
    first.rename(first.with_name(first.name.replace("0001-", "0009-")))
    parts, _ = saving.run(closure(), CHAIN)
    assert pairs(parts) == WANTED
    assert saving.resumed == [2] * TASKS


@pytest.mark.parametrize("other", ["more facts", "another rule", "another way", "another type"])
def test_what_was_saved_for_something_else(saving: SaveRequest, other: str) -> None:
    with pytest.raises(Lost):
        saving.run(closure(), CHAIN, 5)
    program, tables = CLOSURE, CHAIN
    if other == "more facts":
        tables = {"arc": pa.table({"A": pa.array(range(39), pa.int32()), "B": range(1, 40)})}
    elif other == "another rule":
        program = CLOSURE.replace("tc(A, C), tc(C, B)", "tc(A, C), tc(C, B), A < 3")
    elif other == "another way":
        saving.local = True
    else:
        program = CLOSURE.replace("B: integer", "B: long")
    saving.run(closure(program), tables)
    assert saving.resumed == []
    assert saving.lost == []


def test_the_order_in_which_facts_were_read_does_not_matter(saving: SaveRequest) -> None:
    with pytest.raises(Lost):
        saving.run(closure(), CHAIN, 5)
    turned = {"arc": CHAIN["arc"].take(list(reversed(range(40))))}
    assert pairs(saving.run(closure(), turned)[0]) == WANTED
    assert saving.resumed == [4] * TASKS


def test_limits_that_would_have_ended_the_run_earlier(saving: SaveRequest) -> None:
    """A run with a limit never has more than the limit allows, whatever was saved."""
    with pytest.raises(Lost):
        saving.run(closure(), CHAIN, 5)
    parts, endings = saving.run(closure(), CHAIN, options=Options(max_rounds=2))
    assert saving.resumed == []
    assert all("rounds" in str(ending.reached) for ending in endings)
    alone = run_parts(closure(), CHAIN, TASKS, Options(max_rounds=2))[0]
    assert pairs(parts) == pairs(alone)


def test_a_run_that_met_a_limit_goes_on_with_a_larger_one(saving: SaveRequest) -> None:
    _, endings = saving.run(closure(), CHAIN, options=Options(max_rounds=4))
    assert "rounds were not enough" in str(endings[0].reached)
    parts, _ = saving.run(closure(), CHAIN)
    assert saving.resumed == [4] * TASKS
    assert pairs(parts) == WANTED


# ── Files ────────────────────────────────────────────────────────────────────────────────────────


def test_only_the_last_two_rounds_are_kept(saving: SaveRequest) -> None:
    saving.run(closure(), CHAIN)
    rounds = {path.name.partition("-")[0] for path in saving.files}
    assert len(rounds) == 2
    assert len(saving.files) == 2 * TASKS


def test_where_nothing_can_be_written_tasks_go_on(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"in the way")
    saving = SaveRequest(blocked)
    assert pairs(saving.run(closure(), CHAIN)[0]) == WANTED
    assert len(saving.lost) == TASKS
    assert saving.lost[0].startswith("nothing is saved from round 1 on: ")


def test_only_folders_of_checkpoints_are_removed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / folder_of("a" * 64)).mkdir()
    for name in ("data", "../" + tmp_path.name, "", folder_of("a" * 64)):
        remove_saved(str(tmp_path), name)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_file_without_a_part(tmp_path: Path) -> None:
    files = CheckpointFiles(str(tmp_path), lambda: None)
    assert files.found() == {}
    with pytest.raises(CorruptFile, match="cannot be read"):
        files.read(SavePoint(3, "0" * 16, 1), 0)


def test_other_files_are_not_looked_at(tmp_path: Path) -> None:
    attempt = "00000000000000ff"
    for name in ("notes.txt", f"000000003-{attempt}-1of2.saved.part", "3-zz-0of1.saved"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / f"000000003-{attempt}-0of2.saved").write_bytes(b"")
    (tmp_path / f"000000004-{attempt}-0of1.saved").write_bytes(b"")
    found = CheckpointFiles(str(tmp_path), lambda: None).found()
    assert found == {SavePoint(3, attempt, 2): False, SavePoint(4, attempt, 1): True}


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    """Whatever the seed of Python's hashes: sets and dictionaries must not show."""
    script = (
        "from tests.spark.mesh.test_checkpoint import CHAIN, closure\n"
        "from caladan.engines.spark.mesh.shard import Shard\n"
        "from caladan.fixpoint.limits import Limits\n"
        "from caladan.program.options import Options\n"
        "print(Shard(closure(), CHAIN, 0, 3, Limits(Options())).fingerprint())"
    )
    there = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONHASHSEED": "1", "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert there.strip() == Shard(closure(), CHAIN, 0, 3, Limits(Options())).fingerprint()


@settings(max_examples=30)
@given(st.integers(0, 4), st.lists(st.tuples(*[st.integers(0, 3)] * 4), max_size=40))
def test_numbered_tuples_come_back(arity: int, rows: list[tuple[int, ...]]) -> None:
    tuples = Tuples(arity)
    columns = [np.array([row[c] for row in rows], np.uint32) for c in range(arity)]
    tuples.ids(columns, len(rows))
    again = Tuples(arity)
    ids, fresh = again.ids(tuples.columns(), len(tuples))
    assert ids.tolist() == fresh.tolist() == list(range(len(tuples)))

"""Programs that are saved and restored: nothing is lost, whenever a process is killed."""

import os
import random
import signal
import subprocess
import sys
import time
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.ticks.test_random import GIVEN, Made, some

from caladan import CaladanError, bloom


class Store(bloom.Bloom):
    put = bloom.input("key", "value")
    state = bloom.table("key", to="value")
    log = bloom.table("n", "key")
    most = bloom.lmax()
    seen = bloom.lset()
    spread = bloom.lmap()
    best = bloom.table("key", to="value: lmin")
    sent = bloom.loopback("key")
    got = bloom.table("key")

    @bloom.rules
    def store(self) -> None:
        self.state <<= self.put
        self.log += self.put.project(bloom.now(), "key")
        self.most |= self.put.map(lambda row: (row.value,))
        self.seen |= self.put.project("key")
        self.best |= self.put
        self.sent @= self.put.project("key")
        self.got |= self.sent


def contents(program: bloom.Bloom) -> dict[str, Any]:
    return {name: program[name].rows() for name in program.collections}


def test_what_is_saved_is_what_is_restored(tmp_path: Path) -> None:
    one = Store()
    for key, value in [("a", 3), ("b", 5), ("a", 4)]:
        one.insert("put", [(key, value)])
        one.tick()
    one.insert("spread", {"x": bloom.LMax(3), "y": bloom.LSet({1})})
    one.insert("put", [("c", 1)])
    one.save(tmp_path / "state.arrow")
    other = Store.restore(tmp_path / "state.arrow")
    for _ in range(3):
        one.tick()
        other.tick()
        assert contents(one) == contents(other)
    assert other.stats.ticks == one.stats.ticks == 6
    assert other["log"].rows() == [(0, "a"), (1, "b"), (2, "a"), (3, "c")]
    assert other["got"].rows() == [("a",), ("b",), ("c",)]
    assert other.value("spread") == {"x": 3, "y": frozenset({1})}


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_go_on_as_if_nothing_had_happened(seed: int, tmp_path: Path) -> None:
    made = Made(seed)
    draw = random.Random(seed)
    whole, parts = bloom.program(made.text()), bloom.program(made.text())
    tables = [n for n, kind in made.kinds.items() if kind == "table"]
    for _ in range(12):
        insert, delete = some(draw, list(GIVEN), 2), some(draw, tables, 2)
        for each in (whole, parts):
            for name, facts in insert.items():
                each.insert(name, facts)
            for name, facts in delete.items():
                each.delete(name, facts)
        parts.save(tmp_path / "p.arrow")
        parts = type(parts).restore(tmp_path / "p.arrow")
        whole.tick()
        parts.tick()
        assert contents(whole) == contents(parts)


VALUES = [
    None, True, 7, 2**80, 1.5, float("inf"), "text", b"\x00\xff", (1, ("a", None)),
    frozenset({1, "x"}), Decimal("1.10"), date(2026, 1, 2), datetime(2026, 1, 2, 3, 4),
    timedelta(3),
]  # fmt: skip


def test_values_keep_their_types(tmp_path: Path) -> None:
    program = bloom.program("table t(n, v).")
    program.insert("t", list(enumerate(VALUES)))
    program.tick().save(tmp_path / "v.arrow")
    found = dict(type(program).restore(tmp_path / "v.arrow").tick()["t"].rows())
    assert found == dict(enumerate(VALUES))
    assert [type(found[i]) for i in range(len(VALUES))] == list(map(type, VALUES))


def test_a_type_without_a_form_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "t.arrow"
    program = bloom.program("table t(n, v).")
    program.insert("t", [(1, 2)])
    program.tick().save(path)
    before = path.read_bytes()
    program.insert("t", [(2, object())])
    program.tick()
    with pytest.raises(CaladanError, match=r"column v of `t` cannot be saved"):
        program.save(path)
    assert path.read_bytes() == before


def test_files_that_are_none(tmp_path: Path) -> None:
    program = bloom.program("table t(n, v).")
    program.tick().save(tmp_path / "t.arrow")
    with pytest.raises(CaladanError, match="C030"):
        Store.restore(tmp_path / "nothing")
    with pytest.raises(CaladanError, match="which this program does not declare so"):
        Store.restore(tmp_path / "t.arrow")
    whole = (tmp_path / "t.arrow").read_bytes()
    for data in (b"", b"hello", whole[: len(whole) // 2], whole[:-20]):
        (tmp_path / "broken").write_bytes(data)
        with pytest.raises(CaladanError, match="C035"):
            type(program).restore(tmp_path / "broken")


COUNTER = """
import sys
from caladan import bloom
from pathlib import Path

class Counter(bloom.Bloom):
    n = bloom.table("i")

    @bloom.rules
    def count(self):
        self.n |= [(bloom.now(),)]

path = Path(sys.argv[1])
program = Counter.restore(path) if path.exists() else Counter()
while True:
    program.tick()
    program.save(path)
    print(program.stats.ticks, flush=True)
"""


def test_a_killed_process_goes_on_at_the_last_saved_tick(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    reached = 0
    for _ in range(3):
        command = [sys.executable, "-c", COUNTER, str(tmp_path / "n.arrow")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as run:
            assert run.stdout is not None
            first = int(run.stdout.readline())
            assert first in (reached + 1, reached + 2), "the last save may not have been printed"
            time.sleep(0.1)
            run.send_signal(signal.SIGKILL)
            lines = [first, *map(int, run.stdout.read().split("\n")[:-1])]
        assert lines == list(range(first, first + len(lines)))
        reached = lines[-1]

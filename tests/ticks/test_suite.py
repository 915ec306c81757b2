"""Every case of the suite of behaviours, tick by tick, in every mode.

behaviours.json has the cases; where CALADAN_SUITES leads to a newer suite, these are tried too.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.ticks.programs import PROGRAMS

from caladan import CaladanError, bloom

HERE = Path(__file__).parents[2]
SUITES = Path(os.environ.get("CALADAN_SUITES", HERE.parent / "shared" / "suites"))
PATHS = (Path(__file__).parent / "behaviours.json", SUITES / "bloom_cases.json")
FOUND = [json.loads(path.read_text("utf-8"))["cases"] for path in PATHS if path.exists()]
CASES = list({case["name"]: case for cases in FOUND for case in cases}.values())

MODES: dict[str, dict[str, Any]] = {
    "lazy": {"safe": False},
    "rescan": {"safe": False, "repair": "never"},
    "safe": {"safe": True},
}


def test_every_case_has_its_program() -> None:
    assert {case["name"] for case in CASES} == set(PROGRAMS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any], mode: str) -> None:
    made = PROGRAMS[case["name"]]()
    if "expect_error" in case:
        with pytest.raises(CaladanError, match="C014"):
            made(**MODES[mode])
        return
    program = made(**MODES[mode], network=bloom.Network(), address="here")
    for name, stratum in case.get("strata", {}).items():
        assert program.wired.strata()[name] == stratum
    for name, rows in case.get("bootstrap", {}).items():
        collection, _, sent = name.partition(" ")
        rows = [rows] if isinstance(rows, int) else rows
        if sent:
            for row in rows:
                program.deliver(collection, tuple(row))
        elif collection not in ("xx.t1",):
            program.insert(collection, rows)
    for tick in case["ticks"]:
        for name, rows in tick.get("insert", {}).items():
            program.insert(name, rows)
        for name, rows in tick.get("delete", {}).items():
            program.delete(name, rows)
        if "expect_error" in tick:
            with pytest.raises(bloom.KeyViolation, match="C070"):
                program.tick()
            continue
        program.tick()
        for name, expected in tick["expect"].items():
            assert held(program, name, expected) == plain(expected), name
    if not case["ticks"]:
        program.tick()


def held(program: bloom.Bloom, name: str, expected: Any) -> Any:
    """What a collection holds, in the notation of the suite."""
    contents = program[name]
    if program.wired.schemas[name].kind.value == "lattice":
        value = contents.value
        return plain(list(value) if isinstance(value, set | frozenset) else value)
    if isinstance(expected, dict):
        return {"count": contents.count()}
    return plain(contents.rows())


def plain(value: Any) -> Any:
    """Lists and sets without their order, and keys as JSON has them."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return sorted((plain(each) for each in value), key=repr)
    return value


def test_messages_go_round_until_they_are_done() -> None:
    program = PROGRAMS["loopback_countdown"]()(network=bloom.Network(), address="here")
    program.deliver("loop_chan", (0,))
    done: list[str] = []
    for _ in range(12):
        program.tick()
        done += [n for n in ("loopback_done", "mcast_done") if program[n].rows() == [(5,)]]
    assert sorted(done) == ["loopback_done", "mcast_done"]


def test_a_filter_drops_and_holds_back() -> None:
    made = PROGRAMS["channel_filter_drop_and_batch"]()
    one = made(network=bloom.Network(), address="here")
    one.filter("chn", lambda rows: ([row for row in rows if row[1] == 3], []))
    one.insert("input_t", [("here", i) for i in range(26)])
    assert one.tick(2)["chn"].rows() == [("here", 3)]
    two = made(network=bloom.Network(), address="here")
    two.filter("chn", lambda rows: (rows, []) if len(rows) >= 12 else ([], rows))
    sizes: list[int] = []
    for i in range(14):
        two.insert("input_t", [("here", i)])
        sizes.append(len(two.tick()["chn"]))
    assert sizes == [0] * 12 + [12, 0]

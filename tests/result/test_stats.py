"""Stats: what events add up to."""

from __future__ import annotations

import json
from dataclasses import astuple, fields
from typing import Any

import numpy as np
import pytest

import caladan as cal
from caladan.program import events
from caladan.program.events import (
    CliqueDone,
    CliqueStarted,
    DataRead,
    Event,
    Listener,
    RoundDone,
    RuleDone,
    RuleSkipped,
    RunDone,
    RunStarted,
    Several,
    ValuesSplit,
)
from caladan.session.listeners import Progress, progress
from caladan.session.stats import Stats


def heard() -> Stats:
    stats = Stats()
    stats.tell(DataRead("arc", 3, 0.1))
    stats.tell(RunStarted("reference", 2))
    stats.tell(CliqueStarted(("tc",), recursive=True, strategy="frame"))
    stats.tell(RuleDone(1, None, 3, 0.2))
    stats.tell(RoundDone(1, 3, 3, 0.2))
    stats.tell(RuleDone(2, "tc", 2, 0.1))
    stats.tell(RuleSkipped(2, "tc"))
    stats.tell(RuleDone(2, "tc", None, 0.1))
    stats.tell(RoundDone(2, 2, 5, 0.3))
    stats.tell(CliqueDone(("tc",), 2, 5, 0.6))
    stats.tell(CliqueStarted(("q",), recursive=False, strategy="frame"))
    stats.tell(RoundDone(1, 4, 4, 0.1))
    stats.tell(RunDone(0.8))
    return stats


def test_events_add_up() -> None:
    stats = heard()
    assert (stats.rounds, stats.facts, stats.skipped, stats.strategy) == (3, 9, 1, "frame")
    assert [(r.rule, r.seed, r.evaluated, r.facts) for r in stats.cliques[0].rules] == [
        (1, None, 1, 3),
        (2, "tc", 2, 2),
    ]
    assert stats.peak_memory is None or stats.peak_memory > 1_000_000


def test_stats_are_json() -> None:
    plain = json.loads(json.dumps(heard().to_dict()))
    assert plain["facts"] == 9
    assert plain["cliques"][0]["relations"] == ["tc"]


def test_stats_are_a_table() -> None:
    lines = str(heard()).splitlines()
    assert lines[0].split() == ["clique", "strategy", "rounds", "facts", "seconds"]
    assert lines[1].split() == ["tc", "frame", "2", "5", "0.600"]
    assert "rule 2 δtc" in lines[3]
    assert lines[-1].split() == ["total", "reference", "3", "9", "0.800"]


def test_a_run_has_stats() -> None:
    db = cal.connect("reference")
    db.add("arc", [(1, 2), (2, 3)])
    out = db.run("tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B).")
    assert out.stats.engine == "reference"
    assert out.stats.facts == 3
    assert out.stats.data[0].facts == 2


def test_progress_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress() is None
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert isinstance(progress(), Progress)


def test_progress_is_taken_away(capsys: pytest.CaptureFixture[str]) -> None:
    live = Progress()
    live.say("starting")
    live.tell(RunStarted("reference", 1))
    live.tell(CliqueStarted(("tc",), recursive=True, strategy="frame"))
    live.tell(RoundDone(1, 3, 3, 0.1))
    live.tell(CliqueDone(("tc",), 1, 3, 0.1))
    live.tell(RunDone(0.1))
    live.close()
    assert capsys.readouterr().out == ""


def test_values_that_were_split() -> None:
    stats = Stats()
    stats.tell(CliqueStarted(["tc"], recursive=True, strategy="meshed"))
    stats.tell(ValuesSplit(1, ["17"]))
    assert "\n  split 1 frequent value: 17\n" in str(stats)
    stats.tell(ValuesSplit(3, ["17", "a name that is much too long to be shown in whole"]))
    assert "\n  split 3 frequent values: 17, a name that is much too…, …\n" in str(stats)
    stats.tell(ValuesSplit(2, []))
    assert "\n  split 2 frequent values\n" in str(stats)


def sent(event: Event) -> Event | None:
    """An event after its way from one process to another."""
    return events.from_plain(
        json.loads(json.dumps(events.to_plain(event), default=events.sendable))
    )


@pytest.mark.parametrize("kind", events.KINDS.values(), ids=lambda kind: kind.__name__)
def test_numbers_of_numpy_become_plain(kind: type[Any]) -> None:
    """Kernels count in NumPy's numbers; listeners, and JSON, get Python's."""
    kinds = {"int": np.int64(3), "float": np.float32(0.5), "bool": np.bool_(True)}
    event = kind(*(kinds.get(str(f.type).partition(" ")[0], "name") for f in fields(kind)))
    told: list[Any] = []
    listener = Listener()
    setattr(listener, "tell", told.append)  # noqa: B010
    Several(listener).tell(event)
    assert {type(value) for value in astuple(told[0])} <= {int, float, bool, str}
    assert told == [event]
    assert (
        events.from_plain(json.loads(json.dumps(events.to_plain(event), default=events.sendable)))
        == event
    )


def test_an_event_goes_from_process_to_process_as_it_is() -> None:
    event = events.RelationHeld("tc", 3, 48, 0, "rows", (("A", "B"), ("B",)))
    assert (
        events.from_plain(json.loads(json.dumps(events.to_plain(event), default=events.sendable)))
        == event
    )
    assert events.from_plain(["Unheard", 1]) is None


@pytest.mark.parametrize("rows", [40, 4000])
@pytest.mark.parametrize(
    "rules",
    [
        "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B).",
        "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B), A ~= B. query tc(A, B).",
        "d(1, 0). d(Y, mmin<D>) <- d(X, E), arc(X, Y), D = E + 1. query d(X, D).",
        "n(A, count<B>) <- arc(A, B). t(A, B, C) <- arc(A, B), arc(B, C), arc(C, A).",
    ],
)
def test_stats_of_a_run_are_json(rules: str, rows: int) -> None:
    with cal.connect("embedded") as db:
        db.add("arc", [(i, i % 17 + 1) for i in range(rows)])
        out = db.run(rules, search="paul")
        assert json.loads(json.dumps(out.stats.to_dict()))["facts"] == out.stats.facts

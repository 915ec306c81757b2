"""Fuzzing finds what is wrong, makes it small, and writes it so that the corpus can replay it."""

import time
import tomllib
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests import fuzz
from tests.programs.answers import Changes, answered, followed
from tests.programs.corpus import Folder

import caladan
from caladan.fixpoint.planner import ReadyRule
from caladan.program import thresholds
from caladan.program.thresholds import Thresholds

TEXT = "database({e(A: integer, B: integer)}).\np(X, Z) <- e(X, Y), e(Y, Z), e(Z, X).\n"


def test_what_fails_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here no rule of a recursion is evaluated after the first round."""
    state = fuzz.Fuzzing(tmp_path, time.monotonic() + 250, shrink=False)
    small = fuzz.cases().filter(
        lambda case: not (case.large or case.tasks or case.changes or case.limits)
    )
    with monkeypatch.context() as patch:
        patch.setattr(ReadyRule, "may_derive", lambda self: self.rule.seed is None)
        while not state.failures and state.cases < 2000:
            state.some(small, "embedded", Random(state.cases), 100)
        (folder,) = tmp_path.iterdir()
        found = written(folder)
        with pytest.raises(AssertionError):
            replayed(found)
    replayed(found)


def written(folder: Path) -> Folder:
    return Folder(folder, tomllib.loads((folder / "meta.toml").read_text(encoding="utf-8")))


def replayed(folder: Folder) -> None:
    with thresholds.override(**folder.replay["thresholds"]):
        answered(caladan.connect("embedded"), folder, search=folder.replay.get("search"))


def test_a_case_is_a_folder_of_the_corpus(tmp_path: Path) -> None:
    text = TEXT + "z() <- e(1, 2). query p(X, 3). query p(X, Y). query z()."
    facts: Any = {"e": [(1, 2), (2, 3), (3, 1)]}
    case = fuzz.Case(text, facts, Thresholds(room=3, closure_byte=0.5), 1, "leto")
    fuzz.write(tmp_path / "made", case, fuzz.wanted(case), 'a "quoted" \\ reason')
    folder = written(tmp_path / "made")
    assert folder.meta["description"] == "a 'quoted' \\ reason"
    chosen = {"room": 3, "closure_byte": 0.5}
    assert folder.replay["thresholds"] == {"small_rounds_cold": 0, **chosen}
    assert (folder.replay["threads"], folder.replay["search"]) == (1, "leto")
    assert folder.queries() == ["p.1", "p.2", "z"]
    assert folder.expected("z").rows == [()]
    replayed(folder)


def test_a_case_that_was_watched_is_one_too(tmp_path: Path) -> None:
    changes = Changes({"e": [(1, 2), (2, 3)]}, [("e", [(1, 2)], [(3, 2)]), ("e", [], [(2, 2)])])
    facts: Any = {"e": [(2, 3), (3, 2), (2, 2)]}
    case = fuzz.Case(TEXT + "query p(X, Y).", facts, Thresholds(), changes=changes)
    right = fuzz.wanted(case)
    fuzz.check("embedded", case, right)
    fuzz.write(tmp_path / "made", case, right, "a reason")
    followed(caladan.connect("embedded"), written(tmp_path / "made"))
    (tmp_path / "made" / "expected" / "p.csv").write_text("integer,integer\n9,9\n")
    with pytest.raises(AssertionError):
        followed(caladan.connect("embedded"), written(tmp_path / "made"))


def test_it_ends_in_time_and_says_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "PATIENCE", 200)  # a busy machine may take long for a single case
    started = time.monotonic()
    assert fuzz.main(["--minutes", "0.05", "--out", str(tmp_path), "--seed", "1"]) == 0
    assert time.monotonic() - started < 250
    assert "cases, 0 failed" in capsys.readouterr().out


def test_a_product_without_a_condition_stops_at_its_limit(tmp_path: Path) -> None:
    text = (
        "database({e(A: integer)}).\nq(W, X, Y, Z) <- e(W), e(X), e(Y), e(Z).\nquery q(A, B, C, D)."
    )
    facts: Any = {"e": [(i,) for i in range(200)]}
    case = fuzz.Case(text, facts, Thresholds(), limits={"timeout": 1, "max_facts": 1000})
    fuzz.check_stops(case)
    fuzz.write(tmp_path / "made", case, fuzz.Answered([]), "a reason")
    assert written(tmp_path / "made").replay["max_facts"] == 1000

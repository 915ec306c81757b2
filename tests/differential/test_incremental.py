"""Programs that are watched while facts come and go: at every step what a fresh run derives."""

import warnings
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings, strategies as st
from tests.differential.running import check_same, run
from tests.strategies.random_programs import STORED, Facts, RandomProgram, free, random_programs
from tests.strategies.random_rules import VALUES
from tests.strategies.random_thresholds import random_thresholds

import caladan
from caladan.language.deals import unparse
from caladan.program import thresholds
from caladan.program.thresholds import Thresholds

STEPS = 20


def fact(name: str, random: Random) -> tuple[Any, ...]:
    """Any fact of a stored relation; those of `dag` go one way."""
    row = tuple(random.choice(VALUES[kind]) for kind in STORED[name])
    return tuple(sorted(row)) if name == "dag" else row


def step(facts: Facts, random: Random) -> dict[str, tuple[list[Any], list[Any]]]:
    """What comes to and goes from some relations, a fact that is not there among it."""
    found: dict[str, tuple[list[Any], list[Any]]] = {}
    for name in random.sample(sorted(facts), random.randint(1, 2)):
        more = [fact(name, random) for _ in range(random.randint(0, 2))]
        more = [row for row in more if name != "dag" or row[0] < row[1]]
        less = random.sample(facts[name], min(len(facts[name]), random.randint(0, 2)))
        found[name] = (more, [*less, fact(name, random)] if random.random() < 0.2 else less)
    return found


def fresh(given: RandomProgram, facts: Facts) -> list[list[tuple[Any, ...]]] | None:
    try:
        return run("reference", unparse(given.program), facts)
    except caladan.CaladanError:
        return None


def follow(given: RandomProgram, random: Random) -> None:
    """Change the facts step by step, and compare with a run of the oracle at each."""
    given = replace(given, program=free(given.program))
    facts = {name: list(rows) for name, rows in given.facts.items()}
    if fresh(given, facts) is None:
        return
    db = caladan.connect("embedded")
    for name, rows in facts.items():
        db.add(name, rows)
    text = unparse(given.program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        live = db.watch(text)
        for number in range(STEPS):
            failed = False
            before = {name: set(live[name].rows()) for name in live}
            for name, (more, less) in step(facts, random).items():
                for change, rows in ((db.delete, less), (db.insert, more)):
                    try:
                        change(name, rows)
                    except caladan.CaladanError:
                        failed = True
                facts[name] = [row for row in facts[name] if row not in less]
                facts[name] += [row for row in dict.fromkeys(more) if row not in facts[name]]
            if failed or number % 4 == 3:
                wanted = fresh(given, facts)
                if wanted is None:
                    return
                if failed:  # between two changes of this step; the next change makes up for it
                    db.insert("e", [])
                got = [live[goal.atom.relation].rows() for goal in given.program.goals]
                check_same(got, wanted, given)
            for name in live:
                change = live.changes(name)
                added, removed = set(change.added.rows()), set(change.removed.rows())
                after = set(live[name].rows())
                assert (before[name] | added) - removed == after
                assert added == after - before[name]
                assert removed == before[name] - after


@settings(max_examples=max(5, settings().max_examples // 8))
@given(random_programs(layers=3), st.randoms(use_true_random=False))
def test_what_is_watched_is_what_a_fresh_run_derives(given: RandomProgram, random: Random) -> None:
    follow(given, random)


@settings(max_examples=max(5, settings().max_examples // 8))
@given(random_programs(layers=3), st.randoms(use_true_random=False), random_thresholds())
def test_whatever_way_is_taken(given: RandomProgram, random: Random, chosen: Thresholds) -> None:
    with thresholds.override(chosen):
        follow(given, random)

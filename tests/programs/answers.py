"""Whether a run of a program of the corpus answers what it must."""

import json
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.programs.compare import difference
from tests.programs.corpus import Folder
from tests.programs.truth import check_truth

import caladan
from caladan.session.live import Live

Rows: TypeAlias = list[tuple[Any, ...]]
Step: TypeAlias = tuple[str, Rows, Rows]
"""A relation, the facts that go, and those that come."""


@dataclass(frozen=True)
class Changes:
    """Facts that a program starts with, and what then goes and comes, step by step."""

    start: dict[str, Rows]
    steps: list[Step]


def follow(db: caladan.Session, program: str | Path, changes: Changes) -> Live:
    """Watch a program while its facts change; what is told of each change is what has changed."""
    for name, rows in changes.start.items():
        db.add(name, rows)
    live = db.watch(program)
    for name, less, more in changes.steps:
        before = {each: facts_of(live[each].rows()) for each in live}
        db.delete(name, less)
        db.insert(name, more)
        for each, old in before.items():
            change, new = live.changes(each), facts_of(live[each].rows())
            assert facts_of(change.added.rows()) == new - old, f"added to {each}"
            assert facts_of(change.removed.rows()) == old - new, f"removed from {each}"
    return live


def facts_of(rows: Rows) -> set[tuple[Any, ...]]:
    """Rows as a set in which all NaN are one value, as they are in relations."""
    return {tuple(math.nan if value != value else value for value in row) for row in rows}


def followed(db: caladan.Session, folder: Folder) -> None:
    """What is watched is in the end what a run over the last facts answers."""
    told = json.loads((folder.path / "changes.json").read_text(encoding="utf-8"))
    start = {name: [*map(tuple, rows)] for name, rows in told["start"].items()}
    steps = [(n, [*map(tuple, less)], [*map(tuple, more)]) for n, less, more in told["steps"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        live = follow(db, folder.file, Changes(start, steps))
        for stem, goal in zip(folder.queries(), folder.program.goals, strict=True):
            different = difference(live[goal.atom.relation].rows(), folder.expected(stem).rows)
            assert different is None, f"{stem}: {different}"


def answered(
    db: caladan.Session, folder: Folder, *, is_explained: bool = True, **options: Any
) -> caladan.Result:
    """Run a program over its facts: it answers what it must, and does what explain says.

    Engines that only tests have are not explained.
    """
    for relation, path in folder.facts.items():
        db.add(relation, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        out = db.run(folder.file, params=folder.params, **options)
        _check(folder, out)
        if is_explained:
            check_truth(db, folder.file, folder.params, out.stats, **options)
    return out


def _check(folder: Folder, out: caladan.Result) -> None:
    """Compare every answer and every exported relation with what is expected, types and all."""
    found = dict(zip(folder.queries(), out.answers, strict=True))
    found.update({stem: out[name] for name, stem in folder.exports().items()})
    for stem, relation in found.items():
        expected = folder.expected(stem)
        assert relation.types == tuple(map(str, expected.types)), stem
        different = difference(relation.rows(), expected.rows, ordered=folder.is_ordered)
        assert different is None, f"{stem}: {different}"

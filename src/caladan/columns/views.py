"""Views: the distinct facts of a relation under some of its columns, kept up with the relation.

A join that binds one variable after another asks a wide atom for a *prefix*: which values of a
column go with what is bound, whatever the other columns hold. A view has these prefixes as a
relation of its own, each fact once, so that counting, listing and testing them cost no more than in
a relation that never had the other columns. It may ask for columns to be equal, for atoms that
mention a variable twice.

A view takes in what its relation has committed since it was last looked at, and has versions as
that has: what is new in the view is what no older fact of the relation shows there. A rule that
starts with what is new, and reads the other columns later, has no use for that: a view `of_delta`
has whatever new facts show. Of groups whose values change there are views by their keys, which
stay; they are all one version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from caladan.columns.folded_relation import FoldedRelation
from caladan.columns.groups import GroupRelation
from caladan.columns.index import Index
from caladan.columns.layout import Keys, Mask, Words
from caladan.columns.membership import NO_KEYS
from caladan.columns.packed import PackedRelation
from caladan.columns.rows import RowRelation
from caladan.columns.runs import Run
from caladan.rules.body import Version

if TYPE_CHECKING:
    from caladan.columns.relation import StoredRelation


@dataclass(frozen=True, slots=True)
class ViewColumns:
    """The columns that a view has, those that have to be equal, and whether it is of new facts."""

    columns: tuple[int, ...]
    equal: tuple[tuple[int, int], ...] = ()
    of_delta: bool = False

    @property
    def needed(self) -> frozenset[int]:
        """The columns that decide what it has."""
        return frozenset((*self.columns, *(c for pair in self.equal for c in pair)))

    def named(self, columns: Sequence[str]) -> list[str]:
        """The columns of the relation, `_` for those that it does without."""
        return [name if i in self.columns else "_" for i, name in enumerate(columns)]


class ColumnView:
    """A relation under some of its columns; whoever reads it gets it as the relation is now."""

    def __init__(self, of: StoredRelation, shown: ViewColumns) -> None:
        self._of = of
        self._shown = shown
        self._follower: _Follower | None = None

    @property
    def relation(self) -> StoredRelation:
        """The view as a relation; its new facts are taken in."""
        return self._current(with_delta=True)

    @property
    def is_made(self) -> bool:
        """Whether anybody has looked."""
        return self._follower is not None

    @property
    def arity(self) -> int:
        return len(self._shown.columns)

    @property
    def nbytes(self) -> int:
        return 0 if self._follower is None else self._follower.to.nbytes

    def count(self) -> int:
        return self.relation.count()

    def index(self, bound: Sequence[int], version: Version) -> Index:
        return self._current(version is not Version.OLD).index(bound, self._version(version))

    def scan(
        self,
        version: Version,
        rows: int | None = None,
        needed: frozenset[int] | None = None,
    ) -> Iterator[Keys]:
        version = self._version(version)
        return self._current(version is not Version.OLD).scan(version, rows, needed)

    def _version(self, version: Version) -> Version:
        return Version.FULL if self._shown.of_delta else version

    def _current(self, with_delta: bool) -> StoredRelation:
        self._of.packed()  # with room for every word known so far
        body = self._of.body
        if self._shown.of_delta:
            if self._follower is None or not self._follower.follows(body):
                self._follower = _DeltaFollower(self._of, self._shown)
            return self._follower.to
        if not isinstance(body, FoldedRelation) and body.is_hiding:
            # Another fact may show the same under these columns: there is nothing to keep up.
            return _FinishedFollower(body, self._shown, self._empty()).to
        if self._follower is None or not self._follower.follows(body):
            to = self._empty()
            match body:
                case PackedRelation():
                    self._follower = _PackedFollower(body, self._shown, to)
                case GroupRelation():
                    self._follower = _GroupFollower(body, self._shown, to)
                case RowRelation():
                    self._follower = _RowFollower(body, self._shown, to)
                case FoldedRelation():
                    self._follower = _FinishedFollower(body, self._shown, to)
        self._follower.catch_up(with_delta)
        return self._follower.to

    def _empty(self) -> StoredRelation:
        return type(self._of)([self._of.domains[c] for c in self._shown.columns])


class _PackedFollower:
    """Keeps a view up with a packed relation, run by run."""

    def __init__(self, body: PackedRelation, shown: ViewColumns, to: StoredRelation) -> None:
        self.body = body
        self.to = to
        self._shown = shown
        self._behind = body.follow()
        self._delta: Run | None = None  # what the view has as its delta

    def follows(self, body: object) -> bool:
        return self.body is body

    def catch_up(self, with_delta: bool) -> None:
        if self._delta is not None and self._delta is not self.body.base.delta:
            if self._behind and self._behind[0] is self._delta:
                self.to.commit()
                del self._behind[0]
            else:  # it went through the tiny-delta machine, and comes back with its result
                assert isinstance(self.to.body, PackedRelation)
                self.to.body.absorb(NO_KEYS, NO_KEYS)
            self._delta = None
        if self._behind:
            self.to.extend(map(self._taken, self._behind))
            self._behind.clear()
        if with_delta and self._delta is None and self.body.base.delta is not None:
            self._delta = self.body.base.delta
            self.to.add(*self._taken(self._delta))
            self.to.flip()

    def _taken(self, run: Run) -> tuple[list[Words], int]:
        words = {c: run.packing.column(run.keys, c) for c in self._shown.needed}
        return _shown(self._shown, words, len(run))


class _RowFollower:
    """Keeps a view up with a relation kept by rows, row by row."""

    def __init__(self, body: RowRelation, shown: ViewColumns, to: StoredRelation) -> None:
        self.body = body
        self.to = to
        self._shown = shown
        self._taken = 0  # rows below are old in the view, or its delta
        self._has_delta = False

    def follows(self, body: object) -> bool:
        """Whether it is about that relation, which has not begun anew since."""
        return self.body is body and self._taken <= self.body.count()

    def catch_up(self, with_delta: bool) -> None:
        old, rows = self.body.count() - self.body.delta_count(), self.body.count()
        if self._has_delta and old >= self._taken:
            self.to.commit()
            self._has_delta = False
        if self._taken < old:
            self.to.extend([self._rows(old)])
            self._taken = old
        if with_delta and not self._has_delta and self._taken < rows:
            self.to.add(*self._rows(rows))
            self.to.flip()
            self._taken = rows
            self._has_delta = True

    def _rows(self, end: int) -> tuple[list[Words], int]:
        """The rows that were not taken yet, up to one."""
        numbers = np.arange(self._taken, end, dtype=np.uint32)
        words = {c: self.body.words(c, numbers) for c in self._shown.needed}
        return _shown(self._shown, words, len(numbers))


class _GroupFollower(_RowFollower):
    """Keeps a view up with the keys of groups: a group that is there stays."""

    def catch_up(self, with_delta: bool) -> None:
        rows = self.body.count()
        if self._taken < rows:
            self.to.extend([self._rows(rows)])
            self._taken = rows


class _FinishedFollower:
    """A view of a relation that does not change: one that is never listed, or with deletions."""

    def __init__(
        self,
        body: FoldedRelation | PackedRelation | RowRelation,
        shown: ViewColumns,
        to: StoredRelation,
    ) -> None:
        self.body = body
        self.to = to
        index = body.index((), Version.FULL)
        every = (
            body.scan(Version.FULL, None, shown.needed)
            if isinstance(body, FoldedRelation)
            else body.scan(Version.FULL)
        )
        to.extend(
            _shown(shown, {c: index.column(hits, c) for c in shown.needed}, len(hits))
            for hits in every
        )

    def follows(self, body: object) -> bool:
        return self.body is body

    def catch_up(self, with_delta: bool) -> None:
        """It is as it was."""


class _DeltaFollower:
    """A view of what is new: made anew for every delta."""

    def __init__(self, of: StoredRelation, shown: ViewColumns) -> None:
        columns, rows = of.delta()
        self._known = _known(of.body)
        batch = _shown(shown, dict(enumerate(columns)), rows)
        self.to = type(of).of([of.domains[c] for c in shown.columns], [batch])

    def follows(self, body: object) -> bool:
        """Whether the delta is the same."""
        return self._known == _known(body)

    def catch_up(self, with_delta: bool) -> None:
        """It is as it was."""


def _known(body: object) -> tuple[object, ...]:
    """What a delta is known by."""
    if isinstance(body, PackedRelation):
        return body, body.base.delta
    assert isinstance(body, RowRelation)
    return body, body.count(), body.delta_count()


_Follower: TypeAlias = _PackedFollower | _RowFollower | _FinishedFollower | _DeltaFollower


def _shown(shown: ViewColumns, words: dict[int, Words], rows: int) -> tuple[list[Words], int]:
    """The columns of a view, where those that should be equal are."""
    columns = [words[c] for c in shown.columns]
    if not shown.equal:
        return columns, rows
    keep: Mask = np.ones(rows, np.bool_)
    for one, other in shown.equal:
        keep &= words[one] == words[other]
    return [column[keep] for column in columns], int(np.count_nonzero(keep))

"""Intake: what is added to a packed relation until it is told what of it is new.

Batches wait until the next flip; where they are many, they are made distinct on the way. Once most
that is derived turns out to be known, a set of all facts is kept (membership.py), and what is
derived again does not wait at all. Any thread may add.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

import numpy as np

from caladan.columns import pool
from caladan.columns.layout import Keys
from caladan.columns.membership import NO_KEYS, Bitmap, Deletions, KeySet, WordSet
from caladan.columns.runs import Arrangement, distinct, in_order, merge, subtract
from caladan.program import thresholds


class Intake:
    """The facts of a relation, and those that were added since; `base` has what is known."""

    def __init__(self, base: Arrangement) -> None:
        self.base = base
        self._pending: list[Keys] = []
        self._pending_keys = 0
        self._compact_at = thresholds.now.compact
        self._seen: KeySet | None = None
        self._may_see = True
        self._tried = 0
        self._adding = Lock()
        self._deletions: Deletions | None = None

    @property
    def widths(self) -> tuple[int, ...]:
        return self.base.packing.widths

    @property
    def intake_bytes(self) -> int:
        """The bytes of what waits, and of the set of facts."""
        seen = 0 if self._seen is None else self._seen.nbytes
        return seen + sum(keys.nbytes for keys in self._pending)

    @property
    def pending_bytes(self) -> int:
        """The bytes of what was added since the last flip."""
        return 8 * self._pending_keys

    @property
    def pending_rows(self) -> int:
        """How many facts were added since the last flip, known ones and repetitions among them."""
        return self._pending_keys

    def count_pending(self) -> int:
        """How many of them are new; what is not is dropped."""
        with self._adding:
            new = self._take_pending()
            self._pending, self._pending_keys = [new], len(new)
            self._compact_at = max(thresholds.now.compact, 2 * len(new))
        return len(new)

    def count(self) -> int:
        raise NotImplementedError

    def expect_distinct(self) -> None:
        """What is added until the next flip is new, each fact once: nothing is saved meanwhile."""
        self._compact_at = 1 << 62

    def add_keys(self, keys: Keys) -> None:
        """Facts as keys of the base packing; any thread may add some. The array is taken over."""
        tried = len(keys)
        seen = self._seen  # another thread may do without it from one moment to the next
        if seen is not None and pool.threads() > 1:
            keys = seen.unknown(keys)  # most is known; only the rest waits for its turn
        with self._adding:
            self._tried += tried
            self._add_keys(keys)

    def _add_keys(self, keys: Keys) -> None:
        if self._seen is not None:
            keys = self._seen.unseen(keys)
            owner = keys.base  # what is left of it should not hold on to all of a batch
            if isinstance(owner, np.ndarray) and owner.nbytes > 2 * keys.nbytes:
                keys = keys.copy()
        if not len(keys):
            return
        self._pending.append(keys)
        self._pending_keys += len(keys)
        if self._pending_keys > self._compact_at:
            new = self._take_pending()
            self._pending = [new]
            self._pending_keys = len(new)
            self._compact_at = max(thresholds.now.compact, 2 * len(new))

    def forgo_set(self) -> None:
        """Do without a set of facts from now on."""
        with self._adding:
            self._seen, self._may_see = None, False

    def forget_pending(self) -> None:
        """What was added since the last flip was not meant."""
        self._pending, self._pending_keys = [], 0

    def _take_pending(self) -> Keys:
        pending, self._pending, self._pending_keys = self._pending, [], 0
        self._compact_at = thresholds.now.compact
        if not pending:
            return np.empty(0, np.uint64)
        keys = pending[0] if len(pending) == 1 else np.concatenate(pending)
        if self._seen is not None:
            return in_order(keys)
        keys = distinct(keys)
        hidden = NO_KEYS
        if self._deletions is not None:
            hidden = keys[self._deletions.hidden(keys)]
        # A round that derives much is taken in several times, while its delta is still apart.
        new = subtract(keys, self.base.all_runs)
        if len(hidden):
            return merge(new, hidden)
        self._consider_seen(new)
        return new

    def _consider_seen(self, new: Keys) -> None:
        """Keep a set of all facts, if most that is derived turns out to be known.

        From then on what is derived is sorted only if it is new.
        """
        if self._may_see and self.is_worth_a_set(self.count() + len(new)):
            self._see(new)

    def _see(self, new: Keys) -> None:
        bits = sum(self.widths)
        self._seen = Bitmap(bits) if bits <= thresholds.now.bitmap_bits else WordSet()
        for keys in (*(run.keys for run in self.base.all_runs), new):
            self._seen.unseen(keys.copy())

    def is_worth_a_set(self, known: int) -> bool:
        """Whether facts were derived again so often that setting up a set of them pays.

        A bitmap costs its size to clear, and a miss of the cache for most facts; a set of words
        costs what the facts cost to put in.
        """
        bits = sum(self.widths)
        chosen = thresholds.now
        cost = max((1 << bits) >> 7, 2 * known) if bits <= chosen.bitmap_bits else known
        return self._tried - known > max(chosen.seen_again, chosen.seen_price * cost)

    def bitmap(self, gain: int) -> Keys | None:
        """A bit for every possible fact, set for those that are known; None if it has none.

        It is made if need be, where its size is no more than the facts that are saved by it.
        """
        with self._adding:
            bits = sum(self.widths)
            if self._seen is None and self._may_see and bits <= thresholds.now.bitmap_bits:
                if gain < max((1 << bits) >> 7, self.count()):
                    return None
                new = self._take_pending()
                self._pending, self._pending_keys = [new], len(new)
                if self._seen is None:
                    self._see(new)
            return self._seen.words if isinstance(self._seen, Bitmap) else None

    @property
    def pending(self) -> Sequence[Keys]:
        return self._pending

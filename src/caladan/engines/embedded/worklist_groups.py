"""Groups with a best value, as the tiny-delta machine reads and writes them.

The machine knows packed facts. So the groups of an `mmin` or `mmax` are packed when it starts, the
value in the lowest bits, and what it found is given back to the head as amounts.
"""

from __future__ import annotations

from caladan import thresholds
from caladan.columns.domains import Domain, OffsetDomain
from caladan.columns.invariants import CHECKED, check_groups
from caladan.columns.layout import Keys, concatenated
from caladan.columns.packing import Packing
from caladan.columns.relation import widths_of
from caladan.columns.rows import GroupRelation
from caladan.columns.runs import Arrangement, Run
from caladan.engines.embedded.accumulators import LARGEST, SMALLEST
from caladan.engines.embedded.groups import AggregateHead
from caladan.engines.embedded.worklist_numbers import Unsuitable


class PackedGroups:
    """The groups of a head, in the machine's terms; `base` is filled by `refresh`."""

    def __init__(self, head: AggregateHead) -> None:
        self._head = head
        functions = [f for f in head.info.aggregates if f is not None]
        widths = widths_of(head.domains)
        if len(functions) != 1 or functions[0] not in (*SMALLEST, *LARGEST):
            raise Unsuitable("an aggregate other than one least or largest value")
        if widths is None or not head.info.group or not self._are_few:
            raise Unsuitable("groups are too wide, too many, or all in one")
        (value,) = (i for i, f in enumerate(head.info.aggregates) if f is not None)
        if not _is_near(head.domains[value]):  # else words are in no order
            raise Unsuitable("values are not integers near each other")
        self.widths = widths
        self.value_bits = widths[value]
        self.larger = functions[0] in LARGEST
        self.base = Arrangement(Packing(widths, (*head.info.group, value)))

    @property
    def _groups(self) -> GroupRelation:
        body = self._head.relation.body
        assert isinstance(body, GroupRelation)
        return body

    @property
    def _are_few(self) -> bool:
        return self._groups.count() <= thresholds.now.packed_groups

    @property
    def still_fits(self) -> bool:
        """Whether values have room, and are in order."""
        sizes = [domain.size for domain in self._head.domains]
        return (
            all(size <= 1 << width for size, width in zip(sizes, self.widths, strict=True))
            and all(_is_near(d) for d in self._head.domains if isinstance(d, OffsetDomain))
            and self._are_few
        )

    def refresh(self) -> None:
        """Pack the groups as they are: those that did not change are a run, the others a delta."""
        columns = concatenated(self._groups.blocks(), self._groups.arity)
        keys = self.base.packing.keys(columns, self._groups.count())
        changed = self._groups.changed
        old, delta = keys[~changed], keys[changed]
        old.sort()
        delta.sort()
        if CHECKED:
            check_groups([old, delta], self.value_bits)
        self.base.runs = [Run(old, self.base.packing)] if len(old) else []
        self.base.delta = Run(delta, self.base.packing) if len(delta) else None

    def absorb(self, old: Keys, delta: Keys) -> None:
        """Take over what the machine found, old and still new."""
        packing, arity = self.base.packing, self._groups.arity
        parts = [[packing.column(keys, c) for c in range(arity)] for keys in (old, delta)]
        self._head.absorb(*parts)
        self.base.runs, self.base.delta = [], None


def _is_near(domain: Domain) -> bool:
    return isinstance(domain, OffsetDomain) and domain.is_near

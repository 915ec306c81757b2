"""What a join did: proposals by variable, estimates asked, batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias

VariableName: TypeAlias = str


@dataclass(slots=True)
class Statistics:
    """Counts kept while a search runs; they can be read at any moment.

    `proposed` are candidates that some constraint named for a variable, `confirmed` those that no
    other constraint killed; the rest was `wasted`. `estimates` are questions for a batch, and
    `estimated` the bindings in these batches. `steps` are batches extended, `results` full
    bindings handed out. `proposers` are the proposals by variable and constraint. `lookups` are
    those that found something in several runs of a relation, `accumulated` those that merged it.
    """

    grade: str = ""
    proposed: Counter[VariableName] = field(default_factory=Counter[VariableName])
    confirmed: Counter[VariableName] = field(default_factory=Counter[VariableName])
    estimates: Counter[VariableName] = field(default_factory=Counter[VariableName])
    estimated: Counter[VariableName] = field(default_factory=Counter[VariableName])
    steps: int = 0
    results: int = 0
    widest: int = 0
    proposers: Counter[tuple[VariableName, str]] = field(
        default_factory=Counter[tuple[VariableName, str]]
    )
    lookups: int = 0
    accumulated: int = 0
    _counting: Lock = field(default_factory=Lock, repr=False, compare=False)

    @property
    def wasted(self) -> Counter[VariableName]:
        """Proposals that were killed, by variable."""
        return self.proposed - self.confirmed

    def count(self, var: VariableName, proposed: int, confirmed: int) -> None:
        """Note the outcome of proposals for a variable."""
        with self._counting:
            self.proposed[var] += proposed
            self.confirmed[var] += confirmed
            self.widest = max(self.widest, confirmed)

    def proposals(self, var: VariableName, names: Sequence[str], made: Sequence[int]) -> None:
        """Note who proposed how much."""
        with self._counting:
            for name, count in zip(names, made, strict=True):
                if count:
                    self.proposers[var, name] += count

    def looked_up(self, *, is_accumulated: bool) -> None:
        """Note a lookup that found something in several runs."""
        with self._counting:
            self.lookups += 1
            self.accumulated += is_accumulated

    def lookups_taken(self) -> tuple[int, int]:
        """The lookups in several runs, and those that merged them, since this was last asked."""
        with self._counting:
            found = self.lookups, self.accumulated
            self.lookups = self.accumulated = 0
        return found

    def named(self) -> dict[VariableName, tuple[tuple[str, int], ...]]:
        """By variable who proposed how much since this was last asked."""
        with self._counting:
            found: dict[VariableName, list[tuple[str, int]]] = {}
            for (var, name), count in sorted(self.proposers.items()):
                found.setdefault(var, []).append((name, count))
            self.proposers.clear()
        return {var: tuple(each) for var, each in found.items()}

    def taken(self) -> list[tuple[VariableName, int, int]]:
        """By variable what was proposed and confirmed since this was last asked."""
        with self._counting:
            found = [(v, self.proposed[v], self.confirmed[v]) for v in sorted(self.proposed)]
            self.proposed.clear()
            self.confirmed.clear()
        return found

    def asked(self, var: VariableName, rows: int) -> None:
        """Note an estimate for a batch."""
        self.estimates[var] += 1
        self.estimated[var] += rows

    def __str__(self) -> str:
        lines = [f"search {self.grade}: {self.results} results in {self.steps} steps"]
        lines += [
            f"  {var}: {self.proposed[var]} proposed, {self.confirmed[var]} confirmed, "
            f"{self.wasted[var]} wasted, {self.estimates[var]} estimates"
            for var in sorted(self.proposed | self.estimates)
        ]
        return "\n".join(lines)

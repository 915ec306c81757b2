"""The DeltaProgram: the only thing engines read.

For every clique, in evaluation order: the exit rules, evaluated once, and the delta rules, each a
rule seeded by what is new in one of its atoms. Every `DeltaRule` has a body (whose scans say which
version of a relation they read) and a guard (relations that must have facts for the rule to derive
any).

How a round goes, for every engine:

    evaluate each delta rule whose guard holds, over old, δ and new facts of the clique
    plain relations:      δ' = distinct(derived) − known
    mmin, mmax:           δ' = the groups whose best value improved, with the new value
    msum, mcount:         put each derived value into its contributor's place (a witness with
                          several solutions counts the largest of their current values), add up
                          the groups that changed; δ' = the groups whose total changed, with the
                          new total
    stop when every δ' is empty

A relation with aggregates that is not recursive collects the rows of all its rules, as a bag, and
combines each group once. In either case a body's column for an aggregate holds the value that one
solution contributes (1 where solutions are counted), so `count` and `mcount` add up like sums; and
`contributors` says where a column counts by key: `countd` counts distinct keys, a witness counts
once with its largest value. Facts and data of a relation with aggregates contribute their values,
each fact once.

`program_of` is a program within a program: some of its cliques, with everything else as data. It
is what a strategy is handed, and what an executor needs to know: relations that earlier cliques
derived are data there, whoever derived them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from caladan.analysis.core import CoreGoal, CoreRule, HasFacts, RelationInfo
from caladan.rules.body import Body, Version


@dataclass(frozen=True, slots=True)
class Contributors:
    """Where the values of a summed column come from.

    `place` names the table of contributors the rule writes to: rules with a witness share one, for
    a witness counts once however often it is derived; a rule without has its own. The key columns
    of this head column are `body.keys[start:end]`. With `latest`, a value derived again takes the
    old one's place; else the larger one stays.

    Where values of a contributor's solutions may fall, `solutions` names the table of what each
    solution holds, by `body.keys[start:stop]`; the contributor has the largest of them.
    """

    column: int
    place: str
    start: int
    end: int
    stop: int
    solutions: str | None
    latest: bool

    @property
    def width(self) -> int:
        """How many columns tell contributors apart."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class DeltaRule:
    """A rule, seeded by the delta of `rule.atoms[seed]`; an exit rule has no seed."""

    rule: CoreRule
    seed: int | None
    body: Body
    contributors: tuple[Contributors, ...] = ()

    @property
    def guard(self) -> tuple[str, ...]:
        """The relations that must have facts for the rule to derive any, besides those new."""
        others = (scan.relation for scan in self.body.atoms if scan.version is not Version.DELTA)
        return tuple(dict.fromkeys(others))

    @property
    def seeded_by(self) -> str | None:
        """The relation whose new facts it starts from."""
        return None if self.seed is None else self.rule.atoms[self.seed].relation


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a clique: how many a fact has at most, and how surely growth can be told.

    They are linear if every amount is a multiple of one sum plus something that does not change;
    they are plain if amounts only add up, for a witness counts the largest of several.
    """

    width: int
    is_linear: bool
    is_plain: bool
    is_whole: bool

    @property
    def is_exact(self) -> bool:
        """Whether the next round's differences are those of this one times whole numbers."""
        return self.is_linear and self.is_plain and self.is_whole


@dataclass(frozen=True, slots=True)
class DeltaClique:
    """The relations of a clique with the rules that derive them.

    `totals` is about sums in recursion, where there are some. `pivot` gives, for a clique that can
    be evaluated in independent parts, the column of each relation that every recursive rule carries
    unchanged from its one recursive atom to its head. `origins` are the user's names for all of it
    (`tc` for `tc_bf` and what is asked of it).
    """

    relations: tuple[str, ...]
    is_recursive: bool
    stratum: int
    exit_rules: tuple[DeltaRule, ...]
    delta_rules: tuple[DeltaRule, ...]
    pivot: Mapping[str, int] | None = None
    totals: Totals | None = None
    origins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeltaProgram(HasFacts):
    """Everything an engine needs to know.

    `relations` has every relation that is read or derived; those with `takes_data` are found in the
    store the engine is given. `facts` are the facts written in the program.
    """

    relations: Mapping[str, RelationInfo]
    cliques: tuple[DeltaClique, ...]
    goals: tuple[CoreGoal, ...]

    @property
    def rules(self) -> list[DeltaRule]:
        return [r for c in self.cliques for r in (*c.exit_rules, *c.delta_rules)]


def program_of(program: DeltaProgram, cliques: Sequence[DeltaClique]) -> DeltaProgram:
    """The program of these cliques alone, without goals."""
    derived = {name for clique in cliques for name in clique.relations}
    finished = {name for clique in program.cliques for name in clique.relations} - derived
    names = derived | set(reads(cliques))
    relations = {
        name: replace(info, takes_data=True, is_derived=False) if name in finished else info
        for name, info in program.relations.items()
        if name in names
    }
    return DeltaProgram(
        relations=relations,
        # The facts of a finished relation are in its table already.
        facts={n: rows for n, rows in program.facts.items() if n in names and n not in finished},
        cliques=tuple(cliques),
        goals=(),
    )


def reads(cliques: Iterable[DeltaClique]) -> Iterator[str]:
    """The relations that the rules of some cliques read, each possibly several times."""
    for clique in cliques:
        for rule in (*clique.exit_rules, *clique.delta_rules):
            yield from rule.body.read


def needed_by(program: DeltaProgram, name: str) -> DeltaProgram:
    """The program of the cliques that a relation needs."""
    wanted = {name}
    cliques: list[DeltaClique] = []
    for clique in reversed(program.cliques):
        if not wanted.isdisjoint(clique.relations):
            wanted.update(reads([clique]))
            cliques.append(clique)
    return program_of(program, cliques[::-1])

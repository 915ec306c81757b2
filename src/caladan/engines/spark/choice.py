"""Which strategy evaluates a clique, and why. Pure: explain reads this without Spark.

Strategies are tried in the order of `choices`; one that cannot serve says why, and the next has its
turn. *frame* serves everything. `outlooks` says the same of a whole program before it runs: with
the sizes of its data what a run decides, without them all that it may decide, and when.

`find_partitioning` and `partitions` say how relations are spread.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from caladan.analysis.core import RelationInfo
from caladan.program import Aggregate, Constant, Expression, Type, Variable
from caladan.program.aggregates import row_of
from caladan.program.options import Options
from caladan.rules.program import DeltaClique, DeltaProgram, DeltaRule, reads

SMALL: Final = 20_000
"""Facts that one partition holds well: below that, more tasks only cost time."""

FULL: Final = 250_000
"""Facts of a partition of a larger relation: a hash table of so many stays near the processor."""

WAVES: Final = 32
"""How many times more partitions there may be than tasks that run at once."""

BROADCAST: Final = 200_000
"""Rows up to which a side of a join is sent to everybody."""

CELLS_FROM: Final = 1_000_000
"""Facts in the atoms of a cyclic body from which cells solve it sooner than joins of frames do."""

PAIRS: Final = 8_000_000
"""Pairs of facts of two atoms that meet from which they do, of however few facts: as at a hub."""


def may_meet_often(sizes: Sequence[int]) -> bool:
    """Whether two atoms of such a body, of so many facts each, can have so many that meet."""
    return len(sizes) > 1 and sizes[0] * max(sizes[1:]) >= PAIRS


_MANY: Final = 2_048  # partitions to which tasks do not take turns: each may send to each


def find_partitioning(clique: DeltaClique, info: RelationInfo) -> tuple[int, ...]:
    """The columns by whose hash a relation of a clique is partitioned.

    The pivot, if there is one: then a rule's facts are born where they belong. Else all columns
    that tell facts apart, so that duplicates meet after one exchange.
    """
    if clique.pivot is not None:
        return (clique.pivot[info.name],)
    return info.group


def partitions(facts: int, at_once: int) -> int:
    """How many partitions suit so many facts, if so many tasks run at once.

    A power of two, or the most there may be. With more than run at once tasks take turns, each
    with little in memory.
    """
    if facts <= SMALL:
        return 1
    wanted = max(min(2, at_once), -(-facts // FULL))
    most = max(at_once, min(WAVES * at_once, _MANY))
    return min(most, 1 << (wanted - 1).bit_length())


SMALL_INPUTS: Final = 2_000_000
"""Facts in all inputs together up to which one task evaluates a program by itself."""

FEW_TASKS: Final = 8
ENOUGH_FOR_ONE: Final = 50_000_000
"""Facts up to which one task is done sooner than a few that have to exchange what they derive.

It has all cores of its machine, and each of the few would have all inputs, too.
"""

SHIPPED: Final = 50_000_000
"""Facts up to which every task may have all inputs, to take from them what it needs."""

NOT_RECURSIVE: Final = "the relation is not recursive"

ONE_TASK: Final = "with Spark Connect one task evaluates a program, or frames do"
"""Why neither *cubed* nor *pivoted* nor *meshed* serve there."""


@dataclass(frozen=True, slots=True)
class StrategyChoice:
    """A strategy, and what speaks for it; or when it is taken, if that waits for something."""

    strategy: str
    reason: str
    is_conditional: bool = False


def is_local(master: str) -> bool:
    """True if tasks run in the driver's own JVM, on its machine and with its Python.

    >>> is_local("local[*]"), is_local("local"), is_local("local-cluster[2,1,1024]")
    (True, True, False)
    """
    return master == "local" or master.startswith("local[")


def tasks_on(master: str) -> int | None:
    """How many tasks run at the same time on a master; None if only the cluster knows.

    >>> tasks_on("local[3]"), tasks_on("local-cluster[2,4,1024]"), tasks_on("spark://host:7077")
    (3, 8, None)
    """
    if master == "local":
        return 1
    if found := re.fullmatch(r"local\[(\d+|\*)(?:\s*,\s*\d+)?\]", master):
        return (os.cpu_count() or 1) if found[1] == "*" else int(found[1])
    if found := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master):
        return int(found[1]) * int(found[2])
    return None


def choices(
    clique: DeltaClique,
    facts: int | None,
    forced: str | None = None,
    tasks: int | None = None,
    relations: Mapping[str, RelationInfo] | None = None,
    *,
    has_rdds: bool = True,
) -> list[StrategyChoice]:
    """The strategies for a clique whose inputs have so many facts, the best first.

    `tasks` is how many run at the same time. Where a number is not known yet, it is taken to be
    large. Without RDDs, as with Spark Connect, there is one task or none.
    """
    found: list[StrategyChoice] = []
    if forced is not None:
        found.append(StrategyChoice(forced, "as asked for"))
    if facts is not None and facts <= SMALL_INPUTS:
        found.append(StrategyChoice("single", f"at most {SMALL_INPUTS:,} facts go in"))
    elif not has_rdds:
        if facts is not None and facts <= ENOUGH_FOR_ONE and _suits_one(clique, relations):
            found.append(StrategyChoice("single", f"at most {ENOUGH_FOR_ONE:,} facts go in"))
    elif (facts is None or facts <= SHIPPED) and why_not_cubed(clique, relations) is None:
        found.append(StrategyChoice("cubed", "a rule has a cyclic body"))
    if clique.is_recursive and has_rdds:
        obstacle = why_not_pivoted(clique)
        if obstacle is None:
            found.append(StrategyChoice("pivoted", "every recursive rule carries the same column"))
        elif _is_enough_for_one(facts, tasks):
            found.append(
                StrategyChoice("single", f"at most {FEW_TASKS} tasks would exchange facts")
            )
        found.append(StrategyChoice("meshed", str(obstacle)))
    found.append(
        StrategyChoice("frame", "serves everything" if clique.is_recursive else "not recursive")
    )
    first = {choice.strategy: i for i, choice in reversed(list(enumerate(found)))}
    return [found[i] for i in sorted(first.values())]


def _suits_one(clique: DeltaClique, relations: Mapping[str, RelationInfo] | None) -> bool:
    """Whether one task does better than frames, also where much goes in."""
    return clique.is_recursive or why_not_cubed(clique, relations) is None


def _is_enough_for_one(facts: int | None, tasks: int | None) -> bool:
    if facts is None or tasks is None:
        return False
    return facts <= ENOUGH_FOR_ONE and tasks <= FEW_TASKS


def why_not(
    strategy: str, clique: DeltaClique, relations: Mapping[str, RelationInfo]
) -> str | None:
    """What of its rules keeps a clique from a strategy that is asked for; None if nothing does."""
    match strategy:
        case "pivoted":
            return why_not_pivoted(clique)
        case "cubed":
            return why_not_cubed(clique, relations)
        case "meshed":
            return None if clique.is_recursive else NOT_RECURSIVE
        case _:
            return None


def why_not_pivoted(clique: DeltaClique) -> str | None:
    """Why a clique cannot be evaluated in independent parts; None if it can."""
    if not clique.is_recursive:
        return NOT_RECURSIVE
    if clique.pivot is None:
        return "no column is carried unchanged through every recursive rule"
    for rule in clique.exit_rules:
        if rule.body.cut is not None:
            return f"rule {rule.rule.number} sorts or limits all that it derives"
        given = rule.rule.arguments[clique.pivot[rule.rule.head]]
        if not isinstance(given, Constant) and origin(rule, clique.pivot) is None:
            return f"rule {rule.rule.number} computes the column that would tell parts apart"
    return None


def why_not_cubed(
    clique: DeltaClique, relations: Mapping[str, RelationInfo] | None = None
) -> str | None:
    """Why a clique cannot be solved in cells, or need not be; None if it should."""
    infos = [] if relations is None else [relations[name] for name in clique.relations]
    if any(map(_sums_fractions, infos)):
        return "a sum of fractions depends on the order in which they are added"
    if clique.is_recursive:
        return "its recursion is not solved as a closure"
    for rule in clique.exit_rules:
        if rule.body.cut is not None:
            return f"rule {rule.rule.number} sorts or limits all that it derives"
        if rule.contributors or any(_needs_states(argument) for argument in rule.rule.arguments):
            return f"what rule {rule.rule.number} aggregates in one cell says nothing of all cells"
    if not any(has_cyclic_body(rule) for rule in clique.exit_rules):
        return "no rule has a cyclic body"
    return None


def _sums_fractions(info: RelationInfo) -> bool:
    return any(
        function is not None and function.is_total and column.type.is_floating
        for function, column in zip(info.aggregates, info.columns, strict=True)
    )


def _needs_states(argument: Expression) -> bool:
    """Whether the values of cells say nothing of all: a mean, a median."""
    return isinstance(argument, Aggregate) and row_of(argument).merged_by is None


def has_cyclic_body(rule: DeltaRule) -> bool:
    """Whether binary joins of a rule's body may go through more than it has solutions."""
    atoms = [scan.variables for scan in rule.body.atoms]
    if len(atoms) < 3:
        return False
    from caladan.join.hypergraph import is_cyclic

    return is_cyclic(atoms)


def origin(rule: DeltaRule, pivot: Mapping[str, int]) -> tuple[int, int] | None:
    """Which atom of an exit rule, and which column of it, the rule takes its pivot from."""
    wanted = rule.rule.arguments[pivot[rule.rule.head]]
    if isinstance(wanted, Variable):
        for number, scan in enumerate(rule.body.atoms):
            for column, argument in enumerate(scan.arguments):
                if argument == wanted:
                    return number, column
    return None


def pivot_shares(clique: DeltaClique) -> tuple[list[tuple[str, int]], frozenset[str]]:
    """What parts of a pivoted clique have a share of, relations and columns; and what whole.

    A relation that one rule takes its pivot from and another meets in another column is in both.
    """
    pivot = clique.pivot or {}
    shares: dict[tuple[str, int], None] = {}
    whole: set[str] = set()
    for rule in clique.exit_rules:
        found = origin(rule, pivot)
        for number, scan in enumerate(rule.body.atoms):
            if found is not None and number == found[0]:
                shares[scan.relation, found[1]] = None
            else:
                whole.add(scan.relation)
        whole.update(scan.relation for scan in rule.body.absents)
    for rule in clique.delta_rules:
        whole.update(rule.body.read)
    return list(shares), frozenset(whole.difference(clique.relations))


# ── Cells ────────────────────────────────────────────────────────────────────────────────────────

CellAtom: TypeAlias = "tuple[Sequence[str], int]"
"""The variables of an atom, and how many facts it has."""

Shares: TypeAlias = "Mapping[str, int]"
"""How many slices each variable is cut into; one that is not named is not cut."""


def shares(atoms: Sequence[CellAtom], cells: int) -> dict[str, int]:
    """The shares of all variables that atoms meet on, for at most so many cells.

    A cell gets of each atom one fact in as many as the shares of its variables multiply to; the
    shares are those that send it the fewest, and of these the ones with the fewest cells. Of equal
    ways, the one that cuts the variables that come first is taken: a search may start there.

    >>> shares([(("x", "y"), 100), (("y", "z"), 100), (("z", "x"), 100)], 8)
    {'x': 2, 'y': 2, 'z': 2}
    >>> shares([(("x", "y"), 1_000_000), (("y", "z"), 10), (("z", "x"), 10)], 4)
    {'x': 2, 'y': 2, 'z': 1}
    """
    seen = Counter(name for variables, _ in atoms for name in variables)
    names = [name for name, count in seen.items() if count > 1]
    ways = (dict(zip(names, way[::-1], strict=True)) for way in _ways(len(names), cells))

    def cost(shares: Shares) -> tuple[float, int]:
        load = sum(size / product(variables, shares) for variables, size in atoms)
        return load, product(names, shares)

    return min(ways, key=cost)


def product(variables: Collection[str], shares: Shares) -> int:
    """The shares of some variables, multiplied."""
    total = 1
    for name in variables:
        total *= shares.get(name, 1)
    return total


def _ways(variables: int, cells: int) -> Iterator[tuple[int, ...]]:
    """Shares whose product is at most `cells`; of many cells, powers of two will do."""
    if not variables:
        yield ()
        return
    few = cells <= 64
    steps = range(1, cells + 1) if few else (1 << i for i in range(cells.bit_length()))
    for step in steps:
        for rest in _ways(variables - 1, cells // step):
            yield (step, *rest)


# ── What goes into a task ────────────────────────────────────────────────────────────────────────

_BYTES: Final = {
    Type.BYTE: 1, Type.SHORT: 2, Type.INTEGER: 4, Type.FLOAT: 4, Type.DATE: 4, Type.BOOLEAN: 1,
    Type.STRING: 20, Type.BINARY: 20,
}  # fmt: skip
_TIMES: Final = 6
"""How many times its bytes in Arrow an input has in a task at least: as it came, as words, sorted
by one order, and by another while that is made."""


@dataclass(frozen=True, slots=True)
class TaskMemory:
    """The bytes that facts may have in one task, and which setting says so.

    If `is_shared`, all tasks of a job have them together.
    """

    nbytes: int
    setting: str
    is_shared: bool = False

    def of_each(self, tasks: int) -> int:
        """The bytes for each of so many tasks."""
        return self.nbytes // tasks if self.is_shared else self.nbytes


@dataclass(frozen=True, slots=True)
class TaskInputs:
    """What goes into each of some tasks: bytes that all have whole, and its share of the others."""

    whole: int
    share: int
    tasks: int

    @property
    def needed(self) -> int:
        """The bytes that they take there at least."""
        return (self.whole + self.share) * _TIMES

    def why_too_much(self, memory: TaskMemory | None) -> str | None:
        """Why tasks cannot have them; None if they can, as far as that is known."""
        if memory is None:
            return None
        most = memory.of_each(self.tasks)
        if not most:
            return f"{memory.setting} leaves a task no memory for facts"
        if self.needed <= most:
            return None
        may = f"{shown_bytes(most)} ({memory.setting})"
        return f"inputs take {shown_bytes(self.needed)} in a task, which may have {may}"

    def __str__(self) -> str:
        which = "one task" if self.tasks == 1 else f"each of {self.tasks} tasks"
        sent = [f"is sent {shown_bytes(self.share)}"] if self.share else []
        whole = [f"reads {shown_bytes(self.whole)}"] if self.whole else []
        return f"{which} {' and '.join([*sent, *whole])}" if sent or whole else ""


def shown_bytes(size: int) -> str:
    """A size for people.

    >>> shown_bytes(300), shown_bytes(6_400_000), shown_bytes(2_200_000_000)
    ('0.3 kB', '6.4 MB', '2.2 GB')
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size / 1000:.1f} kB"


def bytes_of(info: RelationInfo, facts: int) -> int:
    """The bytes that so many facts have in Arrow; texts are taken to be short."""
    return facts * sum(_BYTES.get(column.type, 8) for column in info.columns)


def inputs_of(
    strategy: str,
    cliques: Sequence[DeltaClique],
    relations: Mapping[str, RelationInfo],
    sizes: Mapping[str, int],
    tasks: int,
) -> TaskInputs | None:
    """What goes into each task of a strategy, of relations whose sizes are known."""
    if strategy == "frame":
        return None
    own = {name for clique in cliques for name in clique.relations}
    names = {*reads(cliques), *own} & sizes.keys()
    size = {name: bytes_of(relations[name], sizes[name]) for name in names}
    if strategy == "pivoted":
        shares, whole = pivot_shares(cliques[0])
        cut = sum(size.get(name, 0) for name in {*(name for name, _ in shares), *own})
        return TaskInputs(sum(size.get(name, 0) for name in whole), cut // tasks, tasks)
    if strategy == "cubed":
        return _inputs_of_cells(cliques[0], size, sizes, tasks)
    return TaskInputs(sum(size.values()), 0, 1 if strategy == "single" else tasks)


def _inputs_of_cells(
    clique: DeltaClique, size: Mapping[str, int], sizes: Mapping[str, int], tasks: int
) -> TaskInputs:
    whole, sent, cells = dict[str, int](), dict[tuple[str, tuple[object, ...]], int](), 1
    for rule in clique.exit_rules:
        atoms = [(scan.variables, sizes.get(scan.relation, 0)) for scan in rule.body.atoms]
        cut = shares(atoms, tasks)
        cells = max(cells, product(cut, cut))
        for scan in rule.body.atoms:
            of = size.get(scan.relation, 0)
            by = tuple(
                (i, getattr(a, "name", ""))
                for i, a in enumerate(scan.arguments)
                if cut.get(getattr(a, "name", ""), 1) > 1
            )
            if by:
                sent[scan.relation, by] = of // product({name for _, name in by}, cut)
            else:
                whole[scan.relation] = of
        whole |= {scan.relation: size.get(scan.relation, 0) for scan in rule.body.absents}
    return TaskInputs(sum(whole.values()), sum(sent.values()), cells)


# ── A whole program ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Outlook:
    """How a clique will be evaluated, as far as that can be told.

    If it is decided, the first option is the one, and the others follow where it cannot serve;
    else each option says when it is taken. `facts` go into it, where that is known; `declined` is
    the strategy that was asked for, if it cannot serve, and why; or the first that has not the
    memory. `inputs` are what each task gets, where sizes are known.
    """

    clique: DeltaClique
    options: tuple[StrategyChoice, ...]
    is_decided: bool
    facts: int | None = None
    declined: StrategyChoice | None = None
    inputs: TaskInputs | None = None

    @property
    def large(self) -> StrategyChoice:
        """The strategy if much goes in, or the one that is decided."""
        if self.is_decided:
            return self.options[0]
        return next(each for each in self.options if not each.is_conditional)


def facts_in(cliques: Sequence[DeltaClique], sizes: Mapping[str, int]) -> int:
    """How many facts some cliques are given, of relations whose sizes are known."""
    own = (name for clique in cliques for name in clique.relations)
    return sum(sizes[name] for name in {*reads(cliques), *own} & sizes.keys())


def together(
    cliques: Sequence[DeltaClique],
    facts: int,
    options: Options,
    tasks: int | None,
    relations: Mapping[str, RelationInfo],
    *,
    has_rdds: bool = True,
) -> StrategyChoice | None:
    """Why one task evaluates several cliques at once; None if it does not.

    If it evaluates the recursive ones in any case, what is between them need not leave it.
    """
    if options.strategy not in (None, "single") or len(cliques) < 2:
        return None
    if options.checkpoint and has_rdds:  # what saves is another strategy
        return None
    if options.strategy == "single":
        return StrategyChoice("single", "as asked for")
    if facts <= SMALL_INPUTS:
        return StrategyChoice("single", f"at most {SMALL_INPUTS:,} facts go in")
    if tasks is None:
        return None
    ranked = [choices(c, facts, None, tasks, relations, has_rdds=has_rdds)[0] for c in cliques]
    recursive = [how for how, c in zip(ranked, cliques, strict=True) if c.is_recursive]
    is_one = recursive and all(how.strategy == "single" for how in recursive)
    return recursive[0] if is_one and all(how.strategy != "cubed" for how in ranked) else None


def find_forced(clique: DeltaClique, options: Options) -> str | None:
    """The strategy that a clique has to have, if it can."""
    if options.strategy is None and options.checkpoint is not None and clique.is_recursive:
        return "meshed"  # the others save nothing
    return options.strategy


def is_one_task(seen: Sequence[Outlook]) -> bool:
    """Whether one task evaluates everything, as far as can be told."""
    return bool(seen) and all(each.is_decided and each.large.strategy == "single" for each in seen)


def outlooks(
    program: DeltaProgram,
    sizes: Mapping[str, int] | None,
    tasks: int | None = None,
    options: Options | None = None,
    *,
    has_rdds: bool = True,
    memory: TaskMemory | None = None,
) -> list[Outlook]:
    """How the cliques of a program will be evaluated; `sizes` are those of its data.

    `memory` is what facts may have in a task; None if nothing is known to limit it.
    """
    options = options or Options()
    cliques = program.cliques
    known = dict(sizes or {})
    derived = {name for clique in cliques for name in clique.relations}
    for name, info in program.relations.items():
        if sizes is not None and name not in derived and info.is_derived:  # facts of the program
            known[name] = known.get(name, 0) + len(dict.fromkeys(program.facts.get(name, ())))
    if sizes is not None:
        facts = facts_in(cliques, known)
        how = together(cliques, facts, options, tasks, program.relations, has_rdds=has_rdds)
        if how is not None:
            all_in_one = inputs_of("single", cliques, program.relations, known, 1)
            if all_in_one is None or all_in_one.why_too_much(memory) is None:
                return [Outlook(c, (how,), True, facts, inputs=all_in_one) for c in cliques]
    found: list[Outlook] = []
    for clique in cliques:
        read = set(reads([clique])).difference(clique.relations)
        is_known = sizes is not None and read <= known.keys()
        asked, declined = find_forced(clique, options), None
        if asked is not None and (obstacle := why_not(asked, clique, program.relations)):
            asked, declined = None, StrategyChoice(asked, obstacle)
        if asked is not None or is_known:
            facts = facts_in([clique], known) if is_known else None
            relations = program.relations
            ranked = choices(clique, facts, asked, tasks, relations, has_rdds=has_rdds)
            if tasks is not None or ranked[0].strategy != "meshed" or asked is not None:
                inputs: TaskInputs | None = None
                while is_known and tasks is not None:
                    inputs = inputs_of(ranked[0].strategy, [clique], relations, known, tasks)
                    obstacle = None if inputs is None else inputs.why_too_much(memory)
                    if obstacle is None:
                        break
                    declined = declined or StrategyChoice(ranked[0].strategy, obstacle)
                    ranked = ranked[1:]
                found.append(Outlook(clique, tuple(ranked), True, facts, declined, inputs))
                continue
        ways = _alternatives(clique, program, tasks) if has_rdds else _ways_there(clique, program)
        found.append(Outlook(clique, tuple(ways), False, declined=declined))
    return found


def _ways_there(clique: DeltaClique, program: DeltaProgram) -> Iterator[StrategyChoice]:
    most = ENOUGH_FOR_ONE if _suits_one(clique, program.relations) else SMALL_INPUTS
    yield StrategyChoice("single", f"if at most {most:,} facts go in", is_conditional=True)
    yield StrategyChoice("frame", ONE_TASK)


def _alternatives(
    clique: DeltaClique, program: DeltaProgram, tasks: int | None
) -> Iterator[StrategyChoice]:
    yield StrategyChoice("single", f"if at most {SMALL_INPUTS:,} facts go in", is_conditional=True)
    if why_not_cubed(clique, program.relations) is None:
        yield StrategyChoice("cubed", "a rule has a cyclic body")
        yield StrategyChoice("frame", f"if more than {SHIPPED:,} facts go in", is_conditional=True)
    elif not clique.is_recursive:
        yield StrategyChoice("frame", "not recursive")
    elif (obstacle := why_not_pivoted(clique)) is None:
        yield StrategyChoice("pivoted", "every recursive rule carries the same column")
    else:
        if tasks is None or tasks <= FEW_TASKS:
            most = f"{ENOUGH_FOR_ONE:,} go in, and at most {FEW_TASKS} tasks would exchange facts"
            yield StrategyChoice("single", f"if at most {most}", is_conditional=True)
        yield StrategyChoice("meshed", obstacle)
    if clique.is_recursive:
        yield StrategyChoice("frame", "if tasks cannot be run", is_conditional=True)

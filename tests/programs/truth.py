"""Whether explain, given the data, prints what stats say was done, on any engine, by any strategy.

`check_truth` compares the printed physical plan with the stats of a run: the cliques, the strategy
and why another was passed over, how relations are held, the steps of every rule, the arrangements.
Where the plan names one thing, that was done; where it lists several, one of them was.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import caladan
from caladan.engines.spark.choice import ONE_TASK
from caladan.program.options import STRATEGIES
from caladan.session.stats import CliqueStats, Stats

_CLIQUE = re.compile(r"^(?:Clique|Relation) (.+)$")
_TAKEN = re.compile(r"^  (strategy|held as|small rounds): (.+?) \((.+)\)$")
_RULE = re.compile(r"  \[(?:of )?rule (\d+)(?:, seed ([^\]]+?))?(?:, [^\]]*)?\]")
_NO_SHAPE = "it is no closure: "
_IF_SHAPED = "one task by solver"
_SMALL = "Inputs of at most 2,000,000 facts in all are evaluated by one task"
_STRATEGY = re.compile(r"\[([^\[\]]+)\](?:\[[\d,]+\])* strategy: (\w+) \(")
_LOOPS = re.compile(r"\(Driver\) \[([^\[\]]+)\](?:\[[\d,]*\])+$", re.M)
_RELATION = re.compile(r"(?:Distinct|HashAggregate) ([^,\n]+)(.*)$")
_HOW = re.compile(r", strategy: (\w+) \(")


@dataclass
class Told:
    """What is printed of a clique; plans are steps by number and seed, None for any order."""

    small: dict[str, str] = field(default_factory=dict[str, str])
    strategies: dict[str, str] = field(default_factory=dict[str, str])
    layouts: dict[str, str] = field(default_factory=dict[str, str])
    plans: dict[tuple[int, str | None], list[list[str] | None]] = field(
        default_factory=dict[tuple[int, str | None], "list[list[str] | None]"]
    )


def check_truth(
    db: caladan.Session, program: Any, params: dict[str, Any], stats: Stats, **options: Any
) -> None:
    """Explain a program as it was run, and compare."""
    printed = db.explain(program, "plan", params=params, **options)
    match stats.engine:
        case "embedded":
            parts = _by_program(printed, stats)
            for part, done in parts:
                _check_embedded(part, done, stats, is_alone=len(parts) == 1)
        case "reference":
            named = re.findall(r"^\d+\) (.+): (?:once|until nothing is new)$", printed, re.M)
            assert named == [", ".join(each.relations) for each in stats.cliques]
        case _:
            _check_spark(printed, stats)


def _by_program(printed: str, stats: Stats) -> list[tuple[str, list[CliqueStats]]]:
    """The plans of a script's programs, each with the cliques it derived."""
    found: list[tuple[str, list[CliqueStats]]] = []
    cliques = list(stats.cliques)
    for part in printed.split("== Physical Plan ==\n")[1:]:
        count = sum(bool(_CLIQUE.match(line)) for line in part.splitlines())
        found.append((part, cliques[:count]))
        cliques = cliques[count:]
    assert not cliques, (printed, [each.relations for each in cliques])
    return found


# ── Embedded ─────────────────────────────────────────────────────────────────────────────────────


def _check_embedded(printed: str, done: list[CliqueStats], stats: Stats, *, is_alone: bool) -> None:
    told = read_plan(printed)
    assert list(told) == [each.relations for each in done]
    for clique in done:
        check_clique(told[clique.relations], clique)
    own = {name for each in done for name in each.relations}
    check_arrangements(printed, stats, None if is_alone else own)


def read_plan(printed: str) -> dict[tuple[str, ...], Told]:
    """What the plan of the embedded engine says of each clique."""
    told: dict[tuple[str, ...], Told] = {}
    options: dict[str, str] | None = None
    each, steps = Told(), list[list[str] | None]()
    for line in printed.splitlines():
        if found := _CLIQUE.match(line):
            each = told[tuple(found[1].split(", "))] = Told()
        elif found := _TAKEN.match(line):
            told_of = {"strategy": each.strategies, "held as": each.layouts}
            told_of.get(found[1], each.small)[found[2]] = found[3]
        elif line.endswith(", decided by the facts:"):
            options = each.strategies if line.startswith("  strategy") else each.layouts
            continue
        elif options is not None and line.startswith("    "):
            name, _, when = line.strip().partition(": ")
            assert name not in options, f"{name} is listed twice"
            options[name] = when
            continue
        elif found := _RULE.search(line):
            steps = each.plans.setdefault((int(found[1]), found[2]), [])
            steps.append([])
        elif line.startswith("    any order"):
            steps[-1] = None
        elif found := re.match(r"^    \d+\) (.+)$", line):
            assert steps[-1] is not None
            steps[-1].append(found[1])
        elif line.startswith("    or "):
            steps.append(line.removeprefix("    or ").split("; "))
        options = None
    return told


def check_clique(told: Told, done: CliqueStats) -> None:
    """A clique was done as it was told."""
    assert done.strategy in told.strategies
    reason = told.strategies[done.strategy]
    if len(told.strategies) == 1 and _IF_SHAPED not in reason:
        said = [each.reason for each in done.declined if each.strategy != "tiny rounds"]
        # What is derived first may be little, too: then a run does not look at the rules at all.
        assert all(each in reason or reason.startswith(_NO_SHAPE) for each in said), (said, reason)
    _check_small_rounds(told, done)
    held = {name.removesuffix(", transposed") for name in done.layouts.values()}
    listed = {name.removesuffix(", transposed") for name in told.layouts}
    assert held <= listed, (held, told.layouts)
    for rule in done.rules:
        plans = told.plans.get((rule.rule, rule.seed), [])
        for plan in rule.plans:
            assert any(_is_same(plan, each) for each in plans), (plan, plans)
        assert bool(rule.plans) == bool(rule.evaluated)


def _check_small_rounds(told: Told, done: CliqueStats) -> None:
    """Rounds were done one fact at a time where that was told, or it was told why they are not."""
    if done.tiny_rounds and done.strategy != "meshed":
        assert "one fact at a time" in told.small, told
    for each in done.declined:
        if each.strategy == "tiny rounds" and "as all others" in told.small:
            assert each.reason == told.small["as all others"]


def _is_same(done: list[str], told: list[str] | None) -> bool:
    """Whether steps are those printed; what is printed may go on with what a step is about."""
    if told is None:
        return True
    pairs = zip(done, told, strict=False)
    return len(done) == len(told) and all(t == d or t.startswith(f"{d}: ") for d, t in pairs)


def check_arrangements(printed: str, stats: Stats, relations: set[str] | None = None) -> None:
    """Every arrangement that was made is printed, or of a relation of which some wait for the run.

    `relations` are those to look at; all of them if this is the first run over its data.
    """
    (line,) = re.findall(r"^Arrangements: (.+)$", printed, re.M)
    told: dict[str, list[list[str]]] = {}
    for name, order in re.findall(r"([^\s(]+) by \(([^)]*)\)", line):
        told.setdefault(name, []).append(order.split(", "))
    views = {(name, shown) for name, shown in re.findall(r"([^\s(]+)\(([^)]*)\)", line)}
    later = {
        what: {
            name for names in re.findall(rf"of ([^;]+) {what}", line) for name in names.split(", ")
        }
        for what in ("those of the (?:orders|variables) that", "views that samples")
    }
    anything, any_view = later.values()
    for held in stats.held:
        if held.relation in anything or (relations is not None and held.relation not in relations):
            continue
        is_packed = held.layout == "packed keys"
        if not is_packed and held.relation not in told:
            continue  # what tests look at has rows indexed, too (CALADAN_CHECK)
        for made in held.arrangements[1:] if is_packed else held.arrangements:
            if "_" in made:
                is_told = held.relation in any_view or (held.relation, ", ".join(made)) in views
            else:  # rows are indexed by the columns of a lookup alone
                whole = [order[: len(made)] for order in told.get(held.relation, [])]
                is_told = list(made) in whole if is_packed else set(made) in map(set, whole)
            assert is_told, (held, made, line)


# ── Spark ────────────────────────────────────────────────────────────────────────────────────────


def _check_spark(printed: str, stats: Stats) -> None:
    told = {tuple(names.split(", ")): how for names, how in _STRATEGY.findall(printed)}
    told |= {tuple(names.split(", ")): "frame" for names in _LOOPS.findall(printed)}
    together = {name: how for names, how in told.items() for name in names if "Task [" in printed}
    inside = read_plan(printed)
    waiting = set(re.findall(r"^\[(.+)\] \w+, but", printed, re.M))
    for line in printed.splitlines():
        if (found := _RELATION.search(line)) is not None:
            how = _HOW.search(found[2])
            told.setdefault((found[1],), "frame" if how is None else how[1])
    for done in stats.cliques:
        if ", ".join(done.relations) in waiting:
            continue
        how = told.get(done.relations) or together.get(done.relations[0])
        if how is None:  # nothing that is asked for reads it
            continue
        is_small = how == "frame" and _SMALL in printed  # unless what it reads turns out large
        assert done.strategy in ({"frame", "single"} if is_small else {how}), (done, printed)
        if done.relations in inside:
            if how != "meshed":  # one task goes about it as the embedded engine does
                inside[done.relations].strategies[done.strategy] = "told above"
            check_clique(inside[done.relations], done)
        for each in done.declined:
            if each.strategy in STRATEGIES and each.reason != ONE_TASK:
                assert f"not {each.strategy}: {each.reason}" in printed

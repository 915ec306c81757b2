"""Rules that are allowed, and probably not what their author meant: warnings.

    p(X) <- q(X, Y), r(Z).        W105: `Y` and `Z` stand once: `_`, or a misspelt name
    p(X) <- q(X, N), N = Ann.     W105: for the text, write 'Ann'
    a(X) <- q(X, Ann, Ann), s(X, 'Ann').   W106: `Ann` is a variable, and 'Ann' a constant
    unread(X) <- q(X, _).         W107: no goal needs `unread`

`lint(rules)` has the first two; `unneeded(program)` the last, which only a command can tell: in a
session somebody may ask for the relation later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from caladan.program import Constant, Program, Rule, Variable, atoms
from caladan.program.diagnostics import Diagnostic
from caladan.program.transform import reachable, walk


def lint(rules: Sequence[Rule]) -> tuple[Diagnostic, ...]:
    """Warnings about variables, in the order of the rules."""
    written = [
        [node for node in walk(rule) if isinstance(node, Variable) and _is_written(node)]
        for rule in rules
        if rule.body  # of facts there may be many, and they have no variables
    ]
    names = {variable.name for variables in written for variable in variables}
    texts = {
        node.value
        for rule in rules
        for node in (walk(rule) if rule.body else rule.head.arguments)
        if isinstance(node, Constant) and isinstance(node.value, str) and node.value in names
    }
    return tuple(found for variables in written for found in _of_rule(variables, texts))


def _of_rule(written: Sequence[Variable], texts: set[str]) -> Iterator[Diagnostic]:
    times = Counter(variable.name for variable in written)
    for variable in {each.name: each for each in reversed(written)}.values():
        name = variable.name
        if name.startswith("_"):
            continue
        if name in texts:
            yield Diagnostic(
                "W106",
                f"`{name}` is a variable here, and '{name}' is a constant elsewhere",
                variable.span,
                help=f"a name with a capital letter is a variable: for the text, write '{name}'",
            )
        elif times[name] == 1:
            yield Diagnostic(
                "W105",
                f"the variable `{name}` occurs only once",
                variable.span,
                help=f"write `_` or `_{name}` if any value will do, '{name}' for the text",
            )


def _is_written(variable: Variable) -> bool:
    """True if a program has the variable as its author wrote it; others are made of SQL."""
    span = variable.span
    return span is not None and span.source.text[span.start : span.end] == variable.name


def warn_of_unneeded(program: Program) -> tuple[Diagnostic, ...]:
    """A warning for each relation whose rules no goal needs; none where there are no goals."""
    if not program.goals:
        return ()
    rules: dict[str, list[Rule]] = {}
    for rule in program.rules:
        rules.setdefault(rule.head.relation, []).append(rule)

    def read(name: str) -> Iterator[str]:
        return (atom.relation for rule in rules.get(name, ()) for atom in atoms(rule.body))

    asked = [each.atom.relation for each in (*program.goals, *program.expectations)]
    needed = set(reachable(asked, read))
    return tuple(
        Diagnostic(
            "W107",
            f"no goal needs `{name}`",
            own[0].head.span,
            help="add `query` or `export` for it, or remove its rules",
        )
        for name, own in rules.items()
        if name not in needed
    )

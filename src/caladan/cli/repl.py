"""`caladan repl`: facts, rules and goals at a prompt; with collections declared, Bloom in ticks.

    arc(1, 2). tc(X, Y) <- arc(X, Y).     are kept, and added to what is there
    tc(1, X)?   query tc(1, X).           are asked; so is what only a rule can say: p(X), X > 1?
    table state(key => value).            from here on the program is one of ticks
    put(1, spice, 10).                    handed in, for the next `:tick`
    :help :load :data :explain …          `_COMMANDS` below

A statement ends with `.` or `?`, on whichever line. What is wrong is told and not kept; nothing but
`:quit` or the end of the input ends a session. What comes in through a pipe is answered without
prompts, and ends with 1 where something was wrong.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from caladan.cli import internal
from caladan.cli.editor import ReadLine, reader
from caladan.cli.run import add_data, console, fact, files_of, options, parameters, table
from caladan.data.output import write_text
from caladan.language import files, parse_goal, unparse
from caladan.language.bloom.text import is_declared
from caladan.language.deals import parse
from caladan.language.deals.tokens import BAD, tokenize
from caladan.program import (
    Atom,
    Constant,
    Goal,
    Program,
    Rule,
    Variable,
    atoms,
    diagnostics,
    variables,
)
from caladan.program.clock import heed
from caladan.program.diagnostics import CaladanError, Place, SourceText, Span, error
from caladan.program.notation import count_things
from caladan.program.transform import reachable
from caladan.session import inputs
from caladan.session.result import CaladanWarning, Relation
from caladan.session.session import Session, connect
from caladan.session.stats import Stats
from caladan.ticks.instance import Bloom, program as instance
from caladan.ticks.network import Contents

PROMPT: Final = "caladan> "
MORE: Final = "     ...> "
NAME: Final = "<repl>"
ANSWER: Final = "answer"
"""The relation of a question that is more than one atom."""


def repl(arguments: argparse.Namespace) -> int:
    """Answer what comes in, line by line; 1 if it did not come from a terminal and had mistakes."""
    is_terminal = sys.stdin.isatty()
    with connect(arguments.engine) as db:
        dialogue = Dialogue(db, arguments)
        read: ReadLine = input
        if is_terminal:
            read = reader(lambda: (*_COMMANDS, *dialogue.names), _is_whole)
            print("Facts and rules end with `.`, questions with `?`; `help` lists commands.")
        for name in arguments.program:
            dialogue.attempt(lambda name=name: dialogue.load(name))
        pending = ""
        while not dialogue.is_over:
            try:
                line = read((MORE if pending else PROMPT) if is_terminal else "")
                pending = _take_input(dialogue, f"{pending}\n{line}" if pending else line)
            except EOFError:
                if pending.strip():
                    dialogue.attempt(lambda text=pending: dialogue.take(text))
                break
            except KeyboardInterrupt:  # what was half typed is let go
                with suppress(KeyboardInterrupt):
                    heed()  # Python has raised it; nobody else need
                pending, dialogue.has_failed = "", True
                print(diagnostics.Diagnostic("C043", "interrupted"), file=sys.stderr)
    return 1 if dialogue.has_failed and not is_terminal else 0


def _take_input(dialogue: Dialogue, text: str) -> str:
    """Take what is whole; gives back what is not yet."""
    word = text.strip()
    if word.startswith(":") or word in _WORDS:
        dialogue.attempt(lambda: dialogue.command(_WORDS.get(word, word)))
        return ""
    statements, rest = _cut(text)
    for statement in statements:
        dialogue.attempt(lambda statement=statement: dialogue.take(statement))
    return rest


def _is_whole(text: str) -> bool:
    """True if nothing that was typed is left without an end."""
    return text.strip() in _WORDS or text.lstrip().startswith(":") or not _cut(text)[1]


# ── Statements ───────────────────────────────────────────────────────────────────────────────────


def _cut(text: str) -> tuple[list[str], str]:
    """The statements that are whole, and what is begun and has no end yet.

    A quoted text ends on its line, or is a mistake.
    """
    tokens = tokenize(SourceText(NAME, text), diagnostics.Diagnostics())
    found: list[str] = []
    start = depth = 0
    for kind, at, end in zip(tokens.kinds[:-1], tokens.starts, tokens.ends, strict=False):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(kind, 0)
        is_open = kind == BAD and not text.startswith("/*", at)
        if is_open or (kind in (".", "?") and depth <= 0):
            found.append(text[start:end].strip())
            start, depth = end, 0
    rest = text[start:].strip()
    is_begun = any(at >= start for at in tokens.starts[:-1])
    return found, rest if is_begun else ""


class Dialogue:
    """A program that grows, and the answers to what is asked of it."""

    def __init__(self, db: Session, arguments: argparse.Namespace) -> None:
        self.is_over = False
        self.has_failed = False
        self._db = db
        self._arguments = arguments
        self._statements: list[tuple[str, Program]] = []
        """What was typed or loaded, and what that says; of Bloom the text alone."""
        self._asked: tuple[Goal, Rule | None] | None = None
        self._stats: Stats | None = None
        self._bloom: Bloom | None = None
        self._console = console()
        add_data(db, Program(), arguments)
        self._given = {name for name, _ in arguments.data}

    @property
    def names(self) -> list[str]:
        """The relations that are known."""
        ticking = () if self._bloom is None else self._bloom.collections
        return sorted({*self._given, *inputs.list_defined(self._program()), *ticking})

    def attempt(self, act: Callable[[], None]) -> None:
        """Do something; what is wrong with it is told, and ends nothing."""
        try:
            act()
        except Exception as problem:
            if self._arguments.debug:
                raise
            self.has_failed = True
            is_users = isinstance(problem, CaladanError)
            print(problem if is_users else internal(problem), file=sys.stderr)
        sys.stdout.flush()

    # ── What is typed ────────────────────────────────────────────────────────────────────────────

    def take(self, text: str) -> None:
        """A statement: keep what it says, or answer what it asks."""
        if text.endswith("?"):
            self._ask(*_question(text[:-1]))
            return
        if is_declared(text):
            self._keep(text, Program())
            return
        read = parse(SourceText(NAME, text))
        _check_facts(read)
        if self._bloom is None or (facts := _facts(read)) is None:
            self._take(text, read)
            return
        ways = {"delete": self._bloom.delete, "upsert": self._bloom.upsert}
        for rule, row in facts:
            ways.get(rule.time, self._bloom.insert)(rule.head.relation, [row])

    def load(self, path: str) -> None:
        """What a file says, as if it was typed."""
        text = files.text_of(path)
        if is_declared(text) or self._bloom is not None:
            self._keep(text, Program(), path)
            return
        read = inputs.programs([path], "deals")
        assert isinstance(read, Program)
        self._take(text, read)

    def _take(self, text: str, read: Program) -> None:
        if read.rules or read.relations:
            self._keep(text, read)
        for goal in read.goals:
            self._ask(goal)

    def _keep(self, text: str, read: Program, name: str = NAME) -> None:
        """Add to the program, unless something is wrong with it."""
        before, self._statements = self._statements, [*self._statements, (text, read)]
        self._stats = None  # of other rules than there are now
        try:
            if self._bloom is not None or is_declared(text):
                self._rewire(name)
                return
            program = self._program()
            self._provide(program)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CaladanWarning)
                self._db.check(program, parameters(self._arguments))
        except CaladanError as problem:
            # What is not known yet (C010) may be typed next.
            wrong = [each for each in problem.diagnostics if each.code != "C010"]
            if wrong or self._bloom is not None:
                self._statements = before
                raise CaladanError(*(wrong or problem.diagnostics)) from None

    def _program(self) -> Program:
        relations = (relation for _, each in self._statements for relation in each.relations)
        rules = (rule for _, each in self._statements for rule in each.rules)
        return Program(tuple(relations), tuple(rules))

    def _provide(self, program: Program) -> None:
        """Give relations the data of the folder of facts; one that is declared alone is empty."""
        folder = self._arguments.facts
        found = {} if folder is None else dict(files_of(program, Path(folder)))
        for name, path in found.items():
            if name not in self._given:
                self._add(name, path)
        for relation in program.relations:
            if relation.name not in self._given:
                self._db.add(relation.name, [])
                self._given.add(relation.name)

    def _add(self, name: str, path: str | Path) -> None:
        header, delimiter = self._arguments.header, self._arguments.delimiter
        self._db.add(name, path, header=header, delimiter=delimiter)
        self._given.add(name)

    def _ask(self, goal: Goal, rule: Rule | None = None) -> None:
        if self._bloom is not None:
            self._look(goal, rule)
            return
        self._asked = (goal, rule)
        given = parameters(self._arguments)
        found = self._db.run(self._asking(goal, rule), given, **options(self._arguments))
        self._stats = found.stats
        self._print(found.answer, goal)

    def _asking(self, goal: Goal, rule: Rule | None) -> Program:
        """A goal with the rules it needs: in others, something may not be there yet."""
        program = self._program()
        rules = [*program.rules, *([] if rule is None else [rule])]

        def read(name: str) -> Iterator[str]:
            bodies = [each.body for each in rules if each.head.relation == name]
            return (atom.relation for body in bodies for atom in atoms(body))

        names = reachable([goal.atom.relation], read)
        needed = tuple(each for each in rules if each.head.relation in names)
        return replace(program, rules=needed, goals=(goal,))

    def _print(self, relation: Relation, goal: Goal) -> None:
        if any(True for _ in variables(goal.atom)):
            table(self._console, relation, quiet=self._arguments.quiet)
        else:
            print("true" if relation.count() else "false")

    # ── In ticks ─────────────────────────────────────────────────────────────────────────────────

    def _rewire(self, name: str) -> None:
        """Another program takes over: what tables hold and what waits for a tick goes with it."""
        text = "\n".join(text for text, _ in self._statements)
        made, before = instance(text, name=name), self._bloom
        if before is not None:
            made.inherit(before)
            before.stop()
        self._bloom = made

    def _look(self, goal: Goal, rule: Rule | None) -> None:
        """What a collection holds that matches a goal."""
        assert self._bloom is not None
        if rule is not None:
            hint = "write a rule for it, and ask for its relation"
            raise error("C050", "a program of ticks answers one collection at a time", help=hint)
        atom = goal.atom
        contents = self._bloom[atom.relation]
        schema = self._bloom.wired.schemas[atom.relation]
        if atom.arguments and len(atom.arguments) != len(schema.columns):
            counts = f"{len(schema.columns)} columns, not {len(atom.arguments)}"
            raise error("C011", f"`{atom.relation}` has {counts}", atom.span)
        facts = [row for row in contents.rows() if _matches(atom.arguments, row)]
        self._print(Contents(schema, facts), goal)

    def tick(self, count: str) -> None:
        """Go through a tick, or so many, and print what each has changed."""
        if count and not count.isdecimal():
            raise error("C050", f"`:tick` takes a number of ticks, not `{count}`")
        if self._bloom is None:
            hint = "declare a collection first: `table state(key => value).`"
            raise error("C050", "this program has no ticks", help=hint)
        for _ in range(int(count or 1)):
            self._bloom.tick()
            print(f"tick {self._bloom.stats.ticks}")
            for name in self._bloom.collections:
                added, removed = self._bloom.changes(name)
                for sign, facts in (("-", removed), ("+", added)):
                    for line in sorted(fact(name, row) for row in facts):
                        print(f"  {sign} {line}")

    # ── Commands ─────────────────────────────────────────────────────────────────────────────────

    def command(self, line: str) -> None:
        """What begins with a colon."""
        word, _, rest = line.partition(" ")
        if word not in _COMMANDS:
            hint = diagnostics.did_you_mean(word, _COMMANDS) or "`:help` lists them"
            raise error("C050", f"there is no command `{word}`", help=hint)
        _COMMANDS[word][1](self, rest.strip())

    def show_help(self, _: str) -> None:
        for name, (summary, _act) in _COMMANDS.items():
            print(f"  {name:<10} {summary}")

    def data(self, rest: str) -> None:
        """Give a relation the data of a file."""
        name, _, path = rest.partition(" ")
        if not path.strip():
            raise error("C050", "name a relation and a file: `:data arc arcs.csv`")
        self._add(name, path.strip())

    def explain(self, stage: str) -> None:
        """What is made of the program, and of what was asked last."""
        if self._bloom is not None:
            print(self._bloom.explain(stage or "all").rstrip())
            return
        asked = self._program() if self._asked is None else self._asking(*self._asked)
        given, limits = parameters(self._arguments), options(self._arguments)
        told = self._db.explain(asked, stage or "all", params=given, stats=self._stats, **limits)
        print(told.rstrip())

    def listing(self, _: str) -> None:
        """Print what the program says so far."""
        for text, _program in self._statements:
            print(text)

    def save(self, path: str) -> None:
        """Write what the program says so far into a file, which `:load` reads."""
        if not path:
            raise error("C050", "name the file: `:save rules.dl`")
        write_text(path, "".join(f"{text}\n" for text, _ in self._statements))
        print(f"wrote {path}")

    def undo(self, _: str) -> None:
        """Take back the statement that was kept last."""
        if not self._statements:
            raise error("C050", "there is nothing to undo")
        self._change(self._statements[:-1])
        print("removed the last statement")

    def delete(self, what: str) -> None:
        """Take back a fact, or all that is said of a relation."""
        text = what.rstrip(" .?")
        if not text:
            raise error("C050", "name a fact or a relation: `:delete arc(1, 2)`, `:delete arc`")
        if self._bloom is not None:
            raise error(
                "C050", "in a program of ticks a rule or a statement deletes facts",
                help="`@delete arc(1, 2).` deletes a fact at the next tick",
            )  # fmt: skip
        fact = None if text.isidentifier() else parse_goal(text, name=NAME).atom
        name = text if fact is None else fact.relation
        kept: list[tuple[str, Program]] = []
        count = 0
        for each, program in self._statements:
            rules = tuple(r for r in program.rules if not _is_meant(r, name, fact))
            relations = tuple(r for r in program.relations if fact is not None or r.name != name)
            left = replace(program, rules=rules, relations=relations)
            gone = len(program.rules) + len(program.relations) - len(rules) - len(relations)
            count += gone
            if rules or relations or not gone:
                kept.append((each, program) if not gone else (unparse(left).strip(), left))
        if not count:
            raise error(
                "C050", f"no statement is about `{text}` here",
                help=diagnostics.did_you_mean(name, self.names),
            )  # fmt: skip
        self._change(kept)
        print(f"deleted {count_things(count, 'statement')}")

    def _change(self, statements: list[tuple[str, Program]]) -> None:
        """Have the program consist of these statements."""
        for name in {rule.head.relation for _, each in self._statements for rule in each.rules}:
            with suppress(CaladanError):  # nothing of it was asked yet
                self._db.forget(name)
        self._statements, self._stats, self._asked = statements, None, None
        if self._bloom is not None:
            self._rewire(NAME)

    def sql(self, query: str) -> None:
        """Ask in SQL, over data and what rules derive."""
        if not query:
            raise error("C050", "write a query: `:sql SELECT count(*) FROM tc`")
        if self._bloom is not None:
            raise error("C050", "SQL cannot read the collections of ticks")
        program = self._program()
        tables = inputs.script(query).tables
        heads = {rule.head.relation: rule.head for rule in program.rules}
        goals = tuple(
            Goal(Atom(name, tuple(Variable(f"C{i}") for i, _ in enumerate(head.arguments))))
            for name, head in heads.items()
            if name.lower() in tables
        )
        if goals:
            self._db.run(replace(program, goals=goals), parameters(self._arguments))
        found = self._db.sql(query, **options(self._arguments))
        table(self._console, found, quiet=self._arguments.quiet)

    def quit(self, _: str) -> None:
        self.is_over = True


_COMMANDS: Final[dict[str, tuple[str, Callable[[Dialogue, str], None]]]] = {
    ":help": ("list the commands", Dialogue.show_help),
    ":load": ("FILE: read statements from a file, answer its goals", Dialogue.load),
    ":data": ("NAME FILE: give a relation its data", Dialogue.data),
    ":list": ("list the statements", Dialogue.listing),
    ":save": ("FILE: write the statements to a file", Dialogue.save),
    ":undo": ("remove the last statement", Dialogue.undo),
    ":delete": ("NAME or FACT: remove a relation with its rules, or a fact", Dialogue.delete),
    ":sql": ("QUERY: ask in SQL", Dialogue.sql),
    ":explain": ("[STAGE]: print a stage of the compiler", Dialogue.explain),
    ":tick": ("[N]: run N ticks, print their changes", Dialogue.tick),
    ":quit": ("end", Dialogue.quit),
}


_WORDS: Final = {"help": ":help", "quit": ":quit", "exit": ":quit"}
"""What people type before they know that commands have a colon."""


def _check_facts(read: Program) -> None:
    """C013 for a fact with a variable: most likely it was meant as a question."""
    for rule in read.rules:
        if not rule.body and any(True for _ in variables(rule.head)):
            raise error(
                "C013", "a fact cannot have variables", rule.span,
                help=f"to ask, end with `?`: `{rule.span.text if rule.span else ''}?`",
            )  # fmt: skip


def _is_meant(rule: Rule, name: str, fact: Atom | None) -> bool:
    """True for a rule of a relation; with a fact, for that fact."""
    if rule.head.relation != name:
        return False
    values = [each.value for each in rule.head.arguments if isinstance(each, Constant)]
    return fact is None or (
        not rule.body
        and values == [each.value for each in fact.arguments if isinstance(each, Constant)]
        and len(values) == len(rule.head.arguments) == len(fact.arguments)
    )


def _shift_problem(problem: CaladanError, text: str, by: int) -> CaladanError:
    """What is wrong with a text that was read with something before it, at its own places."""
    own = SourceText(NAME, text)

    def place(span: Span | Place | None) -> Span | Place | None:
        if not isinstance(span, Span):
            return span
        ends = (min(max(at - by, 0), len(text)) for at in (span.start, span.end))
        return Span(own, *ends)

    return CaladanError(
        *(
            replace(
                each,
                place=place(each.place),
                related=tuple(replace(r, place=place(r.place) or r.place) for r in each.related),
            )
            for each in problem.diagnostics
        )
    )


def _question(text: str) -> tuple[Goal, Rule | None]:
    """A goal; what is more than an atom is a rule for its variables, and a goal for that."""
    try:
        return parse_goal(text, name=NAME), None
    except CaladanError:
        start = f"{ANSWER}() <- "
        try:
            read = parse(SourceText(NAME, f"{start}{text}."))
        except CaladanError as problem:
            raise _shift_problem(problem, text, len(start)) from None
        (rule,) = read.rules
        names = dict.fromkeys(v.name for v in variables(rule.body) if not v.name.startswith("_"))
        free = tuple(Variable(name) for name in names)
        rule = replace(rule, head=replace(rule.head, arguments=free))
        return Goal(replace(parse_goal(f"{ANSWER}()").atom, arguments=free)), rule


def _facts(read: Program) -> list[tuple[Rule, tuple[Any, ...]]] | None:
    """The facts of a statement that has nothing else."""
    found = [
        (rule, tuple(each.value for each in rule.head.arguments if isinstance(each, Constant)))
        for rule in read.rules
    ]
    if any(rule.body or len(row) != len(rule.head.arguments) for rule, row in found):
        return None
    return found if found and not read.relations and not read.goals else None


def _matches(asked: tuple[Any, ...], row: tuple[Any, ...]) -> bool:
    pairs = list(zip(asked, row, strict=False))
    last = {t.name: v for t, v in pairs if isinstance(t, Variable) and not t.is_anonymous}
    return all(v == (t.value if isinstance(t, Constant) else last.get(t.name, v)) for t, v in pairs)

"""Notebooks: `%load_ext caladan`, then rules in cells that begin with `%%datalog`.

    arc = [(1, 2), (2, 3)]                        a cell of Python
    start = 1

    %%datalog                                     a cell of rules
    tc(A, B) <- arc(A, B).
    tc(A, B) <- tc(A, C), arc(C, B).
    query tc($start, B).

    tc.pandas()                                   a cell of Python

Relations and parameters that a cell reads and nothing defines come from the notebook's variables;
what it asks for goes into variables, by the names of the relations, and is shown. A cell without a
goal derives all its relations. `%%datalog out` also puts the Result into `out`; further arguments
are those of `Session.run`, such as `timeout=10`. The session is the notebook's `db`, if that is
one, else one of our own, which remembers rules from cell to cell. Text that begins with SELECT or
WITH is SQL. `%datalog tc(1, X)` asks one goal.

While a cell runs, a line says how far it is; a mistake is shown as its diagnostic
(`CaladanError._render_traceback_`).
"""

from __future__ import annotations

import ast
import html
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from caladan.analysis.resolve import parameter_names
from caladan.program import Program
from caladan.program.diagnostics import error
from caladan.program.events import Event, KernelCompiling, Listener, RoundDone
from caladan.session import inputs
from caladan.session.listeners import Progress, progress
from caladan.session.result import Relation, Result
from caladan.session.session import Session, connect

if TYPE_CHECKING:
    from caladan.language.rasql import Script

_SECONDS: Final = 0.25  # between two lines of progress


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext caladan`."""
    magic = Magic(shell)
    shell.register_magic_function(magic.cell, "cell", "datalog")
    shell.register_magic_function(magic.line, "line", "datalog")


class Magic:
    """`%%datalog` and `%datalog` of one notebook."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._own: Session | None = None
        self._last: Session | None = None
        self._given: dict[str, object] = {}
        """The variables that relations got their data from."""

    def cell(self, line: str, text: str) -> Result | Relation | None:
        """Run a cell; its last answer is what the cell shows."""
        name, options = _arguments(line)
        db, names = self._session(), self._shell.user_ns
        read = db.read(text)
        with self._shown(db):
            out = db.run(read, self._provide(db, read), **options)
        if name is not None:
            names[name] = out
        is_asked = bool(out.answers or out.exports)
        names.update((each, out[each]) for each in (out.exports if is_asked else out))
        if isinstance(read, Program):
            asked = [goal.atom.relation for goal in read.goals if not goal.export]
            names.update(zip(asked, out.answers, strict=True))
        if not out.answers:
            return out
        for answer in out.answers[:-1]:
            self._display(answer)
        return out.answers[-1]

    def line(self, goal: str) -> Relation:
        """Ask a goal of the rules that cells have defined."""
        db, text = self._session(), goal.strip().rstrip("?.")
        with self._shown(db):
            return db.query(text, self._provide(db, Program(goals=(inputs.goal(text),))))

    def _session(self) -> Session:
        given = self._shell.user_ns.get("db")
        if not isinstance(given, Session):
            given = self._own = self._own or connect()
        if given is not self._last:
            self._last, self._given = given, {}
        return given

    def _provide(self, db: Session, read: Program | Script) -> dict[str, object]:
        """Give the session the data of the notebook's variables; returns the parameters."""
        names = self._shell.user_ns
        if isinstance(read, Program):
            wanted = set(inputs.list_mentioned(read)) - {rule.head.relation for rule in read.rules}
            params = parameter_names(read)
        else:
            known = {each.lower(): each for each in names}
            wanted = {known[table] for table in read.tables if table in known}
            params = read.parameters
        # Rules of earlier cells may read what this one does not mention.
        for name in sorted(wanted | self._given.keys()):
            if name in names and not db.defines(name) and _is_data(names[name]):
                given = names[name]
                if self._given.get(name) is given and not _can_change(given):
                    continue
                self._given[name] = given
                db.add(name, given.arrow() if isinstance(given, Relation) else given)
        return {name: names[name] for name in params if name in names}

    @contextmanager
    def _shown(self, db: Session) -> Generator[None]:
        """Show how far a run is while it lasts."""
        line: Progress | NotebookProgress = progress() or NotebookProgress(self._update())
        try:
            with db.listening(line):
                yield
        finally:
            line.close()

    def _update(self) -> Callable[[str], None]:
        """How to show a line in place of the last; empty takes it away."""
        handle: Any = None

        def update(text: str) -> None:
            nonlocal handle
            shown = _Html(f"<small>{html.escape(text)}</small>" if text else "")
            if handle is None and text:
                handle = self._display(shown, display_id=True)
            elif handle is not None:
                handle.update(shown)

        return update

    def _display(self, shown: object, **how: Any) -> Any:
        display = sys.modules["IPython.display"].display if "IPython" in sys.modules else None
        return None if display is None else display(shown, **how)


class NotebookProgress(Listener):
    """One line in the output of a cell that says which round is being evaluated."""

    def __init__(self, update: Callable[[str], None]) -> None:
        self._update = update
        self._drawn = time.monotonic()

    def tell(self, event: Event) -> None:
        match event:
            case KernelCompiling():
                text = "compiling kernels for this processor, once"
            case RoundDone():
                text = f"round {event.number:,}: {event.new:,} new, {event.total:,} facts"
            case _:
                return
        if time.monotonic() - self._drawn >= _SECONDS:
            self._drawn = time.monotonic()
            self._update(text)

    def close(self) -> None:
        """Take the line away."""
        self._update("")


class _Html:
    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return ""


def _is_data(given: object) -> bool:
    """True for what can be the data of a relation: neither text nor a function nor a module."""
    if isinstance(given, Relation):
        return True
    if isinstance(given, str | bytes) or callable(given):
        return False
    is_frame = type(given).__name__ == "DataFrame" or hasattr(given, "__arrow_c_stream__")
    return is_frame or isinstance(given, list | tuple | set | frozenset | dict)


def _can_change(given: object) -> bool:
    """False for data that stays as it is while it is the same object."""
    module = type(given).__module__.partition(".")[0]
    return not (isinstance(given, Relation) or module in ("pyarrow", "pyspark"))


def _arguments(line: str) -> tuple[str | None, dict[str, Any]]:
    """What stands behind `%%datalog`: a name for the result, and options such as `timeout=10`."""
    name: str | None = None
    options: dict[str, Any] = {}
    for word in line.split():
        key, equals, value = word.partition("=")
        if not key.isidentifier() or (not equals and name is not None):
            raise error(
                "C050", f"`{word}` has no meaning after `%%datalog`",
                help="write a name for the result, and options as in `%%datalog out timeout=10`",
            )  # fmt: skip
        if not equals:
            name = key
            continue
        try:
            options[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[key] = value
    return name, options

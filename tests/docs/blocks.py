"""The code blocks of a page, and how each kind is run.

    ```python             run, in order, all blocks of a page in one namespace
    ```pycon              a session at Python's prompt, in the same namespace; output is compared
    ```deals              parsed; run on the reference engine if it has goals and needs no data
    ```deals name.dl      parsed, and written to a file of that name
    ```sql                read as RaSQL; ```sql name.sql is also written to a file of that name
    ```csv name.csv       written to a file of that name
    ```console            lines `$ caladan …` are run, with `< FILE` as what is typed, and output
                          that is shown is compared

Everything happens in a folder of its own that has `examples/` in it. `…` stands for any text.
"""

import doctest
import io
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import caladan as cal
from caladan.cli import main
from caladan.language import parse, rasql
from caladan.program.diagnostics import SourceText

Command = Callable[[list[str]], tuple[int, str]]
"""Runs `caladan` with arguments; its exit code, and what it printed."""

_FENCE = re.compile(r"^```(\w+)(?: ([\w./-]+))?\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    language: str
    name: str | None
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    return [
        Block(m[1], m[2], m[3], page.count("\n", 0, m.start()) + 1) for m in _FENCE.finditer(page)
    ]


class Runner:
    """Runs the blocks of one page, in the current folder."""

    def __init__(self, title: str, command: Command | None = None) -> None:
        self._title = title
        self._command = command or _in_this_process
        self._names: dict[str, object] = {"__name__": "__main__"}

    def run(self, block: Block) -> None:
        if block.name is not None:
            Path(block.name).parent.mkdir(parents=True, exist_ok=True)
            Path(block.name).write_text(block.text, "utf-8")
        match block.language:
            case "python":
                # Newlines in front keep the line numbers of tracebacks those of the page.
                code = compile("\n" * block.line + block.text, self._title, "exec")
                with redirect_stdout(io.StringIO()):
                    exec(code, self._names)
            case "pycon":
                self._pycon(block)
            case "deals":
                _deals(block.text, run=block.name is None)
            case "sql":
                rasql.parse(SourceText(self._title, block.text))
            case "console":
                for command, shown in _commands(block.text):
                    self._console(command, shown)
            case _:
                pass

    def _console(self, command: str, shown: str) -> None:
        words = shlex.split(command)
        if words[0] != "caladan":
            return
        typed = Path(words.pop()).read_text("utf-8") if words[-2:-1] == ["<"] else ""
        with patch("sys.stdin", io.StringIO(typed)):
            code, printed = self._command([word for word in words[1:] if word != "<"])
        if "error[" not in shown:
            assert code == 0, f"$ {command}\n{printed}"
        if shown.strip():
            assert matches(shown, printed), f"$ {command}\nprinted:\n{printed}\nshown:\n{shown}"

    def _pycon(self, block: Block) -> None:
        # A blank line within output is written as such on a page; doctest wants a word for it.
        text = re.sub(r"^\n(?!>>>)", "<BLANKLINE>\n", block.text, flags=re.M)
        test = doctest.DocTestParser().get_doctest(
            text.replace("…", "..."), {}, self._title, self._title, block.line
        )
        test.globs = self._names
        report = io.StringIO()
        options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        runner = doctest.DocTestRunner(optionflags=options, verbose=False)
        result = runner.run(test, out=report.write, clear_globs=False)
        assert result.attempted > 0
        assert result.failed == 0, report.getvalue()


def _deals(text: str, *, run: bool) -> None:
    program = parse(text)
    needs_nothing = not program.relations and not re.search(r"\{\w+\}|\$\w", text)
    if run and program.goals and needs_nothing:
        with cal.connect("reference") as db:
            assert len(db.run(text).answers) == sum(not g.export for g in program.goals)


def _commands(text: str) -> Iterator[tuple[str, str]]:
    """Each `$ …` line with the output shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, shown = part.partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command = f"{command[:-1]} {more.strip()}"
        yield command, shown


def _in_this_process(arguments: list[str]) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            code = main(arguments)
        except SystemExit as end:  # --help
            code = end.code if isinstance(end.code, int) else 0
    return code, out.getvalue()


def matches(shown: str, printed: str) -> bool:
    """Whether a text is as it is shown, apart from blanks at ends of lines; `…` is any text."""
    parts = [re.escape(part) for part in _trimmed(shown).split("…")]
    return re.fullmatch(".*?".join(parts), _trimmed(printed), re.S) is not None


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())

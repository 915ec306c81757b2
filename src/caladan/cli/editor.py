"""Lines of the prompt: with `prompt_toolkit` where it is installed (`caladan[prompt]`), else plain.

`reader(names)` gives a function that reads one line, or, with `prompt_toolkit`, as many lines as a
statement takes: Enter ends it once it is whole, colours show what is what, the tabulator completes
names, and the history is the same file either way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

from caladan.language.deals.tokens import tokenize
from caladan.program.diagnostics import Diagnostics, SourceText

ReadLine: TypeAlias = Callable[[str], str]
"""Reads what is typed after a prompt; EOFError at the end of the input."""

ListNames: TypeAlias = Callable[[], Iterable[str]]
"""What the tabulator completes."""

_WORD: Final = re.compile(r"(?:^:)?\w*$")

_COLOURS: Final = {
    "variable": "ansicyan", "text": "ansigreen", "integer": "ansiyellow", "float": "ansiyellow",
    "parameter": "ansimagenta", "<-": "bold", "~": "ansired bold", "bad": "ansired underline",
}  # fmt: skip


def history_file() -> Path:
    """Where typed lines are kept for the next time."""
    return Path("~/.caladan_history").expanduser()


def reader(names: ListNames, is_whole: Callable[[str], bool]) -> ReadLine:
    """How to read from a terminal."""
    if os.environ.get("TERM") != "dumb" and find_spec("prompt_toolkit") is not None:
        return _toolkit(names, is_whole)
    _readline(names)
    return input


def _readline(names: ListNames) -> None:
    """Lines of earlier times with the arrow keys, where Python has been built with readline."""
    import atexit

    try:
        import readline
    except ImportError:
        return
    file = history_file()
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(10_000)

    def keep() -> None:
        with suppress(OSError):
            readline.write_history_file(file)

    def complete(text: str, number: int) -> str | None:
        found = [n for n in names() if n.startswith(text)]
        return found[number] if number < len(found) else None

    atexit.register(keep)
    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n()~,.?")
    readline.parse_and_bind("tab: complete")


def _toolkit(names: ListNames, is_whole: Callable[[str], bool]) -> ReadLine:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.lexers import Lexer

    class Colours(Lexer):
        def lex_document(self, document: Document) -> Callable[[int], Any]:
            lines = [list(colour(line)) for line in document.lines]
            return lambda number: lines[number] if number < len(lines) else []

    class Known(Completer):
        def get_completions(self, document: Document, complete_event: object) -> Iterator[Any]:
            typed, found = completions(document.text_before_cursor, names())
            for name in found:
                yield Completion(name, start_position=-len(typed))

    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: Any) -> None:
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    assert callable(enter)
    session: Any = PromptSession(
        history=_history(),
        lexer=Colours(),
        completer=Known(),
        complete_while_typing=False,
        key_bindings=keys,
        multiline=True,
        prompt_continuation=lambda width, *_: "...> ".rjust(width),
    )

    def read(prompt: str) -> str:
        typed: str = session.prompt(prompt)
        return typed

    return read


def _history() -> Any:
    """The lines of earlier times, in the file that readline has too: a line each."""
    from prompt_toolkit.history import History

    class Lines(History):
        def load_history_strings(self) -> Iterable[str]:
            try:
                lines = history_file().read_text("utf-8").splitlines()
            except (OSError, UnicodeError):
                lines = []
            return reversed(lines)

        def store_string(self, string: str) -> None:
            with suppress(OSError), history_file().open("a", encoding="utf-8") as file:
                file.write(" ".join(string.split("\n")) + "\n")

    return Lines()


def completions(text: str, names: Iterable[str]) -> tuple[str, list[str]]:
    """The word that a text ends with, and the names that begin with it.

    >>> completions("tc(X) <- rea", ["reaches", "arc", ":help"])
    ('rea', ['reaches'])
    """
    found = _WORD.search(text)
    typed = "" if found is None else found.group()
    return typed, [name for name in names if typed and name.startswith(typed) and name != typed]


def colour(line: str) -> Iterator[tuple[str, str]]:
    """A line in pieces, each with its style.

    >>> list(coloured("p(X)"))
    [('', 'p'), ('', '('), ('ansicyan', 'X'), ('', ')')]
    """
    tokens = tokenize(SourceText("", line), Diagnostics())
    at = 0
    for kind, start, end in zip(tokens.kinds[:-1], tokens.starts, tokens.ends, strict=False):
        if start > at:
            yield ("ansibrightblack", line[at:start])
        yield (_COLOURS.get(kind, ""), line[start:end])
        at = end
    if at < len(line):
        yield ("ansibrightblack", line[at:])

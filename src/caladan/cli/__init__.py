"""The command line: `caladan run`, `explain`, `check`, `test`, `repl`, `warmup`.

    arguments.py  what can be typed
    run.py        run a program and show or write what it asks for; explain and check one; data
    test.py       run the expectations of programs
    repl.py       facts, rules and goals at a prompt

`main` turns whatever happens into an exit code: 0 done, 1 the program or its data is wrong, 2 wrong
usage, 3 a limit was hit, 130 interrupted. Diagnostics go to stderr; stack traces need --debug.
"""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, TypeVar, cast

if TYPE_CHECKING:
    from caladan.program.diagnostics import Diagnostic

T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit code."""
    if argv is None:  # the process is ours, and may end without looking for garbage once more
        atexit.register(_exit_quickly)
    if cast("TextIO | None", sys.stderr) is None:  # closed: what is printed there is not for stdout
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    try:
        with _leave_on_interrupt(is_ours=argv is None):
            from caladan.program.clock import remember_interrupt
        with remember_interrupt():
            return _main(argv)
    except KeyboardInterrupt:
        if "--debug" in (sys.argv if argv is None else argv):
            raise
        from caladan.program.diagnostics import EXIT_INTERRUPTED, Diagnostic

        print(Diagnostic("C043", "interrupted"), file=sys.stderr)
        return EXIT_INTERRUPTED


def _main(argv: Sequence[str] | None) -> int:
    """The same, but for Ctrl-C. Whatever takes time, if only to import it, happens in here."""
    from caladan.cli.arguments import parse_arguments
    from caladan.program.clock import heed
    from caladan.program.diagnostics import EXIT_USER, CaladanError

    try:
        arguments = parse_arguments(argv)
    except CaladanError as problem:
        print(problem, file=sys.stderr)
        return problem.exit_code
    try:
        with _warnings_on_stderr(), _whole_output():
            code = arguments.command(arguments)
            sys.stdout.flush()
            return code
    except CaladanError as problem:
        if arguments.debug:
            raise
        print(problem, file=sys.stderr)
        return problem.exit_code
    except _EnoughError:
        _no_more_output()
        return 0
    except Exception as problem:
        heed()  # of Ctrl-C in the middle of an import Python may make something else
        if arguments.debug:
            raise
        print(internal(problem), file=sys.stderr)
        return EXIT_USER


@contextmanager
def _leave_on_interrupt(*, is_ours: bool) -> Generator[None]:
    """While nothing has begun, Ctrl-C ends the process at once, if it is ours."""

    def leave(*_: object) -> None:
        os.write(2, b"error[C043]: interrupted\n")
        os._exit(130)

    if not is_ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _EnoughError(Exception):
    """Whoever read our output has seen enough. Rich would end the process for a broken pipe."""


class _ClosedStream(io.StringIO):
    """A stdout that was closed before the process began."""

    def write(self, s: str, /) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


class _Output:
    """Stdout; C037 where it cannot be written to, as where its device is full."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = _ClosedStream() if stream is None else stream

    def write(self, text: str) -> int:
        return self._try(lambda: self._stream.write(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _try(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except BrokenPipeError:
            raise _EnoughError from None
        except OSError as problem:
            from caladan.program.diagnostics import error

            _no_more_output()
            reason = problem.strerror or str(problem)
            raise error("C037", f"cannot write to stdout: {reason}") from None


@contextmanager
def _whole_output() -> Generator[None]:
    """See that stdout takes all that is written to it."""
    stream = cast("TextIO | None", sys.stdout)
    sys.stdout = cast("TextIO", _Output(stream))
    try:
        yield
    finally:
        sys.stdout = cast("TextIO", stream)


def _no_more_output() -> None:
    """Send what is left for stdout nowhere; Python would complain about it again at exit."""
    with suppress(OSError):  # of a stdout that is closed there is nothing left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _exit_quickly() -> None:
    """Spare the last look for garbage; DuckDB's bindings count what is left, and would complain."""
    if "_duckdb" not in sys.modules:
        gc.freeze()


@contextmanager
def _warnings_on_stderr() -> Generator[None]:
    """Warnings of programs are drawn like errors; those of libraries are not for users."""
    from caladan.session.result import CaladanWarning

    def show(message: Warning | str, category: type[Warning], *_: object) -> None:
        if issubclass(category, CaladanWarning):
            print(message, file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", CaladanWarning)
        warnings.showwarning = show
        yield


def internal(problem: Exception) -> Diagnostic:
    """What is told of a mistake of ours."""
    from caladan.program.diagnostics import Diagnostic

    what = str(problem).strip().partition("\n")[0]
    return Diagnostic(
        "C090",
        f"internal error: {type(problem).__name__}{': ' if what else ''}{what}",
        help="this is a bug in Caladan: please report it with the output of --debug",
    )

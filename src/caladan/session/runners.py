"""A program from its text to its result in three steps, under the names BigDatalog gave them.

    runner = DatalogRunner(master="local[2]")        a session, or the one it is given
    runner.session.add("arc", "arc.csv")
    runner.compile("tc.dl")                          all errors are reported here
    runner.execute().answer.show()

`RaSQLRunner` does the same for RaSQL. The command line runs programs in this way.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from caladan.program import Program
from caladan.program.options import LanguageName, RunOptions
from caladan.session.course import PreparedProgram
from caladan.session.result import Result
from caladan.session.session import Session, connect

if TYPE_CHECKING:
    from caladan.language.rasql import Script


class DatalogRunner:
    """Runs DeALS programs over a session: a given one, or its own."""

    language: LanguageName | None = None

    def __init__(self, session: Session | None = None, **connection: Any) -> None:
        self._is_own = session is None
        self.session = connect(**connection) if session is None else session
        self._compiled: PreparedProgram | None = None

    def compile(self, program: str | os.PathLike[str] | Program | Script) -> PreparedProgram:
        """Compile a program, given as text or as the path of a file."""
        self._compiled = self.session.prepare(program, language=self.language)
        return self._compiled

    def execute(
        self, params: Mapping[str, object] | None = None, **options: Unpack[RunOptions]
    ) -> Result:
        """Run the program compiled last."""
        if self._compiled is None:
            from caladan.program.diagnostics import error

            first = "runner.compile(program) comes first"
            raise error("C050", "no program was compiled", help=first)
        return self._compiled.run(params, **options)

    def run(
        self,
        program: str | os.PathLike[str] | Program | Script,
        params: Mapping[str, object] | None = None,
        **options: Unpack[RunOptions],
    ) -> Result:
        """Compile and execute a program under one timeout."""
        return self.session.run(program, params, language=self.language, **options)

    def close(self) -> None:
        """Close the session, unless it was given."""
        if self._is_own:
            self.session.close()

    def __enter__(self) -> DatalogRunner:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class RaSQLRunner(DatalogRunner):
    """Runs RaSQL."""

    language: LanguageName | None = "rasql"

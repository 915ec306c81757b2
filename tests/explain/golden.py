"""The golden file: `=== title` and a program, then `--- stage` and what explain prints of it.

`python -m tests.explain.golden` writes the file anew from what explain prints now; read the diff.
"""

from dataclasses import dataclass
from pathlib import Path

from caladan import explain
from caladan.language import parse
from caladan.pipeline import compile_program

PATH = Path(__file__).parent / "golden.txt"


@dataclass(frozen=True)
class Case:
    title: str
    program: str
    stages: dict[str, str]

    def printed(self) -> dict[str, str]:
        """What explain prints now, without headings."""
        compiled = compile_program(parse(self.program), {}, {})
        return {
            stage: _body(explain.text(compiled, stage, explain.Setting(tasks=8)))
            for stage in self.stages
        }


def _body(text: str) -> str:
    return text.split("\n", 1)[1].strip("\n")


def read() -> list[Case]:
    cases: list[Case] = []
    for part in ("\n" + PATH.read_text("utf-8")).split("\n=== ")[1:]:
        head, *stages = part.split("\n--- ")
        title, _, program = head.partition("\n")
        texts = dict(stage.partition("\n")[::2] for stage in stages)
        cases.append(
            Case(title, program.strip("\n"), {s: text.strip("\n") for s, text in texts.items()})
        )
    return cases


def write(cases: list[Case]) -> None:
    parts: list[str] = []
    for case in cases:
        parts.append(f"=== {case.title}\n{case.program}")
        parts += [f"--- {stage}\n{text}" for stage, text in case.printed().items()]
    PATH.write_text("\n\n".join(parts) + "\n", "utf-8")


if __name__ == "__main__":
    write(read())

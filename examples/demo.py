"""The main job, as a user would run it: a program over files, on Spark.

    make demo

Makes the data of examples/supply_chain at first use, then runs the command line of Caladan on it.
Each command is printed before it is run, so that it can be copied.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLE = HERE / "supply_chain"
DATA = EXAMPLE / "data"

WHAT = """\
24,000 packages, 37,000 dependencies between them, 400 services that use them, 400 advisories.
Which services are exposed to a severe advisory, however deep the vulnerable package sits?
"""

NEXT = """\
Try next: read {program}, change a rule, or ask something else:
  {again}
"""


def main() -> int:
    """Make the data, run the program, show the plan."""
    program, data = _relative(EXAMPLE / "program.dl"), _relative(DATA)
    print(WHAT, flush=True)
    _make_data()
    given = [program, "--facts", data, "--param", "severity=7", "--engine", "spark"]
    with tempfile.TemporaryDirectory() as folder:
        stats = Path(folder) / "stats.json"
        code = _caladan("run", *given, hidden=("--stats", str(stats)))
        if code != 0:
            return code
        print(_work(stats), flush=True)
    code = _caladan("explain", *given, "--stage", "plan")
    if code != 0:
        return code
    again = ["run", *given, "--query", "exposed('billing-hash-276', Advisory, Steps)"]
    print(NEXT.format(program=program, again=_command(again)))
    return 0


def _make_data() -> None:
    sys.path.insert(0, str(EXAMPLE))
    import generate

    if all((DATA / f"{name}.csv").exists() for name in generate.RELATIONS):
        return
    print(f"Making the data in {_relative(DATA)}, once:", flush=True)
    generate.main()
    print(flush=True)


def _caladan(*arguments: str, hidden: tuple[str, ...] = ()) -> int:
    """Run a command line of Caladan, in a process of its own."""
    print(f"$ {_command(arguments)}\n", flush=True)
    process = subprocess.run([sys.executable, "-m", "caladan", *arguments, *hidden], check=False)
    print(flush=True)
    return process.returncode


def _command(arguments: list[str] | tuple[str, ...]) -> str:
    program = Path(sys.executable).with_name("caladan")
    shown = _relative(program) if program.exists() else "caladan"
    return " ".join((shown, *map(_quoted, arguments)))


def _quoted(word: str) -> str:
    """A word for the shell; in double quotes if it has single ones in it."""
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)


def _work(path: Path) -> str:
    """What the run did, a line for each clique."""
    stats = json.loads(path.read_text("utf-8"))
    lines = [f"Read {sum(d['facts'] for d in stats['data']):,} facts, then:"]
    for clique in stats["cliques"]:
        rounds = f", {clique['rounds']} rounds" if clique["recursive"] else ""
        names = ", ".join(clique["relations"])
        lines.append(f"  {names}: {clique['facts']:,} facts{rounds}, {clique['seconds']:.1f} s")
    return "\n".join(lines) + "\n"


def _relative(path: Path) -> str:
    """A path as one would type it here."""
    return os.path.relpath(path)


if __name__ == "__main__":
    sys.exit(main())

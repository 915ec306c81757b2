"""Other versions of Python and PySpark: a part of the tests in an environment for each pair.

    make versions                                  every pair of the matrix that can be had here
    make versions ARGS="3.12+4.3 3.11+4.0"         only these
    make versions ARGS="3.11+4.0.0+oldest"         with the oldest release of every dependency
    make versions ARGS="3.12+4.3 -- -k closure"    more arguments for pytest

An environment is made once, in build/versions; it has what the locks pin, but for PySpark. An
interpreter is looked for on the path and where pyenv keeps its own; a pair without is skipped.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
MADE = ROOT / "build" / "versions"

MATRIX = (
    "3.11+4.3",
    "3.12+4.3",
    "3.13+4.3",
    "3.11+4.2",
    "3.11+4.1",
    "3.11+4.0",
    "3.13+4.0",
    "3.11+4.0.0+oldest",
)

PARTS = [
    "tests/cli",
    "tests/columns",
    "tests/data/test_memory.py",
    "tests/programs",
    "tests/rasql/test_constructs.py",
    "tests/result",
    "tests/session",
    "tests/spark/connect",
    "tests/spark/mesh/test_meshed.py",
    "tests/spark/test_external.py",
    "tests/spark/test_session.py",
    "tests/spark/test_sources.py",
    "tests/spark/test_strategies.py",
]
"""What meets other people's code: every engine, Arrow and pandas, files, Spark, the terminal."""

_PINNED = re.compile(r"^([\w.-]+)==([^\s;\\]+)\s*(;[^\\]*)?", re.MULTILINE)
_BOUND = re.compile(r"^([\w.-]+)(?:\[[^\]]*\])?>=([\d.]+)")


@dataclass(frozen=True)
class Pair:
    """A version of Python, one of PySpark, and whether all else is as old as we allow."""

    python: str
    pyspark: str
    is_oldest: bool

    @staticmethod
    def of(text: str) -> "Pair":
        """The pair that is spelled so: `3.12+4.0`, `3.11+4.0.0+oldest`."""
        found = re.fullmatch(r"(3\.\d+)\+(4(?:\.\d+){1,2})(\+oldest)?", text)
        if found is None:
            sys.exit(f"{text!r} is no pair such as 3.12+4.3")
        return Pair(found[1], found[2], found[3] is not None)

    def __str__(self) -> str:
        return f"{self.python}+{self.pyspark}{'+oldest' if self.is_oldest else ''}"


def interpreter(version: str) -> str | None:
    """A Python of this version; one that is on the path may be pyenv's stand-in for none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    ask = "import sys; print(*sys.version_info[:2], sep='.')"
    for python in filter(None, found):
        said = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
        if said.stdout.strip() == version:
            return str(python)
    return None


def constraints(pair: Pair) -> Iterator[str]:
    """Which releases an environment is to have."""
    oldest = dict(_oldest()) if pair.is_oldest else {}
    if pair.is_oldest:
        for name, version in oldest.items():
            if name != "pyspark":
                yield f"{name}=={version if '.' in version else f'{version}.0'}.*"
    for lock in ("runtime", "build", "dev"):
        text = (ROOT / "requirements" / f"{lock}.lock").read_text()
        # What the oldest releases need is for pip to find out: the lock is for the newest.
        if lock == "runtime" and pair.is_oldest:
            continue
        for name, version, marker in _PINNED.findall(text):
            if name not in ("pyspark", "py4j", *oldest):
                yield f"{name}=={version} {marker}".strip()


def _oldest() -> Iterator[tuple[str, str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    for text in (*project["project"]["dependencies"], *extras["spark"]):
        found = _BOUND.match(text)
        assert found is not None, text
        yield found[1], found[2]


def environment(pair: Pair, python: str) -> Path:
    """The interpreter of the environment for a pair."""
    folder = MADE / str(pair)
    inside = folder / "bin" / "python"
    made, pinned = folder / "made", folder / "constraints.txt"
    pip = [str(inside), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    if not made.exists():
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        for wanted in requirements(pair, pinned):
            subprocess.run([*pip, "--constraint", str(pinned), *wanted], check=True)
        made.touch()
    return inside


def requirements(pair: Pair, pinned: Path) -> Iterator[list[str]]:
    """What to install, one after another; `pinned` gets the constraints."""
    pinned.write_text("\n".join(constraints(pair)) + "\n")
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    yield groups["build"]
    is_exact = pair.pyspark.count(".") == 2
    pyspark = f"pyspark[connect]=={pair.pyspark}{'' if is_exact else '.*'}"
    tools = [tool for tool in groups["dev"] if not tool.startswith(("basedpyright", "ruff"))]
    yield ["--no-build-isolation", pyspark, "--editable", str(ROOT), *tools]


def versions(python: Path) -> str:
    """What an environment has, as a line."""
    ask = (
        "import importlib.metadata as m, sys; print('Python', sys.version.split()[0], *("
        "f'{p} {m.version(p)}' for p in ('pyspark', 'numpy', 'numba', 'pandas', 'pyarrow', "
        "'duckdb', 'sqlglot', 'rich')), sep=', ')"
    )
    said = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    return said.stdout.strip()


def main(arguments: Sequence[str]) -> int:
    """Test pairs; 1 if a test of one failed."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    pairs = [Pair.of(text) for text in arguments[:split] or MATRIX]
    more = list(arguments[split + 1 :])
    verdicts: dict[Pair, str] = {}
    for pair in pairs:
        python = interpreter(pair.python)
        if python is None:
            verdicts[pair] = f"skipped: there is no Python {pair.python} here"
            continue
        inside = environment(pair, python)
        print(f"== {pair}: {versions(inside)}", flush=True)
        parts = more if any(word.startswith("tests/") for word in more) else [*PARTS, *more]
        # Compiled kernels of two numbas would take each other's place in one cache.
        settings = {"NUMBA_CACHE_DIR": str(MADE / str(pair) / "cache")} if pair.is_oldest else {}
        # Else tests would wait for kernels to be compiled, and some of them have no patience.
        warm = [str(inside.parent / "caladan"), "warmup"]
        # PySpark 4.0 leaves it to the garbage collector to close its sockets.
        test = [str(inside), "-m", "pytest", "-q", "-W", "ignore:unclosed:ResourceWarning", *parts]
        for command in (warm, test):
            ran = subprocess.run(command, cwd=ROOT, env=os.environ | settings, check=False)
        verdicts[pair] = "passed" if ran.returncode == 0 else "failed"
    print("\n".join(f"{pair}: {verdict}" for pair, verdict in verdicts.items()))
    return int("failed" in verdicts.values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

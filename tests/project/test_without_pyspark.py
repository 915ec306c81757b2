"""PySpark is an extra: without it, everything else works, and asking for Spark names the extra."""

import subprocess
import sys

import pytest

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "pyspark" else found(name, *more)
sys.meta_path.insert(0, Missing())
import caladan as cal
from caladan.cli import main

PROGRAM = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(1, B)."
db = cal.connect()
db.add("arc", [(1, 2), (2, 3)])
"""

NAMED = "error[C051]: PySpark is not installed: pip install 'caladan[spark]'"


def run(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + script]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(
    ("script", "output"),
    [
        ("print(db.run(PROGRAM).answer.rows())", "[(1, 2), (1, 3)]"),
        ("print(db.run(PROGRAM).answer.pandas().shape)", "(2, 2)"),
        ("print(db.sql('SELECT count(*) FROM arc').rows())", "[(2,)]"),
        ("print('Physical Plan' in db.explain(PROGRAM, engine='spark'))", "True"),
        ("print(db.watch(PROGRAM)['tc'].count())", "3"),
    ],
)
def test_the_rest_works(script: str, output: str) -> None:
    done = run(script)
    assert done.stdout.strip() == output, done.stderr


@pytest.mark.parametrize(
    "script",
    [
        "db.run(PROGRAM, strategy='single')",
        "db.add('x', cal.table('x'))",
        "db.run(PROGRAM).answer.spark()",
        "cal.connect('spark')",
        "cal.connect(master='local[1]')",
    ],
)
def test_asking_for_spark_names_the_extra(script: str) -> None:
    done = run(f"try:\n    {script}\nexcept cal.CaladanError as problem:\n    print(problem)")
    assert done.stdout.strip() == NAMED, done.stderr


def test_the_command_line_says_it_in_one_line(tmp_path: object) -> None:
    path = f"{tmp_path}/p.dl"
    with open(path, "w") as file:  # noqa: PTH123
        file.write("p(1). query p(X).")
    done = run(f"sys.exit(main(['run', {path!r}, '--engine', 'spark']))")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == NAMED

"""The wheel alone, as a user gets it: built, installed, and taken through the README's tour.

    make wheel-test      in an empty environment, with dependencies from wherever pip looks for them

The tests of the project do the same, but borrow the dependencies of the environment they run in.
Nothing is taken from the checkout but what the tour itself names: README.md and examples/.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
MADE = ROOT / "build" / "wheel"

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""How a JVM runs that is there for one small program: half of its time would be compilation."""


def built(folder: Path) -> Path:
    """The wheel, built by hatchling as it is in this environment."""
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def installed(wheel: Path, folder: Path, *, borrow: bool) -> Path:
    """The interpreter of an environment that has the wheel in it.

    Borrowed dependencies are found by a line in a .pth file: files of that kind which lie there
    themselves, such as the one that makes this checkout importable, are not read.
    """
    venv.create(folder, clear=True, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    install = [*pip, f"--python={python}", "install"]
    if borrow:
        call(*install, "--no-deps", "--no-index", "--no-compile", str(wheel))
        (inside,) = folder.glob("lib/python*/site-packages")
        there = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
        (inside / "borrowed.pth").write_text("".join(f"{path}\n" for path in sorted(there)))
    else:
        call(*install, f"{wheel}[spark]")
        java = call(python, "-m", "caladan.engines.spark.session.java", check=False)
        if java.returncode:
            call(*install, f"{wheel}[spark,java]")
    return python


def toured(python: Path, folder: Path) -> str:
    """What the tour prints, taken in a folder by an interpreter that has the wheel."""
    folder.mkdir()
    shutil.copytree(ROOT / "examples", folder / "examples")
    return call(python, "-m", "tests.docs.tour", str(ROOT / "README.md"), cwd=folder).stdout


def call(
    *command: str | Path, cwd: Path | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run a program with nothing of this checkout in its path but the tests."""
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, text=True, check=False, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**environ, "PYTHONPATH": str(ROOT), "JDK_JAVA_OPTIONS": SHORT_LIVED},
    )  # fmt: skip
    assert not check or done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}"
    return done


def main() -> None:
    """Build, install into an empty environment, and take the tour."""
    MADE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=MADE) as text:
        folder = Path(text)
        python = installed(built(folder), folder / "venv", borrow=False)
        print(toured(python, folder / "tour"), end="")


if __name__ == "__main__":
    main()

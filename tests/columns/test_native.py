"""Kernels as object files: what is stored is what is loaded, and whatever is wrong is passed by."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy import uint64 as u8

from caladan.columns import native
from caladan.columns.kernels import BOUNDED, INTERPRETED, Kernel, compilations
from caladan.session.stats import Stats

pytestmark = pytest.mark.skipif(
    BOUNDED or INTERPRETED or not native.can_store("any"), reason="kernels are not stored"
)


def checked_sum(numbers: Any, most: Any, doubled: Any) -> Any:
    """A kernel that makes an array, and raises."""
    if numbers.size > most:
        raise ValueError("more numbers than were allowed")
    held = np.empty(numbers.size, np.uint64)
    total = u8(0)
    for i in range(numbers.size):
        held[i] = numbers[i] + numbers[i] if doubled else numbers[i]
        total += held[i]
    return total


def add_rows(table: Any, rows: Any) -> None:
    """A kernel of several signatures, with tuples and two dimensions."""
    for row in rows:
        for i in range(table.shape[0]):
            for j in range(table.shape[1]):
                table[i, j] += row[j]


SUM = (checked_sum, "i8(u8[::1], i8, b1)")
ADD = (add_rows, [f"void(u8[:, ::1], UniTuple(u8[::1], {n}))" for n in (1, 2)])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both kernels as object files."""
    place = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NUMBA_CACHE_DIR", str(place))
        for function, signature in (SUM, ADD):
            Kernel(function, signature).compiled()
    return place


@pytest.fixture
def place(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them, where kernels are looked for."""
    shutil.copytree(files, tmp_path / "copy")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "copy"))
    return tmp_path / "copy"


def loaded(name: str) -> Callable[..., Any]:
    found = native.load(f"test_native.{name}")
    assert found is not None
    return found


def test_a_run_is_told_what_had_to_be_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    first, second = Stats(), Stats()
    for stats in (first, second):
        with compilations(stats):
            assert Kernel(*SUM).compiled()(np.arange(3, dtype=np.uint64), 5, False) == 3
    assert first.kernels == 1
    assert first.compile_seconds > 0
    assert second.kernels == 0  # it was loaded


@pytest.mark.usefixtures("place")
def test_results_and_exceptions_are_those_of_the_kernel() -> None:
    function = loaded("checked_sum")
    numbers = np.arange(5, dtype=np.uint64)
    assert function(numbers, 5, False) == 10
    assert function(numbers, np.int64(5), np.True_) == 20
    with pytest.raises(ValueError, match="more numbers than were allowed"):
        function(numbers, 4, False)
    with pytest.raises(TypeError):
        function(numbers, "5", False)
    with pytest.raises(TypeError):
        function(numbers, 5.5, False)


@pytest.mark.usefixtures("place")
def test_each_signature_has_its_arguments() -> None:
    function = loaded("add_rows")
    table = np.zeros((2, 3), np.uint64)
    row = np.arange(3, dtype=np.uint64)
    assert function(table, (row,)) is None
    function(table, (row, row))
    assert table.tolist() == [[0, 3, 6], [0, 3, 6]]
    empty = np.zeros((0, 3), np.uint64)
    function(empty, (row,))
    read_only = table.copy()
    read_only.flags.writeable = False
    wrong: list[tuple[Any, ...]] = [
        (),
        (table,),
        (table, (row, row, row)),
        (table, [row]),
        (table, (row.astype(np.int64),)),
        (table, (row.tolist(),)),
        (table[:, ::2], (row,)),
        (table[0], (row,)),
        (table.T, (row,)),
        (read_only, (row,)),
        (None, None),
    ]
    for arguments in wrong:
        with pytest.raises(TypeError, match="add_rows does not take these arguments"):
            function(*arguments)
    assert table.tolist() == [[0, 3, 6], [0, 3, 6]]


def test_memory_of_the_system_may_be_mapped(place: Path) -> None:
    """Runs on disk are memory maps, which are arrays of another class."""
    mapped = np.memmap(place / "numbers", np.uint64, "w+", shape=4)
    mapped[:] = 7
    assert loaded("checked_sum")(mapped, 4, False) == 28


@pytest.mark.parametrize("harm", ["cut", "changed", "of all", "link", "gone"])
def test_what_cannot_be_trusted_is_not_loaded(harm: str, place: Path) -> None:
    (path,) = place.rglob("*.checked_sum-*.o")
    content = path.read_bytes()
    match harm:
        case "cut":
            path.write_bytes(content[:-100])
        case "changed":
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "of all":
            path.chmod(0o666)
        case "link":
            path.rename(place / "elsewhere")
            path.symlink_to(place / "elsewhere")
        case _:
            path.unlink()
    assert native.load("test_native.checked_sum") is None
    assert native.load("test_native.add_rows") is not None


def test_what_cannot_be_loaded_is_compiled_and_stored_anew(place: Path) -> None:
    (path,) = place.rglob("*.checked_sum-*.o")
    path.write_bytes(b"")
    again = Kernel(*SUM)
    assert again.compiled()(np.ones(3, np.uint64), 3, False) == 3
    assert loaded("checked_sum")(np.ones(3, np.uint64), 3, False) == 3
    assert path.stat().st_mode & 0o022 == 0
    assert {each.suffix for each in path.parent.iterdir()} == {".o"}, "nothing half written"


@pytest.mark.usefixtures("place")
def test_a_file_is_good_for_one_build() -> None:
    assert native.list_stored() == {"test_native.checked_sum", "test_native.add_rows"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(native, "sources", lambda _: "0123456789abcdef")
        assert native.load("test_native.checked_sum") is None
        assert native.list_stored() == set()
        Kernel(*SUM).compiled()
        assert native.list_stored() == {"test_native.checked_sum"}
    assert native.list_stored() == {"test_native.add_rows"}, "what is of no use any more is gone"


def test_files_that_are_compiled_together_change_together() -> None:
    assert native._with("closure") == ["closure", "intrinsics"]
    assert native._with("probe") == ["probe", "sorted"]
    assert native.sources("closure") != native.sources("intrinsics") != native.sources()


def test_a_kernel_that_no_file_can_hold_is_left_to_numba(place: Path) -> None:
    def listed(numbers: Any) -> Any:
        held = np.zeros(numbers.size, np.uint64)
        held.sort()  # makes a list, which is numba's own
        return held.size

    made = Kernel(listed, "i8(u8[::1])")
    assert made.compiled()(np.ones(3, np.uint64)) == 3
    assert native.load(made.name) is None
    assert not native.can_store(made.name)
    again = Kernel(listed, "i8(u8[::1])")
    assert again.compiled()(np.ones(3, np.uint64)) == 3
    assert list(place.glob("numba-*")), "numba keeps it, since we cannot"


def test_files_are_private(files: Path) -> None:
    (folder,) = files.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700


def test_where_no_one_may_write_kernels_run_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "folder"))
    assert Kernel(*SUM).compiled()(np.ones(3, np.uint64), 3, True) == 6


LATER = """
import sys
import numpy as np
from caladan.columns import native, warmup
assert warmup.preload() == 1
from caladan.columns.kernels import sorted as ordered
keys = np.array([1, 1, 2, 3, 3], np.uint64)
assert ordered.dedup(keys) == 3 and keys[:3].tolist() == [1, 2, 3]
assert "numba" not in sys.modules
import numba  # its own names for objects of Python are not ours
try:
    ordered.dedup(keys.astype(np.int64))
except TypeError as wrong:
    assert "sorted.dedup" in str(wrong)
"""


def test_later_processes_do_without_numba(tmp_path: Path) -> None:
    from caladan.columns.kernels import sorted as ordered

    before: Any = ordered.dedup
    of = Kernel.known.get(before, before)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("NUMBA_CACHE_DIR", str(tmp_path))
        patched.setattr(ordered, "dedup", before)  # put back afterwards
        Kernel(of.function, of._signature).dispatcher()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", LATER], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_nothing_is_freed_under_a_function_when_python_ends() -> None:
    """Freed memory is overwritten here (by glibc): a method that went first would crash Python."""
    script = """if True:
        import caladan
        db = caladan.connect("embedded")
        db.add("arc", [(n, 7 * n % 2003) for n in range(2003)])
        rules = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B), A ~= B. query tc(A, B)."
        print(db.run(rules).answer.count())
    """
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "170"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

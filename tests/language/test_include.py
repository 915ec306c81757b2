"""Files that include others: where they are looked for, how often they are read, what is told."""

import os
from pathlib import Path

import pytest

import caladan as cal
from caladan.language import detect, parse, unparse
from caladan.program import Program
from caladan.program.diagnostics import CaladanError
from caladan.session.inputs import programs


def written(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.dl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def read(path: Path) -> Program:
    found = programs([str(path)])
    assert isinstance(found, Program)
    return found


def heads(program: Program) -> list[str]:
    return [rule.head.relation for rule in program.rules]


def test_names_are_relative_to_the_including_file(tmp_path: Path) -> None:
    written(
        tmp_path,
        main="a(1). include 'sub/one.dl'. z(1).",
        sub__one="b(1). include 'two.dl'. include '../three.dl'. y(1).",
        sub__two="c(1).",
        three="d(1).",
    )
    program = read(tmp_path / "main.dl")
    assert heads(program) == ["a", "b", "c", "d", "y", "z"]
    names = [rule.span.name for rule in program.rules if rule.span is not None]
    assert [Path(name).name for name in names] == [
        "main.dl", "one.dl", "two.dl", "three.dl", "one.dl", "main.dl"
    ]  # fmt: skip


def test_a_file_is_read_once_whatever_it_is_called(tmp_path: Path) -> None:
    written(tmp_path, a="a(1). include 'b.dl'. include './b.dl'. include 'link.dl'.", b="b(1).")
    (tmp_path / "link.dl").symlink_to(tmp_path / "b.dl")
    written(tmp_path, c=f"include '{tmp_path / 'b.dl'}'. include \"b.dl\".")
    assert heads(read(tmp_path / "a.dl")) == ["a", "b"]
    assert heads(read(tmp_path / "c.dl")) == ["b"]


def test_cycles_are_fine(tmp_path: Path) -> None:
    written(
        tmp_path,
        a="include 'a.dl'. include 'b.dl'. a(1).",
        b="include 'c.dl'. b(1).",
        c="include 'a.dl'. c(1).",
    )
    assert heads(read(tmp_path / "a.dl")) == ["c", "b", "a"]


def test_a_long_chain(tmp_path: Path) -> None:
    count = 2000
    for i in range(count):
        (tmp_path / f"f{i}.dl").write_text(f"include 'f{i + 1}.dl'. p({i}).")
    (tmp_path / f"f{count}.dl").write_text(f"p({count}).")
    assert len(read(tmp_path / "f0.dl").rules) == count + 1


def test_several_files_are_one_program(tmp_path: Path) -> None:
    declared = "database({arc(A: integer, B: integer)})."
    written(
        tmp_path,
        a=f"{declared} include 'c.dl'. p(A) <- arc(A, _).",
        b=f"{declared} q(A) <- p(A). query q(A).",
        c="arc(1, 2).",
    )
    both = programs([str(tmp_path / name) for name in ("a.dl", "b.dl", "c.dl", "a.dl")])
    assert isinstance(both, Program)
    assert heads(both) == ["arc", "p", "q"]
    with cal.connect("embedded") as db:
        assert db.run(both).answer.rows() == [(1,)]


def test_mistakes_of_all_files_are_told_together(tmp_path: Path) -> None:
    written(tmp_path, a="include 'b.dl'. p(X Y).", b="q(X Y).", c="r(X Y).")
    with pytest.raises(CaladanError) as caught:
        programs([str(tmp_path / "a.dl"), str(tmp_path / "c.dl")])
    names = [getattr(d.place, "name", "") for d in caught.value.diagnostics]
    assert [Path(name).name for name in names] == ["a.dl", "b.dl", "c.dl"]


def test_text_includes_from_where_it_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, rules="p(1). p(2).")
    monkeypatch.chdir(tmp_path)
    with cal.connect("embedded") as db:
        assert db.run("include 'rules.dl'. query p(X).").answer.count() == 2


def test_what_was_included_is_printed_in_its_place(tmp_path: Path) -> None:
    written(tmp_path, a="a(1). include 'b.dl'. query a(X).", b="b(2).")
    program = read(tmp_path / "a.dl")
    text = unparse(program)
    assert text == "a(1).\nb(2).\n\nquery a(X).\n"
    assert parse(text) == program


@pytest.mark.parametrize(
    ("content", "code"),
    [(None, "C030"), (b"p(\xff).", "C033"), ("folder", "C035"), ("pipe", "C035"), ("/", "C035")],
)
def test_what_cannot_be_included(tmp_path: Path, content: bytes | str | None, code: str) -> None:
    target = tmp_path / "b.dl"
    if isinstance(content, bytes):
        target.write_bytes(content)
    elif content == "folder":
        target.mkdir()
    elif content == "pipe":
        os.mkfifo(target)
    name = "/dev/zero" if content == "/" else "b.dl"
    written(tmp_path, a=f"include '{name}'.")
    with pytest.raises(CaladanError, match=rf"{code}[\s\S]*include '{name}'"):
        read(tmp_path / "a.dl")


@pytest.mark.parametrize(
    "text",
    ["include 'a\\0b'.", "include ''.", f"include '{'x' * 5000}'.", "include '~nobody/x.dl'."],
)
def test_names_that_are_none(text: str) -> None:
    with pytest.raises(CaladanError, match=r"C0(01|30|35)"):
        parse(text.replace("\\0", "\0"), language="deals")


def test_include_and_expect_are_also_names_of_relations() -> None:
    text = "include(1).\nexpect(X) <- include(X).\nno(2).\n\nquery expect(X).\n\nexpect no no(3).\n"
    assert unparse(parse(text)) == text
    assert detect("include 'x.dl'.") == "deals"
    assert detect('.include "x.dl"\n.decl p(x: number)') == "souffle"
    assert detect("expect p(1).") == "deals"


SECRET = "TOKEN=s3cret\nq(s3cret X).\n"


def elsewhere(folder: Path, text: str = SECRET) -> Path:
    """A program in a folder, and a file beside that folder, which it includes in several ways."""
    (folder / "secret.dl").write_text(text)
    written(folder, inside__a="p(1). include '../secret.dl'.")
    written(folder, inside__b=f"p(1). include '{folder / 'secret.dl'}'.")
    written(folder, inside__c="p(1). include 'link.dl'.", inside__d="include 'sub/e.dl'.")
    written(folder, inside__sub__e="p(1). include '../../secret.dl'.")
    (folder / "inside" / "link.dl").symlink_to(folder / "secret.dl")
    return folder / "inside"


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_files_are_included_from_below_the_program_alone(tmp_path: Path, name: str) -> None:
    inside = elsewhere(tmp_path)
    with pytest.raises(CaladanError, match=r"C035.*not below the folder of the program") as caught:
        read(inside / f"{name}.dl")
    assert "s3cret" not in str(caught.value)


def test_text_includes_nothing_from_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(elsewhere(tmp_path))
    with cal.connect("embedded") as db:
        for name in ("../secret.dl", "/proc/self/environ", "link.dl"):
            with pytest.raises(CaladanError, match="C035") as caught:
                db.run(f"include '{name}'. query p(X).")
            assert "s3cret" not in str(caught.value)
            assert "PATH=" not in str(caught.value)


def test_other_folders_may_be_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = elsewhere(tmp_path, "q(2).")
    monkeypatch.setenv("CALADAN_INCLUDE", os.pathsep.join(["/nowhere", str(tmp_path)]))
    assert heads(read(inside / "a.dl")) == ["p", "q"]
    (tmp_path / "secret.dl").write_text(SECRET)
    with pytest.raises(CaladanError, match=r"C035.*it is no program .line 1") as caught:
        read(inside / "a.dl")
    assert "s3cret" not in str(caught.value)


def test_what_is_no_text_is_not_included(tmp_path: Path) -> None:
    written(tmp_path, a="include 'b.dl'.", b="p(1).\0A=1")
    with pytest.raises(CaladanError, match=r"C035.*it is not text"):
        read(tmp_path / "a.dl")

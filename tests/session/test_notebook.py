"""Notebooks: cells of rules, tables and diagnostics as they are shown there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import caladan as cal
from caladan.program.events import RoundDone
from caladan.session.notebook import NotebookProgress

CLOSURE = "tc(A, B) <- arc(A, B).\ntc(A, B) <- tc(A, C), arc(C, B).\n"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A notebook with the extension loaded, and a session of its own on embedded."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    hook = sys.displayhook, sys.excepthook
    made = InteractiveShell()
    made.run_cell("%load_ext caladan")
    monkeypatch.setattr("caladan.session.notebook.connect", lambda: cal.connect("embedded"))
    yield made
    sys.displayhook, sys.excepthook = hook


def ran(shell: Any, text: str) -> Any:
    """What a cell gives; what it prints is thrown away."""
    with capture_output():
        done = shell.run_cell(text)
    done.raise_error()
    return done.result


def test_relations_and_parameters_come_from_variables_and_go_there(shell: Any) -> None:
    ran(shell, "arc = [(1, 2), (2, 3)]\nstart = 1")
    shown = ran(shell, f"%%datalog\n{CLOSURE}query tc($start, B).")
    assert isinstance(shown, cal.Relation)
    assert shown.rows() == [(1, 2), (1, 3)]
    assert ran(shell, "tc.pandas().shape") == (2, 2)
    # Rules stay, and changed variables count.
    ran(shell, "arc = [(1, 2), (2, 3), (3, 4)]")
    assert ran(shell, "%datalog tc(1, X)").count() == 3
    assert ran(shell, "%%datalog\nSELECT count(*) AS n FROM arc").rows() == [(3,)]


def test_frames_and_answers_are_data(shell: Any) -> None:
    shell.user_ns["edges"] = pd.DataFrame({"a": [1, 2], "b": [2, 3]})
    ran(shell, "%%datalog out timeout=60\nboth(A) <- edges(A, _), edges(_, A).\nquery both(A).")
    assert shell.user_ns["out"].answer.rows() == [(2,)]
    shell.user_ns["db"] = cal.connect("embedded")  # another session, without those rules
    assert ran(shell, "%%datalog\nnext(B) <- both(A), edges(A, B).").keys() == {"next"}
    assert shell.user_ns["next"].rows() == [(3,)]


def test_a_mistake_is_its_diagnostic(shell: Any) -> None:
    with capture_output() as seen:
        shell.run_cell("%%datalog\np(X) <- q(X), X != 1.")
        shell.run_cell("%%datalog --fast\np(1).")
        shell.run_cell("import caladan as cal\ncal.connect('embedded').run('p(X) <- q(X).')")
    said = seen.stdout + seen.stderr
    assert "error[C001]: expected a comparison operator" in said
    assert "for not equal write `~=`" in said
    assert "error[C050]: `--fast` has no meaning after `%%datalog`" in said
    assert "error[C010]: unknown relation `q`" in said
    assert "Traceback" not in said
    assert said.count("\n") < 20


def test_progress_is_one_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    line = NotebookProgress(seen.append)
    line.tell(RoundDone(1, 5, 5, 0.1))
    assert seen == []  # too early to be worth a line
    monkeypatch.setattr("time.monotonic", lambda: 1e9)
    line.tell(RoundDone(2, 7, 12, 0.1))
    line.close()
    assert seen == ["round 2: 7 new, 12 facts", ""]


def test_html() -> None:
    with cal.connect("embedded") as db:
        db.add("arc", [(i, i + 1) for i in range(40)])
        out = db.run(CLOSURE + "query tc(0, B).\nquery arc(A, B).")
        table = out.answer._repr_html_()
        assert table.count("<tr>") == 21
        assert "… and 20 more" in table
        assert '<caption style="white-space: nowrap' in table
        assert out._repr_html_().count("<caption") == 3
        assert "<td>arc</td><td>data</td>" in db._repr_html_()
        assert "<td>tc</td><td>rules</td>" in db._repr_html_()
        assert "total" in out.stats._repr_html_()
        plan = db.explain(CLOSURE + "query tc(0, B).")
        assert isinstance(plan, str)
        page = plan._repr_html_()
        assert page.count("<details") == plan.count("\n== ") + plan.startswith("== ")
        assert "tc(A,B)&lt;-arc(A,B)" in page.replace(" ", "")

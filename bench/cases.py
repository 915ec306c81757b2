"""The cases: a program of programs/, data, and the counts of facts that must come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.data import FOLDER, Files, Made, graph

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Case:
    """What is run. A count that is None is not known; contestants must then agree."""

    name: str
    program: str
    data: Files | Made
    counts: Mapping[str, int | None]
    params: Mapping[str, int] = field(default_factory=dict)

    def text(self, file: str) -> str | None:
        """The program in a contestant's language, None if nobody wrote it."""
        path = PROGRAMS / self.program / file
        return path.read_text(encoding="utf-8") if path.is_file() else None


def _closures() -> list[Case]:
    known = {
        "tree11.csv": 805_001,
        "grid150.csv": 131_675_775,
        "gnp10K.csv": 100_000_000,
        "OL.cedge.tsv": 146_120,
        "cal.cedge.tsv": 501_755,
        "SF.cedge.tsv": 80_498_014,
        "luxembourg_osm.tsv": 5_022_084,
        "wiki-Vote.tsv": 11_947_132,
        "CA-HepTh.tsv": 74_619_885,
        "fe_sphere.tsv": 78_557_912,
        "loc-Brightkite.tsv": 138_269_412,
    }
    return [Case(f"tc-{_short(f)}", "tc", graph(f), {"tc": n}) for f, n in known.items()]


def _generations() -> list[Case]:
    known = {
        "tree11.csv": 2_086_271_974,
        "grid150.csv": 2_295_050,
        "OL.cedge.tsv": 285_431,
        "cal.cedge.tsv": 23_519,
        "email-Eu-core.tsv": 942_807,
    }
    return [Case(f"sg-{_short(f)}", "sg", graph(f), {"sg": n}) for f, n in known.items()]


def _components() -> list[Case]:
    known = {"tree11.csv": 1_320, "grid150.csv": 25, "gnp10K.csv": 1}
    return [Case(f"cc-{_short(f)}", "cc", graph(f), {"labels": n}) for f, n in known.items()]


def _pointers() -> list[Case]:
    counts = {"vf": 30_152, "va": 384_485, "ma": 112_761}
    files = {
        "a": ("cspa/cspa10k/facts/Assign.csv", ("A", "B")),
        "d": ("cspa/cspa10k/facts/Dereference.csv", ("A", "B")),
    }
    return [
        Case("cspa-10k", "cspa", Files(files, delimiter="\t", skip=1), counts),
        Case("andersen-5M", "andersen", Made("andersen"), {"points_to": None}),
    ]


def _ontology() -> list[Case]:
    files = {
        "isMainClass": ("C",),
        "isSubClass": ("C",),
        "subClassOf": ("C", "D"),
        "subProp": ("R", "S"),
        "conj": ("Y", "D1", "D2"),
        "exists": ("Y", "R", "C"),
    }
    paths = {name: (f"galen-el/{name}.csv.gz", columns) for name, columns in files.items()}
    counts = {"sub": 1_091_144, "main_sub": 455_126, "ex": 309_713}
    return [Case("galen-el", "galen", Files(paths, text=True), counts)]


def _joins() -> list[Case]:
    vote, email = graph("wiki-Vote.tsv"), graph("email-Eu-core.tsv")
    return [
        Case("triangles-wiki-Vote", "triangles", vote, {"triangle": 608_389}),
        Case("triangles-email", "triangles", email, {"triangle": 105_461}),
        Case("cycles-wiki-Vote", "cycles", vote, {"cycle": 131_925}),
        *(
            # Three bindings for each spoke, there and back and round the loop; one for the loop.
            Case(
                f"cycles-hub-{label}",
                "cycles",
                Made("hub", {"edges": n}),
                {"cycle": 3 * n // 2 + 1},
            )
            for label, n in (("300k", 300_000), ("1M", 1_000_000), ("3M", 3_000_000))
        ),
        Case("cliques4-email", "cliques4", email, {"clique": 423_750}),
    ]


def _rounds() -> list[Case]:
    return [
        Case("chain-100k", "reach", Made("chain"), {"reach": 100_001}),
        Case("odd-even-100k", "odd_even", Made("chain"), {"odd": 50_000, "even": 50_001}),
        Case(
            "ten-rules-10k",
            "ten_rules",
            Made("chain", {"length": 10_000}),
            {"p0": 1_001, "p9": 1_000},
        ),
        # Arithmetic keeps these from having a shape: they are about rounds.
        Case("steps-100k", "steps", Made("chain"), {"far": 100_001}),
        Case(
            "ten-steps-10k",
            "ten_steps",
            Made("chain", {"length": 10_000}),
            {"p0": 1_001, "p9": 1_000},
        ),
        Case("list-order", "list_order", Made("document"), {"next_visible": 125_667}),
    ]


def _flows() -> list[Case]:
    """Dataflow from few sources, and what is nearly that."""
    known = {
        "null_flow": 436_613,
        "null_flow_condition": 397_608,
        "null_flow_column": 436_613,
        "null_flow_rules": 436_613,
        "null_flow_costs": 436_613,
        "null_flow_mixed": 436_613,
    }
    return [Case(p.replace("_", "-"), p, Made("flow"), {"null": n}) for p, n in known.items()]


def _paths() -> list[Case]:
    return [
        Case("sssp-40k", "sssp", Made("weighted"), {"path": 39_719}, {"start": 0}),
        Case("apsp-OL", "apsp", graph("OL.cedge.tsv"), {"path": 146_120}),
        Case("apsp-cal", "apsp", graph("cal.cedge.tsv"), {"path": 501_755}),
    ]


def _bound() -> list[Case]:
    """A goal that binds one end; then the same closure, and distances, written the other ways."""
    grid = graph("grid150.csv")
    return [
        *(
            Case(f"bound-{how}", f"bound_{how}", grid, {"answer": 2_699}, {"start": 0})
            for how in ("right", "doubled", "distances")
        ),
        Case("bound-grid150", "bound", grid, {"answer": 2_699}, {"start": 0}),
        Case("bound-SF", "bound", graph("SF.cedge.tsv"), {"answer": 1_253}, {"start": 0}),
    ]


def _short(file: str) -> str:
    return file.partition(".")[0]


CASES: tuple[Case, ...] = (
    *_closures(),
    *_generations(),
    *_components(),
    *_paths(),
    *_pointers(),
    *_ontology(),
    *_joins(),
    *_rounds(),
    *_flows(),
    *_bound(),
)


def find(names: list[str]) -> list[Case]:
    """The cases of the given names, or whose names start with them; all if none is given."""
    unknown = [n for n in names if not any(_matches(case, n) for case in CASES)]
    if unknown:
        raise SystemExit(f"no case is called {', '.join(unknown)}; --list shows them")
    chosen = [c for c in CASES if not names or any(_matches(c, n) for n in names)]
    absent = [c.name for c in chosen if not c.data.is_present]
    if absent:
        print(f"skipped, no data at {FOLDER} (set CALADAN_DATA): {', '.join(absent)}")
    return [c for c in chosen if c.data.is_present]


def _matches(case: Case, name: str) -> bool:
    return case.name == name or case.name.startswith(f"{name}-")

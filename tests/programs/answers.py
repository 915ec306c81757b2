"""Whether a run of a program of the corpus answered what it must."""

from tests.programs.compare import difference
from tests.programs.corpus import Folder

import caladan


def check_answers(folder: Folder, out: caladan.Result) -> None:
    """Compare every answer and every exported relation with what is expected, types and all."""
    found = dict(zip(folder.queries(), out.answers, strict=True))
    found.update({stem: out[name] for name, stem in folder.exports().items()})
    for stem, relation in found.items():
        expected = folder.expected(stem)
        assert relation.types == tuple(map(str, expected.types)), stem
        different = difference(relation.rows(), expected.rows, ordered=folder.is_ordered)
        assert different is None, f"{stem}: {different}"

"""The programs of the corpus that have a recursive clique."""

from tests.programs.corpus import Folder, folders

from caladan.pipeline import compile_program


def is_recursive(folder: Folder) -> bool:
    compiled = compile_program(folder.program, {}, folder.params)
    return any(clique.is_recursive for clique in compiled.delta.cliques)


RECURSIVE = [folder for folder in folders() if is_recursive(folder)]

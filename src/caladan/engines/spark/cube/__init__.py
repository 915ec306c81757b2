"""HyperCube: a cyclic body across the cluster, in one job.

    strategy  *cubed*: facts go to their cells as Arrow, a task for each cell
    plan      where frames are exchanged, as in *frame*: what of a rule is solved together
    spread    facts of all atoms to the cells where they are needed, heavy values split
    task      what a task does with the facts of its cells

Shares and cells themselves are those of `tasks/cells.py`.

Binary joins of a cyclic body, such as a triangle, go through far more partial solutions than it has
solutions. Here every variable is cut into slices, by a hash of its values, and every combination of
slices is a cell. A fact goes to the cells that agree with it; each solution is then in exactly one
cell, where the embedded engine finds it, worst-case optimally, with all conditions at hand.
"""

"""HyperCube: a cyclic body across the cluster, in one job.

    shares    how many slices each variable is cut into, from the sizes of the atoms

Strategy *cubed*, where every task can have all inputs:
    strategy  a task for each cell
    cells     what a cell evaluates: of every atom the facts it needs, heavy values split
    merged    what cells derived, as one

Strategy *frame*, where facts are exchanged:
    plan      the atoms and conditions of a rule that are solved together
    spread    facts of all atoms to the cells where they are needed, heavy values split
    body      what a task does with the facts of its cells

Binary joins of a cyclic body, such as a triangle, go through far more partial solutions than it has
solutions. Here every variable is cut into slices, by a hash of its values, and every combination of
slices is a cell. A fact goes to the cells that agree with it; each solution is then in exactly one
cell, where the embedded engine finds it, worst-case optimally, with all conditions at hand.
"""

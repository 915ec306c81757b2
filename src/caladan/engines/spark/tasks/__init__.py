"""Tasks: the embedded engine inside Spark's Python workers.

    strategies  two of them, *single* and *pivoted*, and how tasks side by side are heard as one
    job         the driver's side: one Spark job, and tables of what its tasks hand out
    work        what tasks are to do, as it travels; the functions that Spark maps
    task        what a task does: read, evaluate, hand out
    exchange    inputs that tasks have a share of, through Spark's shuffle
    connect     *single* with Spark Connect, where there are no RDDs
    cells       what a cell of a cyclic body evaluates; into how many slices variables are cut
    shard       which part, or slice, values fall to
    relay       what a task tells the driver meanwhile, and how its errors travel
    control     the line between the driver and its tasks
    strangers   who has called there and not proved yet who it is
    output      facts, from a task to wherever they are kept

A task runs `EmbeddedEngine` on a program of its own and on Arrow tables. What it derives comes back
with its result if it is little; else it stays behind as Parquet in the staging folder, or, where
evaluating again is cheaper than writing, not at all. Workers import neither the session nor the
rest of the driver's side, and the driver does not load the engine.
"""

"""Tasks: the embedded engine inside Spark's Python workers.

    shipping    inputs, from the driver to where tasks read them
    parts       what a part of a pivoted clique evaluates
    hashing     which part, or slice, values fall to
    work        what tasks are to do, as it travels; the functions that Spark maps
    body        what a task does: read, evaluate, hand out
    relay       what a task tells the driver meanwhile, and how its errors travel
    outputs     facts, from a task to wherever they are kept
    job         the driver's side: one Spark job, and tables of what its tasks hand out
    together    a clique that several tasks evaluate, heard and put together
    single, pivoted    two strategies; the third, cubed, is in cube/

A task runs `EmbeddedEngine` on a program of its own and on Arrow tables. What it derives comes back
with its result if it is little; else it stays behind as Parquet in the staging folder, or, where
evaluating again is cheaper than writing, not at all. Workers import neither the session nor the
rest of the driver's side, and the driver does not load the engine.
"""

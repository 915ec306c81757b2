"""Strategy *meshed*: one job whose tasks exchange what is new among themselves.

    placement    which copies of a relation there are, how they are spread, which one a rule reads
    members      what a part asks of a relation ─► plain (sets of facts), grouped (aggregates)
    outbox       what rules contribute to groups, until it is sent
    slots        what travels: kinds of batches, to whom their rows go
    messages     batches as bytes
    part         one task's part of a clique: evaluate, send, take in
    rounds       the loop that all tasks go through together, and how it ends
    links        connections between tasks: one selector, deadlines and heartbeats
    greeting     who may connect: a challenge that only tasks of this attempt can answer
    job          the barrier job that Spark runs
    strategy     how the engine calls it

Nothing up to `greeting` knows of Spark: tests run the parts in one process.
"""

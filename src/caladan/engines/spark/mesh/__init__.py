"""Strategy *meshed*: one job whose tasks exchange what is new among themselves.

    heavy        values that are too frequent for one task
    placement    which copies of a relation there are, how they are spread, which one a rule reads
    given        what goes in, encoded
    members      what a part asks of a relation ─► plain (sets of facts), grouped (aggregates)
    outbox       what rules contribute to groups, until it is sent
    slots        what travels: kinds of batches, to whom their rows go
    splits       where rows with heavy values go instead
    messages     batches as bytes
    shares       a task's share of a finished relation
    ready        rules over the copies and shares that they read
    placed       relations and rules while certain values are split
    arrivals     what a relation takes in when it is placed anew
    moving       all that parts hold, placed anew
    part         one task's part of a clique: evaluate, send, take in, be placed anew
    expected     what the coming round has to do, and with which values
    balance      values that become heavy while tasks work
    rounds       the loop that all tasks go through together, and how it ends
    shelves      what a part is made of, taken out and put back
    fingerprint  what a checkpoint belongs to
    checkpoint   files of what parts hold after a round
    keeping      when tasks save, and where they go on
    links        connections between tasks: one selector, deadlines and heartbeats
    greeting     who may connect: a challenge that only tasks of this attempt can answer
    secure       what makes connections between tasks secure, where that is asked for
    certificate  what for, made by the driver
    job          the barrier job that Spark runs
    strategy     how the engine calls it

Nothing up to `secure` knows of Spark: tests run the parts in one process.
"""

"""Strategy *meshed*: one job whose tasks exchange what is new among themselves.

The loop and the evaluation of rules are those of `fixpoint/`. Here is what it takes to have several
peers:

    placement    which copies of a relation there are, how they are spread, which one a rule reads
    skew         values that are too frequent for one task, before the first round
    shuffle      what travels: kinds of batches, and to whom their rows go
    messages     how a task stands, and its batches, as bytes; what it tells in the end
    members      a relation as one task has it ─► groups (aggregates)
    rules        what goes in, encoded; relations and rules while certain values are split
    shard        one task's share of a clique: evaluate, send, take in, be placed anew
    gathering    all facts in one task, which goes through rounds alone
    exchange     what happens between two rounds
    balance      values that become heavy while tasks work
    repartition  what a relation takes in when it is placed anew
    snapshot     what a shard is made of, taken out and put back
    checkpoint   files of that, and what they belong to
    recovery     when tasks save, and where they go on
    links        connections between tasks: one selector, deadlines and heartbeats
    handshake    who may connect: a challenge that only tasks of this attempt can answer
    encryption   what makes connections secure, where that is asked for
    task, job    what a task does, and the barrier job that Spark runs
    strategy     how the engine calls it

Nothing up to `encryption` knows of Spark: tests run shards in one process.
"""

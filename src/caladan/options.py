"""Options: how a run is to be done, and where it must stop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may ask of a run. A limit that is None does not exist.

    `max_rounds` bounds the rounds of each clique, `max_facts` the facts derived by the whole run,
    `timeout` its seconds. A run that meets a limit ends with diagnostic C042; what was derived so
    far stays readable. `memory` bounds the bytes of relations that the embedded engine holds in
    memory: most of what the machine has, without it; runs beyond that go to disk. `permissive` sets
    bad rows of input files aside instead of failing. `strategy` forces a way of running cliques on
    Spark; `demand` lets bound goals drive evaluation. `search` sends cyclic bodies through the
    guided search on the embedded engine, by a grade of estimate: jessica, paul, ghanima or leto.
    `checkpoint` is a folder, or the URI of one, in which recursion on Spark is saved now and then
    by strategy *meshed*, so that what is tried or run again goes on from there.
    """

    max_rounds: int | None = None
    max_facts: int | None = None
    timeout: float | None = None
    permissive: bool = False
    strategy: str | None = None
    demand: bool = True
    memory: int | None = None
    search: str | None = None
    checkpoint: str | None = None

"""How strategy *meshed* grows: measured with 1 to 4 processes here, predicted for any number.

    python -m bench.scale [--case sg-grid150] [--write FILE]

Runs the tasks of a mesh as plain processes over loopback, without Spark: what is measured is
evaluation and exchange. CPU seconds count, those of the busiest task: they mean the same on a busy
machine, and with more tasks than cores. From runs with one and two tasks come the rates, and the
model says what each of n tasks needs:

    evaluation   (solutions x a + new facts x b) / n
    rounds       rounds x r                    what a round costs however little there is to do
    messages     rounds x (n - 1) x m          every task sends to and hears from every other
    bytes        sent by a task x c            packing, copying, unpacking

Predictions are printed beside what was measured. Larger numbers are on paper: there a round also
waits for the network, and bytes for its bandwidth.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases import find
from caladan.engines.spark.mesh.exchange import MeshExchange
from caladan.engines.spark.mesh.links import Links
from caladan.engines.spark.mesh.shard import Shard
from caladan.fixpoint.fixpoint import run
from caladan.fixpoint.limits import Limits
from caladan.language import parse
from caladan.pipeline import compile_program
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram

PATIENCE = 600.0
LARGE = 16 << 20  # bytes of a large message
NETWORK = 0.0002  # seconds that a round waits for a network, on paper
BANDWIDTH = 1.25e9  # bytes a second of a network of 10 Gbit/s, on paper


@dataclass(frozen=True)
class Measured:
    """What the tasks of a run did: sums of all tasks, times of the busiest."""

    tasks: int
    rounds: int
    solutions: int
    facts: int
    bytes: int
    cpu: float
    wall: float
    busiest: float  # solutions of the busiest task, as a multiple of the mean


@dataclass(frozen=True)
class Rates:
    """CPU seconds for a solution, a new fact, a round, a message with a peer, a byte sent."""

    solution: float
    fact: float
    round: float
    message: float
    byte: float


@dataclass(frozen=True)
class Load:
    """What is to be done, whoever does it; `sent` are bytes for a new fact if all of it travels."""

    rounds: int
    solutions: float
    facts: float
    sent: float

    def bytes_of(self, tasks: int) -> float:
        """What one of so many tasks sends: all but what it owns itself."""
        return self.facts * self.sent * (tasks - 1) / tasks / tasks


def predicted(load: Load, rates: Rates, tasks: int) -> tuple[float, float, float]:
    """CPU seconds that a task needs for evaluation, for rounds and messages, and for bytes."""
    evaluation = (load.solutions * rates.solution + load.facts * rates.fact) / tasks
    messages = load.rounds * (rates.round + (tasks - 1) * rates.message)
    return evaluation, messages, load.bytes_of(tasks) * rates.byte


# ── Measuring ────────────────────────────────────────────────────────────────────────────────────


def measured(program: DeltaProgram, tables: Mapping[str, pa.Table], tasks: int) -> Measured:
    """Run a clique with so many processes."""
    results = processes(tasks, _evaluate, program, tables)
    per_task = [each.solutions for each in results]
    return Measured(
        tasks,
        results[0].rounds,
        sum(per_task),
        sum(each.facts for each in results),
        sum(each.bytes for each in results),
        max(each.cpu for each in results),
        max(each.wall for each in results),
        max(per_task) * tasks / sum(per_task),
    )


def _evaluate(
    me: int, links: Links, program: DeltaProgram, tables: Mapping[str, pa.Table]
) -> Measured:
    return evaluated(Shard(program, tables, me, links.tasks, Limits(Options())), links)


def evaluated(part: Shard, links: Links) -> Measured:
    """What a part does, from its first round to its last."""
    cpu, wall = time.process_time(), time.perf_counter()
    rounds = run(part, MeshExchange(part, links), part.limits, lambda *_: None)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    solutions = sum(count for count, _ in part.events.solutions.values())
    return Measured(links.tasks, rounds, solutions, part.facts, links.sent, cpu, wall, 1.0)


def _exchange(_: int, links: Links, size: int, times: int) -> float:
    """CPU seconds for sending so many bytes to a peer and receiving as many."""
    data = np.zeros(size, np.uint8)
    started = time.process_time()
    for _ in range(times):
        links.exchange([[memoryview(data)]] * links.tasks)  # pyright: ignore[reportArgumentType]
    return (time.process_time() - started) / times


def processes(tasks: int, work: Any, *arguments: Any) -> list[Any]:
    """What `work` returns in each of some processes that are connected with each other."""
    context = mp.get_context("fork")
    ends: list[list[socket.socket | None]] = [[None] * tasks for _ in range(tasks)]
    for one in range(tasks):
        for other in range(one):
            ends[one][other], ends[other][one] = _pair()
    queue = context.SimpleQueue()

    def run(me: int) -> None:
        links = Links(ends[me], PATIENCE)
        queue.put((me, work(me, links, *arguments)))
        links.farewell()

    children = [context.Process(target=run, args=(me,)) for me in range(tasks)]
    for child in children:
        child.start()
    for row in ends:
        for end in row:
            if end is not None:
                end.close()
    found = dict(queue.get() for _ in range(tasks))
    for child in children:
        child.join()
    return [found[me] for me in range(tasks)]


def _pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection over loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    return one, other


# ── Reporting ────────────────────────────────────────────────────────────────────────────────────


def main() -> None:
    """Measure, fit, compare, and carry on."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale")
    parser.add_argument("--case", default="sg-grid150")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    (case,) = find([options.case])
    program = compile_program(parse(case.text("deals.dl") or ""), {}, {}, demand=False).delta
    tables = case.data.tables()
    measured(program, tables, 1)  # kernels are compiled, or loaded, before anything counts
    runs = [_best(program, tables, tasks) for tasks in (1, 2, 3, 4)]
    lines = [options.case, *_report(runs, _rates(runs))]
    print("\n".join(lines))
    if options.write:
        options.write.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _best(program: DeltaProgram, tables: Mapping[str, pa.Table], tasks: int) -> Measured:
    return min((measured(program, tables, tasks) for _ in range(3)), key=lambda run: run.cpu)


def _rates(runs: Sequence[Measured]) -> Rates:
    """What each of two tasks needs beyond half of the evaluation is what rounds cost.

    Of the evaluation, half is taken to be for solutions and half for what is new.
    """
    alone, two = runs[0], runs[1]
    message = min(processes(2, _exchange, 64, 2000))
    byte = min(processes(2, _exchange, LARGE, 8)) / LARGE
    pair = two.cpu - two.rounds * message - two.bytes / 2 * byte
    one_round = max(2 * pair - alone.cpu, 0.0) / alone.rounds
    half = (alone.cpu - alone.rounds * one_round) / 2
    return Rates(half / alone.solutions, half / alone.facts, one_round, message, byte)


def _report(runs: Sequence[Measured], rates: Rates) -> Iterator[str]:
    yield (
        f"{rates.solution * 1e9:.0f} ns a solution, {rates.fact * 1e9:.0f} ns a new fact, "
        f"{rates.round * 1e6:.0f} us a round, {rates.message * 1e6:.0f} us a message, "
        f"{rates.byte * 1e9:.2f} ns a byte sent"
    )
    yield ""
    yield "| tasks | rounds | facts | MB sent | busiest | CPU s | predicted | wall s |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    sent = runs[1].bytes / runs[1].facts * 2  # with two tasks, half of what travels is at home
    for each in runs:
        load = Load(each.rounds, each.solutions, each.facts, sent)
        whole = sum(predicted(load, rates, each.tasks))
        yield (
            f"| {each.tasks} | {each.rounds} | {each.facts:,} | {each.bytes / 1e6:.1f} "
            f"| {each.busiest:.2f} | {each.cpu:.2f} | {whole:.2f} | {each.wall:.2f} |"
        )
    yield ""
    yield "| tasks | facts | s evaluating | s rounds | s bytes | GB sent by each | GB held |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    alone = runs[0]
    for tasks, facts in ((10, 10**9), (100, 10**10), (1000, 10**11), (1000, 10**12)):
        load = Load(alone.rounds, alone.solutions * facts / alone.facts, facts, sent)
        evaluation, messages, travelling = predicted(load, rates, tasks)
        messages += load.rounds * NETWORK
        travelling = max(travelling, load.bytes_of(tasks) / BANDWIDTH)
        yield (
            f"| {tasks:,} | 10^{len(str(facts)) - 1} | {evaluation:,.0f} | {messages:,.1f} "
            f"| {travelling:,.1f} | {load.bytes_of(tasks) / 1e9:,.1f} "
            f"| {facts * 8 / tasks / 1e9:,.1f} |"
        )


if __name__ == "__main__":
    main()

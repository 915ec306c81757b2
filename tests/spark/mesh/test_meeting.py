"""How the driver brings the tasks of an attempt together."""

from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

import caladan
from caladan.engines.spark.mesh import job
from caladan.engines.spark.mesh.job import Rendezvous
from caladan.engines.spark.tasks.control import Message, Peer


class Task:
    """A task as the driver sees it."""

    def __init__(self, part: int, attempt: int) -> None:
        self.hello = {"part": part, "attempt": attempt, "door": ["host", part, str(attempt)]}
        self.told: list[Any] = []

    def send(self, message: Message) -> None:
        self.told.append(message)

    def call(self, meeting: Rendezvous) -> None:
        meeting.heard(cast("Peer", self), self.hello)


def doors(attempt: int, tasks: int) -> Message:
    return {"doors": [["host", part, str(attempt)] for part in range(tasks)]}


def test_all_are_told_once_the_last_has_called() -> None:
    meeting = Rendezvous(3, lambda _: None)
    tasks = [Task(part, 7) for part in (2, 0, 1)]
    tasks[0].call(meeting)
    tasks[1].call(meeting)
    assert not any(task.told for task in tasks)
    tasks[2].call(meeting)
    assert [task.told for task in tasks] == [[doors(7, 3)]] * 3


def test_tasks_of_two_attempts_do_not_meet() -> None:
    """The first attempt lost a task before it could call; its other tasks still wait."""
    meeting = Rendezvous(2, lambda _: None)
    stale, first, second = Task(1, 4), Task(0, 6), Task(1, 6)
    stale.call(meeting)
    first.call(meeting)
    assert not stale.told
    assert not first.told
    second.call(meeting)
    assert first.told == second.told == [doors(6, 2)]
    assert not stale.told


def test_tasks_that_wait_in_vain_find_each_other_through_spark() -> None:
    """Their numbers do not tell that they belong together."""
    meeting = Rendezvous(2, lambda _: None)
    one, other = Task(0, 3), Task(1, 2)
    one.call(meeting)
    meeting.heard(cast("Peer", one), {"gather": True})
    other.call(meeting)
    assert one.told == other.told == [{"gather": True}]


def test_a_complaint_that_crosses_the_answer_changes_nothing() -> None:
    meeting = Rendezvous(2, lambda _: None)
    tasks = [Task(0, 1), Task(1, 1)]
    for task in tasks:
        task.call(meeting)
    meeting.heard(cast("Peer", tasks[0]), {"gather": True})
    assert [task.told for task in tasks] == [[doors(1, 2)]] * 2


def test_what_else_is_said_is_handed_on() -> None:
    heard: list[Message] = []
    meeting = Rendezvous(2, heard.append)
    meeting.heard(cast("Peer", Task(0, 1)), {"events": [["round_done", 1, 2, 3, 0.5]]})
    assert heard == [{"events": [["round_done", 1, 2, 3, 0.5]]}]


def test_tasks_meet_through_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    class Useless(Rendezvous):
        """Cannot tell who belongs together."""

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self._gathers = True

    monkeypatch.setattr(job, "Rendezvous", Useless)
    db = caladan.connect(spark)
    db.add("arc", [(i, i + 1) for i in range(8)])
    out = db.run(
        "database({arc(A: integer, B: integer)}).\n"
        "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B). query tc(A, B).",
        strategy="meshed",
    )
    assert out.answer.count() == 36
    assert out.stats.strategy == "meshed"

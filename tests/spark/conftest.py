"""Tests that take Spark minutes, or interrupt it, run when asked for: CALADAN_SPARK_LONG=1."""

from __future__ import annotations

import os

import pytest

LONG = ("tests/spark/test_rounds.py", "test_interrupted_like_a_user_does")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("CALADAN_SPARK_LONG"):
        return
    for item in items:
        if any(part in item.nodeid for part in LONG):
            item.add_marker(pytest.mark.skip(reason="set CALADAN_SPARK_LONG=1 to run it"))

"""These tests start processes of their own and take minutes: `make cluster-test` runs them."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.cluster.standalone import SETTINGS, WORKERS, Cluster, cluster

import caladan
from caladan.engines.spark.session.session import start

collect_ignore_glob = [] if os.environ.get("CALADAN_CLUSTER") else ["test_*.py"]


@pytest.fixture(scope="session")
def running() -> Iterator[Cluster]:
    """The cluster that all tests use."""
    with cluster(WORKERS) as started:
        yield started


@pytest.fixture(scope="session")
def session(running: Cluster) -> Iterator[SparkSession]:
    """A Spark session on the cluster, whose tasks lose their patience quickly."""
    conf = {
        **SETTINGS,
        "spark.caladan.mesh.patience": "5",
        "spark.caladan.mesh.checkpoint": "0.3",
    }
    started = start(running.master, conf)
    yield started
    started.stop()


@pytest.fixture
def db(session: SparkSession) -> Iterator[caladan.Session]:
    """A session of our own on it: nothing that another test has defined."""
    with caladan.connect(session) as connected:
        yield connected

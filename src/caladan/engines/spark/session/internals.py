"""Everything the engine asks of Spark's JVM that PySpark has no public call for.

    settings, size_setting, heap, slots, bytes_shuffled      what a session and its context say
    is_stopped, hand_over                                    contexts and RDDs of Python
    kept_active, rehomed                                     sessions that share a context
    plan_text, estimated_bytes, observed                     what Spark knows of a frame
    checkpoint_rdd, in_columns                               frames that are computed once
    described                                                frames that tell Spark what they are
    Plans                                                    who still reads a plan

None of these is an interface that Spark promises to keep. So nothing else in this package talks to
the JVM (a test of the project looks), every function here has a test in tests/spark/test_internals
that fails on a version of Spark that has it otherwise, and each says what it gives there: callers
go on without it. Spark Connect has no JVM on this side; callers do not come here then.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

if TYPE_CHECKING:
    from pyspark import SparkContext, StorageLevel
    from pyspark.sql.types import StructType

_ABSENT: Final = (AttributeError, TypeError, IndexError, Py4JError)
"""What talking to a JVM raises that has something otherwise."""

_CATALOG: Final = "org.apache.spark.sql.catalyst.catalog."
_FIELDS: Final[WeakKeyDictionary[Any, list[tuple[Any, Any]]]] = WeakKeyDictionary()
"""Of each JVM, the fields to reset; looking them up takes longer than resetting them."""
_STATISTICS: Final[WeakKeyDictionary[Any, dict[str, Any]]] = WeakKeyDictionary()
"""Of each JVM, the handles that make statistics."""


# ── Sessions and contexts ────────────────────────────────────────────────────────────────────────


def settings(session: SparkSession) -> dict[str, str]:
    """All settings of a session, in two calls: PySpark would ask for each name and each value."""
    everything = cast("Any", session)._jsparkSession.conf().getAllAsJava()
    names = everything.keySet().toString()[1:-1].split(", ")
    return {name: everything[name] for name in names if name in everything}


@contextmanager
def kept_active(session: SparkSession) -> Generator[None]:
    """Keep the active session what it is; PySpark makes the one that makes a frame active."""
    of_all = cast("Any", SparkSession)
    of_jvm = of_all._get_j_spark_session_class(cast("Any", session)._jvm)
    before, active = of_all._activeSession, of_jvm.getActiveSession()
    try:
        yield
    finally:
        of_all._activeSession = before
        if active.isDefined():
            of_jvm.setActiveSession(active.get())
        else:
            of_jvm.clearActiveSession()


def rehome(frame: DataFrame, session: SparkSession) -> DataFrame | None:
    """The frame as one of another session, whose settings then govern it; None if it cannot be."""
    try:
        return _frame(session, cast("Any", frame)._jdf.queryExecution().analyzed())
    except _ABSENT:
        return None


def is_stopped(context: SparkContext) -> bool:
    """True if a context was stopped from this side."""
    return cast("Any", context)._jsc is None


def hand_over(made: object) -> None:
    """Have an RDD hand its function to the JVM now; PySpark does so when first asked for this."""
    getattr(made, "_jrdd", None)


def size_setting(context: SparkContext, name: str, default: str) -> int:
    """A setting that is a size, in bytes."""
    return int(cast("Any", context)._jsc.sc().conf().getSizeAsBytes(name, default))


def heap(context: SparkContext) -> int:
    """The bytes that the driver's heap may have."""
    return int(cast("Any", context)._jvm.java.lang.Runtime.getRuntime().maxMemory())


def slots(context: SparkContext) -> int:
    """How many tasks can run at once; Spark's default parallelism where it does not say."""
    try:
        scheduler = cast("Any", context)._jsc.sc()
        profile = scheduler.resourceProfileManager().defaultResourceProfile()
        return int(scheduler.maxNumConcurrentTasks(profile))
    except _ABSENT:
        return int(context.defaultParallelism)


def bytes_shuffled(context: SparkContext, tag: str, known: set[int]) -> int | None:
    """The bytes that stages of jobs with a tag have shuffled, but for `known` stages.

    Adds them to the known ones. None where Spark does not say.
    """
    try:
        scala = cast("Any", context)._jsc.sc()
        scala.listenerBus().waitUntilEmpty()
        tracker, store = scala.statusTracker(), scala.statusStore()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForTag(tag)]
        stages = {stage for job in jobs if job.isDefined() for stage in job.get().stageIds()}
        new = stages - known
        found = sum(int(store.lastStageAttempt(stage).shuffleWriteBytes()) for stage in new)
    except _ABSENT:
        return None
    known |= new
    return found


# ── What Spark knows of a frame ──────────────────────────────────────────────────────────────────


def plan_text(frame: DataFrame) -> str:
    """All plans of a frame, as `explain(extended=True)` prints them."""
    return str(cast("Any", frame)._jdf.queryExecution().toString()).strip()


def estimated_bytes(frame: DataFrame) -> int | None:
    """How many bytes Spark takes a frame to have; None if it does not say."""
    try:
        return int(cast("Any", frame)._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    except _ABSENT:
        return None


def read_observed(frame: DataFrame, name: str, numbers: int) -> tuple[int, ...]:
    """Numbers that `frame.observe` was asked for, once the frame has been computed."""
    row = cast("Any", frame)._jdf.queryExecution().observedMetrics().apply(name)
    return tuple(0 if row.isNullAt(i) else int(row.getLong(i)) for i in range(numbers))


# ── Frames that are computed once ────────────────────────────────────────────────────────────────


def checkpoint_rdd(held: DataFrame) -> Any:
    """The RDD behind a checkpointed frame, whose guesses of sizes are dropped; None if not shown.

    Spark guesses the size of a join as the product of its inputs' sizes. A recursion that joins a
    relation with itself squares that guess in every round; after twenty, the guess is a number of a
    million digits, and planning a round is spent multiplying it.
    """
    try:
        plan = cast("Any", held)._jdf.queryExecution().logical()
        for field, nothing in _estimates(plan):
            field.set(plan, nothing)
        return plan.rdd()
    except _ABSENT:
        return None


def _estimates(plan: Any) -> list[tuple[Any, Any]]:
    """The fields of a checkpointed plan that hold guesses, each with what stands for none."""
    gateway = plan._gateway_client
    if gateway not in _FIELDS:
        loader = plan.getClass().getClassLoader()
        nothing = loader.loadClass("scala.None$").getField("MODULE$").get(None)
        found: list[tuple[Any, Any]] = []
        for name in ("originStats", "originConstraints"):
            with suppress(Py4JError):  # no such field in this version of Spark
                field = plan.getClass().getDeclaredField(name)
                field.setAccessible(True)
                found.append((field, nothing))
        _FIELDS[gateway] = found
    return _FIELDS[gateway]


@dataclass(frozen=True, slots=True)
class HeldColumns:
    """A frame that reads columns Spark holds, and the RDD that has them once it is computed."""

    frame: DataFrame
    batches: Any


def in_columns(checkpointed: DataFrame, level: StorageLevel) -> HeldColumns | None:
    """A checkpointed frame, of which nothing is computed yet, held in columns; None if it cannot.

    As objects a row of two numbers takes a hundred bytes of a JVM's heap, in Spark's columns ten or
    less: Spark holds it as it holds a frame that a user caches. What is held does not know what it
    was computed from. To later plans it is a leaf, however many rounds there were before, and the
    files of their exchanges are removed. Spark names what it holds by what it came from, and that
    again by what it came from: so it is best if there is no plan behind.
    """
    session: Any = checkpointed.sparkSession
    try:
        jvm, sql = session._jvm, session._jvm.org.apache.spark.sql
        query = cast("Any", checkpointed)._jdf.queryExecution()
        module = getattr(getattr(sql.execution.columnar, "InMemoryRelation$"), "MODULE$")
        held = session.sparkContext._getJavaStorageLevel(level)
        relation = module.apply(held, query, jvm.scala.Option.apply("caladan"))
        batches = relation.cacheBuilder().cachedColumnBuffers().localCheckpoint()
        return HeldColumns(_frame(session, relation), batches)
    except _ABSENT:
        return None


# ── Frames that tell Spark what they are ─────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Description:
    """What Spark should know of a frame: a name, rows, bytes, which columns may hold nulls.

    `buckets` is (n, columns) if partition i has the rows whose columns Spark's hash sends to i of
    n: of a frame that reads files, if file i, named `…_0000i.parquet`, has them.
    """

    name: str
    rows: int
    size: int
    nullable: tuple[bool, ...]
    buckets: tuple[int, tuple[str, ...]] | None = None


def describe_frame(frame: DataFrame, known: Description) -> DataFrame:
    """The same rows, of which Spark knows rows, bytes, nulls and partitioning.

    A frame of files stays one, and filters and columns reach its reader. Anything else becomes a
    leaf of the plan: nothing is computed here. Where Spark has these things otherwise, the frame as
    it is: right, with sizes that Spark guesses and columns that it takes to have nulls.
    """
    session = frame.sparkSession
    try:
        plan = cast("Any", frame)._jdf.queryExecution().analyzed()
        kind = plan.getClass().getSimpleName()
        if kind == "LogicalRelation":
            return _frame(session, _described_files(session, plan, known))
        if _is_local(plan):  # Spark has its rows
            return frame
        if kind == "InMemoryRelation":  # Spark has counted its bytes
            return _frame(session, plan.withOutput(_output(session, plan, known.nullable)))
        if kind == "LogicalRDD":
            plan = plan.newInstance()
        else:
            rdd = cast("Any", frame)._jdf.queryExecution().toRdd()
            plan = _leaf(session, rdd, plan.schema())
        _set(plan, "output", _output(session, plan, known.nullable))
        _set(plan, "originStats", _option(session, _plan_statistics(session, known)))
        if known.buckets is not None:
            _set(plan, "outputPartitioning", _make_partitioning(session, plan, *known.buckets))
        plan.invalidateStatsCache()
        return _frame(session, plan)
    except _ABSENT:
        return frame


_WIDTHS: Final = {
    "boolean": 1, "tinyint": 1, "smallint": 2, "int": 4, "float": 4, "date": 4, "string": 20,
    "binary": 100,
}  # fmt: skip


def row_size(schema: StructType) -> int:
    """The bytes that Spark takes a row to have: 8, and those of its columns' types."""
    types = [field.dataType.simpleString() for field in schema]
    return 8 + sum(16 if t.startswith("decimal") else _WIDTHS.get(t, 8) for t in types)


def _frame(session: SparkSession, plan: Any) -> DataFrame:
    of_it: Any = session
    made = of_it._jvm.org.apache.spark.sql.classic.Dataset.ofRows(of_it._jsparkSession, plan)
    return DataFrame(made, session)


def _described_files(session: Any, plan: Any, known: Description) -> Any:
    """A plan that reads files, as that of a table with statistics, and perhaps with buckets."""
    of = _CATALOG
    make = _class(session, f"{of}CatalogTable")
    name = session._jvm.org.apache.spark.sql.catalyst.TableIdentifier(known.name)
    kind = _module(session, f"{of}CatalogTableType").EXTERNAL()
    storage = _module(session, f"{of}CatalogStorageFormat").empty()
    table = _made(session, make, name, kind, storage, plan.schema())
    statistics = _catalog_statistics(session, known)
    table = _copy_case(table, stats=_option(session, statistics))
    relation = plan.relation()
    if known.buckets is not None:
        count, columns = known.buckets
        bucket = _class(session, f"{of}BucketSpec")
        spec = _made(session, bucket, count, _seq(session, columns), _seq(session, ()))
        relation = _copy_case(relation, relation.sparkSession(), bucketSpec=_option(session, spec))
    return _copy_case(
        plan,
        relation=relation,
        output=_output(session, plan, known.nullable),
        catalogTable=_option(session, table),
    )


def _is_local(plan: Any) -> bool:
    while plan.getClass().getSimpleName().startswith("Repartition"):
        plan = plan.child()
    return plan.getClass().getSimpleName() == "LocalRelation"


def _leaf(session: Any, rdd: Any, schema: Any) -> Any:
    made = session._jsparkSession.internalCreateDataFrame(rdd, schema, False)
    return made.queryExecution().logical()


def _output(session: Any, plan: Any, nullable: Sequence[bool]) -> Any:
    """The attributes of a plan, nullable or not."""
    output = plan.output()
    given = [output.apply(i) for i in range(output.size())]
    may = nullable or [bool(each.nullable()) for each in given]
    return _seq(session, [a.withNullability(n) for a, n in zip(given, may, strict=True)])


def _make_partitioning(session: Any, plan: Any, count: int, columns: Sequence[str]) -> Any:
    output = plan.output()
    by_name = {output.apply(i).name(): output.apply(i) for i in range(output.size())}
    physical = session._jvm.org.apache.spark.sql.catalyst.plans.physical
    return physical.HashPartitioning(_seq(session, [by_name[name] for name in columns]), count)


def _plan_statistics(session: Any, known: Description) -> Any:
    return _make_statistics(
        session, "org.apache.spark.sql.catalyst.plans.logical.Statistics", known
    )


def _catalog_statistics(session: Any, known: Description) -> Any:
    return _make_statistics(session, f"{_CATALOG}CatalogStatistics", known)


def _make_statistics(session: Any, name: str, known: Description) -> Any:
    """An object made of bytes, rows and whatever its class has for the rest.

    Py4J turns every number that comes from the JVM into one of Python's, so Scala's BigInt cannot
    be handed back to it. Handles put together there make it of longs on that side.
    """
    jvm, gateway = session._jvm, session.sparkContext._gateway
    handles = _STATISTICS.setdefault(gateway, {})
    cls = _class(session, name)
    companion = _module(session, name)
    if name not in handles:
        invoke = jvm.java.lang.invoke
        look, long = invoke.MethodHandles.publicLookup(), jvm.java.lang.Long.TYPE
        anything = _class(session, "java.lang.Object")
        big = look.unreflect(_method(session, "scala.math.BigInt", "apply", long))
        some = look.unreflect(_method(session, "scala.Option", "apply", anything))
        wide = big.asType(invoke.MethodType.methodType(anything, long))
        filters = gateway.new_array(invoke.MethodHandle, 2)
        filters[0], filters[1] = big, invoke.MethodHandles.filterReturnValue(wide, some)
        make = look.unreflectConstructor(cls.getConstructors()[0])
        handles[name] = invoke.MethodHandles.filterArguments(make, 0, filters)
    given = jvm.java.util.ArrayList()
    for each in (known.size, known.rows, *_defaults(cls, companion, 2)):
        given.add(each)
    return handles[name].invokeWithArguments(given)


def _made(session: Any, cls: Any, *first: Any) -> Any:
    """An object of a case class, of its first fields; the others are as by default."""
    companion = _module(session, cls.getName())
    return companion.apply(*first, *_defaults(cls, companion, len(first)))


def _defaults(cls: Any, companion: Any, after: int) -> list[Any]:
    fields = int(cls.getConstructors()[0].getParameterCount())
    return [getattr(companion, f"apply$default${i}")() for i in range(after + 1, fields + 1)]


def _copy_case(case: Any, *beside: Any, **changes: Any) -> Any:
    """A copy of an object of a case class with other fields; `beside` are its later parameters."""
    names = [case.productElementName(i) for i in range(case.productArity())]
    fields = [
        changes[name] if name in changes else case.productElement(i) for i, name in enumerate(names)
    ]
    return case.copy(*fields, *beside)


def _set(plan: Any, name: str, value: Any) -> None:
    field = plan.getClass().getDeclaredField(name)
    field.setAccessible(True)
    field.set(plan, value)


def _seq(session: Any, items: Sequence[Any]) -> Any:
    found = session._jvm.java.util.ArrayList()
    for item in items:
        found.add(item)
    return session._jvm.PythonUtils.toSeq(found)


def _option(session: Any, value: Any) -> Any:
    return session._jvm.scala.Option.apply(value)


def _class(session: Any, name: str) -> Any:
    return session._jvm.java.lang.Class.forName(name)


def _module(session: Any, name: str) -> Any:
    return _class(session, f"{name}$").getField("MODULE$").get(None)


def _method(session: Any, of: str, name: str, argument: Any) -> Any:
    kinds = session.sparkContext._gateway.new_array(session._jvm.java.lang.Class, 1)
    kinds[0] = argument
    return _class(session, of).getMethod(name, kinds)


# ── Who reads a plan ─────────────────────────────────────────────────────────────────────────────


class Plans:
    """Which plans the JVM still has: those of frames, of views, of whatever was made of them."""

    def __init__(self, context: SparkContext) -> None:
        self._jvm = cast("Any", context)._jvm
        self._gone: Any = None  # the queue in which the JVM puts what nobody has any more

    def follow(self, frame: DataFrame) -> Any:
        """A key for all who can read what a frame reads; None if it reads nothing of ours.

        Spark copies plans as it analyses and optimises them, but not the index of files that a
        scan has, the function that Python workers are handed, or an RDD. Where it does not show
        them the key is one that is never gone.
        """
        try:
            read = _common_part(cast("Any", frame)._jdf.queryExecution().analyzed())
            if read is None:
                return None
            if self._gone is None:
                self._gone = self._jvm.java.lang.ref.ReferenceQueue()
            return self._jvm.java.lang.ref.WeakReference(read, self._gone)
        except _ABSENT:
            return object()

    def gone(self) -> Generator[Any]:
        """The keys of those that nobody has any more."""
        while self._gone is not None:
            try:
                key = self._gone.poll()
            except (Py4JError, OSError):  # the JVM is gone, and everything with it
                return
            if key is None:
                return
            yield key


def _common_part(plan: Any) -> Any:
    """What a plan that reads something of ours has in common with all that Spark makes of it."""
    kind = plan.getClass().getSimpleName()
    while kind in ("Project", "Generate") or kind.startswith("Repartition"):
        plan = plan.child()
        kind = plan.getClass().getSimpleName()
    if kind == "LogicalRelation":
        return plan.relation().location()
    if kind == "LogicalRDD":
        return plan.rdd()
    return plan.expressions().head().func() if kind.startswith("MapInArrow") else None

"""Bloom in Python: classes with collections and rules that run in ticks.

>>> from caladan import bloom
>>> class KVS(bloom.Bloom):
...     put = bloom.input("request", "key", "value")
...     get = bloom.input("request", "key")
...     reply = bloom.output("request", to="value")
...     state = bloom.table("key", to="value")
...
...     @bloom.rules
...     def store(self):
...         self.state <<= self.put.project("key", "value")
...         self.reply |= (self.get * self.state).pairs("key").project("request", "value")
>>> kvs = KVS()
>>> kvs.insert("put", [(1, "spice", 10)])
>>> _ = kvs.tick()
>>> kvs.insert("get", [(2, "spice")])
>>> kvs.tick()["reply"].rows()
[(2, 10)]
"""

from caladan.language.bloom.collections import Collection
from caladan.language.bloom.expressions import Expr, const, fn, now, wall_clock
from caladan.language.bloom.folds import (
    accum,
    accum_pair,
    avg,
    bool_and,
    bool_or,
    choose,
    count,
    max,  # noqa: A004
    min,  # noqa: A004
    sum,  # noqa: A004
)
from caladan.language.bloom.lattices import LBag, LBool, LMap, LMax, LMin, LPSet, LSet
from caladan.language.bloom.module import (
    Module,
    bootstrap,
    channel,
    imports,
    input,  # noqa: A004
    lattice,
    lbag,
    lbool,
    like,
    lmap,
    lmax,
    lmin,
    loopback,
    lpset,
    lset,
    output,
    periodic,
    rules,
    scratch,
    stdio,
    sync,
    table,
    temp,
)
from caladan.language.bloom.streams import Stream
from caladan.language.bloom.text import module
from caladan.language.bloom.values import Lattice, check_lattice, check_monotone, check_morphism
from caladan.ticks.engine import Repair
from caladan.ticks.extent import KeyViolation
from caladan.ticks.instance import Bloom, program
from caladan.ticks.network import Network

__all__ = [
    "Bloom",
    "Collection",
    "Expr",
    "KeyViolation",
    "LBag",
    "LBool",
    "LMap",
    "LMax",
    "LMin",
    "LPSet",
    "LSet",
    "Lattice",
    "Module",
    "Network",
    "Repair",
    "Stream",
    "accum",
    "accum_pair",
    "avg",
    "bool_and",
    "bool_or",
    "bootstrap",
    "channel",
    "check_lattice",
    "check_monotone",
    "check_morphism",
    "choose",
    "const",
    "count",
    "fn",
    "imports",
    "input",
    "lattice",
    "lbag",
    "lbool",
    "like",
    "lmap",
    "lmax",
    "lmin",
    "loopback",
    "lpset",
    "lset",
    "max",
    "min",
    "module",
    "now",
    "output",
    "periodic",
    "program",
    "rules",
    "scratch",
    "stdio",
    "sum",
    "sync",
    "table",
    "temp",
    "wall_clock",
]

"""Failures of arithmetic, as diagnostics that name the rule."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from caladan.analysis.core import CoreRule
from caladan.engines.embedded.arithmetic import DivisionByZero, Infinite, Overflow
from caladan.engines.problems import division_by_zero, overflow
from caladan.errors import CaladanError


@contextmanager
def blamed(rule: CoreRule | None) -> Generator[None]:
    """Turn a failure of arithmetic into a diagnostic that names the rule."""
    try:
        yield
    except DivisionByZero:
        assert rule is not None
        raise CaladanError(division_by_zero(rule)) from None
    except Overflow as problem:
        assert rule is not None
        double = isinstance(problem, Infinite)
        raise CaladanError(overflow(rule, double=double)) from None

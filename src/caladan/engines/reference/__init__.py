"""The reference engine: short, slow, and the one that is believed.

values ─► evaluate ─► solutions ─► aggregates ─► cliques ─► engine
"""

from caladan.engines.reference.engine import ReferenceEngine

__all__ = ["ReferenceEngine"]

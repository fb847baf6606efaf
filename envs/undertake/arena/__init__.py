"""Matches between policies, and the protocol by which they are measured (`docs/protocol.md`, `docs/policies.md`).

`play` seats n policies at one table, `evaluate` measures one in fields of others; both play the same documented deals
in every rotation of the seats. `make_policy` finds policies by name.
"""

from undertake.arena.evaluation import Cell, Match, Report, evaluate, play
from undertake.arena.matches import BLOCK, Setting, make_setting, play_block
from undertake.arena.policy import Policy, PolicyError, make_policy
from undertake.arena.statistics import Estimate, compare, estimate

__all__ = [
    "BLOCK",
    "Cell",
    "Estimate",
    "Match",
    "Policy",
    "PolicyError",
    "Report",
    "Setting",
    "compare",
    "estimate",
    "evaluate",
    "make_policy",
    "make_setting",
    "play",
    "play_block",
]

"""The code that the paper's authors published, as it is: DrQ-v2 + CBM and DrQ + CBM, bugs included.

Nothing here is a recommendation. It is the agent behind the paper's numbers, for anyone who wants to compare with them;
docs/methods/cbm.md says choice by choice where it departs from the paper, and what the rest of this package does.
"""

from cbm.agents.released.agents import ReleasedConfig, ReleasedDrQ, ReleasedDrQv2

__all__ = ["ReleasedConfig", "ReleasedDrQ", "ReleasedDrQv2"]

"""TPC, temporal predictive coding: a recurrent latent model without reconstruction, and a policy learned inside it."""

from cbm.agents.tpc.agent import TPC
from cbm.agents.tpc.config import TPCConfig

__all__ = ["TPC", "TPCConfig"]

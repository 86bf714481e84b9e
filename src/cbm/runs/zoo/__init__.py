"""Trained agents to use at once: `zoo:NAME` wherever a run directory is taken."""

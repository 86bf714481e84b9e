"""One run seed, many independent streams: what an episode sees depends on its own index and on nothing before it."""

from __future__ import annotations

import numpy as np

_STREAMS = ("train", "eval/train", "eval/unseen", "explore", "agent", "replay", "probe", "act")


def seed_for(run_seed: int, stream: str, *index: int) -> int:
    """A 32-bit seed for entry `index` of a stream, such as episode 7 of the training environment."""
    entropy = [run_seed, _STREAMS.index(stream), *index]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])

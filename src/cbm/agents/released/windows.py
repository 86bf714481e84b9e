"""Batches as the authors' code draws them: windows of frames before one background, with rewards that are late."""

from __future__ import annotations

import numpy as np
import torch

from cbm.errors import CBMError
from cbm.replay import Replay, column, draw
from cbm.types import Batch

REWARDS = 3  # how many rewards the discounted sum has, which ends with r_t; and steps to the bootstrap of DrQ-v2


def sample_windows(
    replay: Replay, batch_size: int, generator: np.random.Generator, discount: float, ahead: int
) -> Batch:
    """Windows of whole frames, all of one background video: a stack that ends with frame t, and `REWARDS` steps more.

    `n_step_reward` is r_{t-2} + gamma r_{t-1} + gamma^2 r_t, which is two steps late. `boot_obs` is `ahead` steps after
    t. The video is that of a window drawn first: the label is privileged information.
    """
    first, last, label = replay.episodes()
    before = max(replay.stack, REWARDS) - 1  # frames ahead of t that must be there, for the stack and for the rewards
    count = np.maximum(last - REWARDS - first - before + 1, 0)
    if not count.any():
        raise CBMError(
            f"no episode in replay has the {before + 1 + REWARDS} frames that a window of this agent needs yet. Choose "
            f"more --training.seed_steps, or another agent if episodes are never that long."
        )
    count = np.where(label == label[draw(count, 1, generator)[0]], count, 0)
    episode, offset = draw(count, batch_size, generator)
    t = first[episode] + before + offset
    late = replay.records(t[:, None] + np.arange(2 - REWARDS, 2))["reward"] @ discount ** np.arange(REWARDS)
    step, boot = replay.records(t + 1), replay.records(t + ahead)
    next_obs = replay.observations(t + 1)
    return Batch(
        obs=replay.observations(t),
        action=torch.from_numpy(np.ascontiguousarray(step["action"])),
        reward=column(step["reward"]),
        next_obs=next_obs,
        n_step_reward=column(late),
        n_step_discount=column(discount**ahead * ~boot["terminal"]),
        boot_obs=next_obs if ahead == 1 else replay.observations(t + ahead),
        episode=torch.from_numpy(episode),
        later_obs=next_obs,
        actions=torch.from_numpy(step["action"][:, None].copy()),
        steps=torch.ones(batch_size, dtype=torch.long),
    )

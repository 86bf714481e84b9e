"""What agents and analyses take from replay: transitions with n-step returns, sequences, stacked observations."""

from __future__ import annotations

import numpy as np
import torch

from cbm.errors import CBMError
from cbm.replay.storage import Storage
from cbm.types import Batch, Sequences


class Replay(Storage):
    """Batches from a ring of frames. Make one with `Replay.create`, or return to a checkpoint with `Replay.open`."""

    def __len__(self) -> int:
        """How many transitions can be sampled."""
        _, low, end = self._ranges()
        return int(np.maximum(end - low, 0).sum())

    def sample(
        self,
        batch_size: int,
        generator: np.random.Generator,
        n_step: int = 1,
        discount: float = 0.99,
        episodes: int = 0,
        ahead: int = 1,
    ) -> Batch:
        """`batch_size` transitions, uniformly and with replacement; from at most `episodes` episodes unless it is 0.

        `later_obs` is `ahead` steps after `obs`.
        """
        start, low, end = self._ranges()
        count = np.maximum(end - low, 0)
        if not count.any():
            raise CBMError("replay: nothing to sample yet")
        if episodes:
            drawn = draw(count, episodes, generator)[0]
            count = np.where(np.isin(np.arange(len(count)), drawn), count, 0)
        episode, offset = draw(count, batch_size, generator)
        t = low[episode] + offset
        start, end = start[episode], end[episode]
        boot = np.minimum(t + n_step, end)

        future = t[:, None] + np.arange(1, max(n_step, ahead) + 1)  # the frames that actions and rewards led to
        there = future <= end[:, None]
        records = self.records(np.where(there, future, t[:, None]))
        rewards = (records["reward"] * there)[:, :n_step]
        actions = (records["action"] * there[:, :, None])[:, :ahead]

        apart = [steps for steps in dict.fromkeys((n_step, ahead)) if steps > 1]  # stacks beside `obs` and `next_obs`
        frames = [t[:, None] + np.arange(1 - self.stack, 2)]
        frames += [np.minimum(t + steps, end)[:, None] + np.arange(1 - self.stack, 1) for steps in apart]
        images = self._images(np.maximum(np.concatenate(frames, axis=1), start[:, None]))
        near, far = images[:, : self.stack + 1], images[:, self.stack + 1 :]
        stacks = [near[:, :-1], near[:, 1:], *(far.split(self.stack, dim=1) if apart else ())]
        obs, *others = (stack.flatten(1, 2) for stack in stacks)
        seen = dict(zip((1, *apart), others, strict=True))
        return Batch(
            obs=obs,
            action=torch.from_numpy(np.ascontiguousarray(actions[:, 0])),
            reward=column(rewards[:, 0]),
            next_obs=seen[1],
            n_step_reward=column((rewards * discount ** np.arange(n_step)).sum(axis=1)),
            n_step_discount=column(discount ** (boot - t) * ~self.records(boot)["terminal"]),
            boot_obs=seen[n_step],
            episode=torch.from_numpy(end),  # its last frame; the first may have been overwritten
            later_obs=seen[ahead],
            actions=torch.from_numpy(actions),
            steps=torch.from_numpy(np.minimum(ahead, end - t)),
        )

    def sample_sequences(self, batch_size: int, length: int, generator: np.random.Generator) -> Sequences:
        """`batch_size` stretches of `length` frames within an episode, uniformly and with replacement."""
        start, _, end = self._ranges()
        low = np.maximum(start, self._tail)
        count = np.maximum(end - low + 2 - length, 0)  # possible first frames of a sequence
        if not count.any():
            longest = int((end - low).max(initial=-1) + 1)
            raise CBMError(
                f"no episode in replay has the {length} frames of a sequence; the longest has {longest}. Choose a "
                f"smaller --agent.length, or more --training.seed_steps if episodes will be longer"
            )
        episode, offset = draw(count, batch_size, generator)
        frames = (low[episode] + offset)[:, None] + np.arange(length)
        steps = self.records(frames)
        return Sequences(
            obs=self._images(frames),
            action=torch.from_numpy(np.ascontiguousarray(steps["action"])),
            reward=torch.from_numpy(steps["reward"].astype(np.float32)[..., None]),
        )

    def episodes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each episode: its first frame that is still here, its last frame, and the label of its background."""
        start, _, end = self._ranges()
        return np.maximum(start, self._tail), end, np.array(self._labels)

    def indices(self) -> np.ndarray:
        """The numbers of all frames whose whole stack is here, for `observations` and `records`."""
        _, low, end = self._ranges()
        return np.concatenate([np.arange(a, b + 1) for a, b in zip(low, end, strict=True)] or [np.arange(0)])

    def observations(self, indices: np.ndarray) -> torch.Tensor:
        """The stacked uint8 observations (N, C, H, W) whose newest frames are `indices`."""
        starts, _, _ = self._ranges()
        start = starts[np.searchsorted(starts, indices, side="right") - 1]
        return self._images(np.maximum(indices[:, None] + np.arange(1 - self.stack, 1), start[:, None])).flatten(1, 2)


def draw(count: np.ndarray, size: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw uniformly from bins with `count` items each. Returns the bin, and the item within it."""
    upper = np.cumsum(count)
    item = generator.integers(upper[-1], size=size)
    bins = np.searchsorted(upper, item, side="right")
    return bins, item - (upper - count)[bins]


def column(values: np.ndarray) -> torch.Tensor:
    """Scalars as a batch has them: (B, 1) float32."""
    return torch.from_numpy(values.astype(np.float32)[:, None])

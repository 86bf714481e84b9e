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
    ) -> Batch:
        """`batch_size` transitions, uniformly and with replacement; from at most `episodes` episodes unless it is 0."""
        start, low, end = self._ranges()
        count = np.maximum(end - low, 0)
        if not count.any():
            raise CBMError("replay: nothing to sample yet")
        if episodes:
            drawn = draw(count, episodes, generator)[0]
            count = np.where(np.isin(np.arange(len(count)), drawn), count, 0)
        episode, offset = draw(count, batch_size, generator)
        t = low[episode] + offset
        start, boot = start[episode], np.minimum(t + n_step, end[episode])

        future = t[:, None] + np.arange(1, n_step + 1)  # the frames that the rewards led to
        counts = future <= boot[:, None]
        rewards = self.records(np.where(counts, future, t[:, None]))["reward"] * counts
        n_step_reward = (rewards * discount ** np.arange(n_step)).sum(axis=1)
        step, boot_step = self.records(t + 1), self.records(boot)

        frames = [t[:, None] + np.arange(1 - self.stack, 2)]
        if n_step > 1:
            frames.append(boot[:, None] + np.arange(1 - self.stack, 1))
        images = self._images(np.maximum(np.concatenate(frames, axis=1), start[:, None]))
        next_obs = images[:, 1 : self.stack + 1].flatten(1, 2)
        return Batch(
            obs=images[:, : self.stack].flatten(1, 2),
            action=torch.from_numpy(np.ascontiguousarray(step["action"])),
            reward=column(step["reward"]),
            next_obs=next_obs,
            n_step_reward=column(n_step_reward),
            n_step_discount=column(discount ** (boot - t) * ~boot_step["terminal"]),
            boot_obs=images[:, self.stack + 1 :].flatten(1, 2) if n_step > 1 else next_obs,
            episode=torch.from_numpy(end[episode]),  # its last frame; the first may have been overwritten
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

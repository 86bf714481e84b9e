"""A replay and plain lists beside it: frames show their own number, rewards and actions say where they belong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cbm.replay import Replay

STACK, SIZE = 3, 4


def observation(number: int) -> np.ndarray:
    """A stack whose newest frame shows `number` in base 256; replay must not look at the older ones."""
    obs = np.full((3 * STACK, SIZE, SIZE), 255, np.uint8)
    obs[-3:, 0, 0] = [number // 65536, number // 256 % 256, number % 256]
    return obs


def numbers(images: object) -> np.ndarray:
    """(B, C, H, W) -> (B, stack), the numbers that the frames show."""
    corner = np.asarray(images)[:, :, 0, 0].reshape(-1, STACK, 3).astype(np.int64)
    return corner @ [65536, 256, 1]


class World:
    """Episodes of the given lengths in a replay, and in plain lists beside it. Reward of the step into frame i: i."""

    def __init__(self, directory: Path, capacity: int = 1_000, margin: int = 20) -> None:
        self.replay = Replay.create(directory, (3 * STACK, SIZE, SIZE), 2, capacity, margin)
        self.start: list[int] = []  # of each frame's episode
        self.end: list[int] = []  # last frame of each frame's episode so far
        self.terminal: set[int] = set()
        self.background: list[int] = []

    def episode(self, steps: int, terminal: bool = False, background: int = -1, finish: bool = True) -> World:
        first = len(self.start)
        self.replay.add_first(observation(first), background)
        for i in range(first + 1, first + steps + 1):
            last = finish and i == first + steps
            action = np.array([i, -i], np.float32)
            self.replay.add(action, float(i), observation(i), last and terminal, last and not terminal)
        self.start += [first] * (steps + 1)
        self.end += [first + steps] * (steps + 1)
        self.background += [background] * (steps + 1)
        if terminal:
            self.terminal.add(first + steps)
        return self

    def valid(self) -> set[int]:
        """Frames t from which a transition can be sampled."""
        tail = max(0, len(self.start) - self.replay.capacity)
        return {
            t
            for t in range(tail, len(self.start))
            if t < self.end[t] and (self.start[t] >= tail or t - STACK + 1 >= tail)
        }

    def stack(self, t: int) -> list[int]:
        return [max(self.start[t], t - k) for k in reversed(range(STACK))]

    def check(self, n_step: int, discount: float, size: int = 256, seed: int = 0, ahead: int = 1) -> set[int]:
        """Every sampled transition is what the lists say; returns the frames that were drawn."""
        batch = self.replay.sample(size, np.random.default_rng(seed), n_step, discount, ahead=ahead)
        drawn = numbers(batch.obs)[:, -1]
        for b, t in enumerate(drawn.tolist()):
            m = min(n_step, self.end[t] - t)
            assert numbers(batch.obs)[b].tolist() == self.stack(t)
            assert numbers(batch.next_obs)[b].tolist() == self.stack(t + 1)
            assert numbers(batch.boot_obs)[b].tolist() == self.stack(t + m)
            assert batch.action[b].tolist() == [t + 1, -(t + 1)]
            assert batch.reward[b].item() == t + 1
            total = sum(discount**k * (t + 1 + k) for k in range(m))
            assert batch.n_step_reward[b].item() == pytest.approx(total, rel=1e-5)
            bootstrap = 0.0 if t + m in self.terminal else discount**m
            assert batch.n_step_discount[b].item() == pytest.approx(bootstrap)
            steps = min(ahead, self.end[t] - t)
            led = [k if k <= t + steps else 0 for k in range(t + 1, t + 1 + ahead)]
            assert numbers(batch.later_obs)[b].tolist() == self.stack(t + steps)
            assert batch.steps[b].item() == steps
            assert batch.actions[b].tolist() == [[k, -k] for k in led]
        same = {1: batch.next_obs, n_step: batch.boot_obs}
        assert same.get(ahead, batch.later_obs) is batch.later_obs
        for scalar in (batch.reward, batch.n_step_reward, batch.n_step_discount):
            assert scalar.shape == (size, 1)
        return set(drawn.tolist())

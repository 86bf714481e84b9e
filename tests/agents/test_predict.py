"""Playing with nothing but observations: `act(obs)`, and `predict(obs)` as Stable-Baselines3 calls it."""

from __future__ import annotations

import numpy as np
import pytest
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

from cbm.agents import AGENTS
from cbm.envs.adapt import PixelTask
from cbm.evaluation.play import EpisodeSpec, play
from cbm.types import Agent
from small_agents import SETUP, agent
from toy import PixelDot

OBS = np.random.default_rng(0).integers(0, 256, (4, 3, *SETUP.obs_shape), dtype=np.uint8)  # 4 moments of 3 episodes


@pytest.mark.parametrize("name", [*AGENTS, "drqv2+cbm"])
class TestEveryAgent:
    def test_an_observation_is_enough_to_act(self, name: str) -> None:
        a, b = agent(name), agent(name)
        for obs in OBS[:, 0]:
            assert np.array_equal(a.act(obs), b.act(obs, 123, explore=False))

    def test_predict_plays_without_exploration_and_takes_one_observation_or_many(self, name: str) -> None:
        a = agent(name)
        many, memory = a.predict(OBS[0])
        a.begin_episode()
        assert np.array_equal(many, a.act(OBS[0]))
        assert (memory is None) == (name != "tpc")
        for index, obs in enumerate(OBS[0]):
            one, _ = a.predict(obs, deterministic=True)
            assert one.shape == (SETUP.action_dim,)
            np.testing.assert_allclose(one, many[index], rtol=1e-4, atol=1e-5)

    def test_predict_can_explore_as_at_the_end_of_training(self, name: str) -> None:
        a = agent(name)
        draws = np.stack([a.predict(OBS[0, 0], deterministic=False)[0] for _ in range(50)])
        assert np.abs(draws).max() <= 1
        assert (draws.std(axis=0) > 1e-3).all()
        if hasattr(a, "noise"):  # DrQ-v2's schedule starts at 1.0 and ends at 0.1
            assert (draws.std(axis=0) < 0.2).all()


def test_the_memory_of_predict_is_the_callers_and_that_of_act_stays() -> None:
    a, b = agent("tpc"), agent("tpc")
    state = None
    for step, obs in enumerate(OBS):
        expected, (action, state) = b.act(obs), a.predict(obs, state)
        np.testing.assert_array_equal(action, expected)
        if step > 0:
            assert not np.array_equal(a.predict(obs)[0], action)  # without the memory it would do something else
    assert a.memory is None


def test_an_episode_that_starts_is_forgotten_alone() -> None:
    a = agent("tpc")
    _, state = a.predict(OBS[0])
    _, state = a.predict(OBS[1], state)
    action, after = a.predict(OBS[2], state, episode_start=np.array([False, True, False]))
    kept, kept_after = a.predict(OBS[2], state)
    fresh, fresh_after = a.predict(OBS[2])
    np.testing.assert_array_equal(action, np.stack([kept[0], fresh[1], kept[2]]))
    assert not np.array_equal(kept[1], fresh[1])
    for part, kept_part, fresh_part in zip(after, kept_after, fresh_after, strict=True):
        np.testing.assert_array_equal(part, np.stack([kept_part[0], fresh_part[1], kept_part[2]]))


@pytest.mark.parametrize("name", ["drqv2", "drq", "tpc"])
def test_stable_baselines3_evaluates_our_agents(name: str) -> None:
    """Three episodes in two environments, so that a memory is reset in one while it goes on in the other."""
    a: Agent = agent(name)

    def make() -> PixelTask:
        return PixelTask(TwoActions(), SETUP.obs_shape[1], 3, 1)

    envs = DummyVecEnv([make, make])
    envs.seed(5)
    returns, lengths = evaluate_policy(a, envs, n_eval_episodes=3, return_episode_rewards=True, warn=False)
    assert lengths == [20, 20, 20]
    ours = [play(a, make(), EpisodeSpec("train", seed), 0).total for seed in (5, 6)]
    np.testing.assert_allclose(sorted(returns[:2]), sorted(ours), rtol=1e-5)


class TwoActions(PixelDot):
    """The dot, pushed by the first of two actions."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = type(self.action_space)(-2.0, 2.0, (SETUP.action_dim,), np.float32)

"""TPC against numpy versions written from its paper; who learns from what; its memory; that it learns."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cbm.agents import make_agent
from cbm.agents.tpc import TPCConfig
from cbm.agents.tpc.losses import centring, consistency, lambda_returns, predictive_coding, unit_gaussian
from cbm.agents.tpc.networks import RSSM, Belief, FrameEncoder
from cbm.config import EnvConfig, make_config
from cbm.config.build import make_environment
from cbm.errors import CBMError
from cbm.evaluation.play import evaluation_episodes, play
from cbm.learning.adam import adam
from cbm.learning.optimisation import minimise
from cbm.runs.load import load_agent
from cbm.system.jsonl import read_lines
from cbm.training import loop
from cbm.types import Sequences, begin_episode
from small_agents import SETUP, agent, sequences

T, B, S = 4, 5, 3
Array = np.ndarray


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def double(x: torch.Tensor) -> Array:
    return x.detach().double().numpy()


def log_normal(x: Array, mean: Array, std: Array) -> float:
    """log of the density of a Gaussian with independent coordinates."""
    return float(np.sum(np.log(np.exp(-(((x - mean) / std) ** 2) / 2) / (std * np.sqrt(2 * np.pi)))))


def info_nce(code: Array, mean: Array, std: Array) -> float:
    """The paper's bound for K pairs: 1/K sum_i log( exp f_ii / (1/K sum_j exp f_ij) ), f the log density."""
    f = np.array([[log_normal(x, m, s) for m, s in zip(mean, std, strict=True)] for x in code])
    return float(np.mean(np.diag(f) - np.log(np.mean(np.exp(f), axis=1))))


def linear(layer: Any, x: Array) -> Array:
    return x @ double(layer.weight).T + double(layer.bias)


def elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(x))


def network(net: Any, x: Array) -> Array:
    """Linear layers with ELU between them."""
    for layer in net[:-1:2]:
        x = elu(linear(layer, x))
    return linear(net[-1], x)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def recur(rssm: RSSM, h: Array, s: Array, action: Array) -> tuple[Array, Array, Array]:
    """One step of the recurrent model: h, and mean and standard deviation of the prior."""
    x = elu(linear(rssm.inputs, np.concatenate([s, action], axis=-1)))
    cell, n = rssm.cell, rssm.deterministic
    i = x @ double(cell.weight_ih).T + double(cell.bias_ih)
    o = h @ double(cell.weight_hh).T + double(cell.bias_hh)
    reset, update = sigmoid(i[:, :n] + o[:, :n]), sigmoid(i[:, n : 2 * n] + o[:, n : 2 * n])
    h = (1 - update) * np.tanh(i[:, 2 * n :] + reset * o[:, 2 * n :]) + update * h
    moments = linear(rssm.moments, elu(linear(rssm.hidden, h)))
    half = moments.shape[1] // 2
    return h, moments[:, :half], np.log1p(np.exp(moments[:, half:])) + 1e-4


class TestLosses:
    def test_predictive_coding_is_the_bound_of_the_paper(self) -> None:
        code, mean, std = draw(T, B, S), draw(T, B, S, seed=1), draw(T, B, S, seed=2).exp()
        loss, accuracy = predictive_coding(code, mean, std)
        bounds = [info_nce(*map(double, step)) for step in zip(code, mean, std, strict=True)]
        assert loss.item() == pytest.approx(np.log(B) - np.mean(bounds), rel=1e-5)
        assert 0 <= accuracy.item() <= 1
        flat = [x.flatten(0, 1) for x in (code, mean, std)]
        assert predictive_coding(*flat)[0].item() == pytest.approx(
            np.log(T * B) - info_nce(*map(double, flat)), rel=1e-5
        )

    def test_accuracy_counts_the_own_gaussians(self) -> None:
        code = torch.tensor([[0.0], [1.0], [2.0], [3.0]])
        assert predictive_coding(code, code, torch.full_like(code, 0.2))[1] == 1.0
        assert predictive_coding(code, code[[0, 1, 3, 2]], torch.full_like(code, 0.2))[1] == 0.5

    def test_predictive_coding_stays_exact_far_from_zero(self) -> None:
        code, std = draw(B, S), torch.full((B, S), 0.2)
        near, far = (predictive_coding(code + shift, code.flip(0) + shift, std)[0] for shift in (0.0, 64.0))
        assert near.item() == pytest.approx(far.item(), rel=1e-4)

    def test_consistency_is_the_likelihood(self) -> None:
        code, mean, std = draw(T, B, S), draw(T, B, S, seed=1), draw(T, B, S, seed=2).exp()
        rows = zip(*(double(x).reshape(-1, S) for x in (code, mean, std)), strict=True)
        expected = -np.mean([log_normal(*row) for row in rows])
        assert consistency(code, mean, std).item() == pytest.approx(expected, rel=1e-5)

    def test_reward_and_value_and_centring(self) -> None:
        mean, target, weight = draw(T, B, 1), draw(T, B, 1, seed=1), draw(T, 1, 1, seed=2).exp()
        one = np.ones(1)
        likelihood = [
            log_normal(*(np.array([double(x)[t, b, 0]]) for x in (target, mean)), one)
            for t in range(T)
            for b in range(B)
        ]
        constant = np.log(2 * np.pi) / 2
        assert unit_gaussian(mean, target).item() == pytest.approx(-np.mean(likelihood) - constant, rel=1e-5)
        weighted = np.array(likelihood).reshape(T, B) + constant
        expected = -np.mean(double(weight)[:, :, 0] * weighted)
        assert unit_gaussian(mean, target, weight).item() == pytest.approx(expected, rel=1e-5)
        assert centring(mean).item() == pytest.approx(np.mean(double(mean)) ** 2, rel=1e-5)
        code = draw(T, B, S)
        assert centring(code).item() == pytest.approx(np.sum(double(code).mean(axis=(0, 1)) ** 2), rel=1e-5)

    def test_returns_are_the_weighted_n_step_returns(self) -> None:
        """V_lambda = (1 - lambda) sum_{n < H} lambda^{n-1} V^n + lambda^{H-1} V^H (Dreamer, Eq. 6)."""
        horizon, gamma, lam = 6, 0.9, 0.8
        reward, value = double(draw(horizon, B)), double(draw(horizon, B, seed=1))

        def n_step(t: int, n: int) -> Array:
            return sum(gamma**k * reward[t + k] for k in range(n)) + gamma**n * value[t + n]

        found = lambda_returns(torch.from_numpy(reward), torch.from_numpy(value), gamma, lam)
        assert found.shape == (horizon - 1, B)
        for t in range(horizon - 1):
            longest = horizon - 1 - t
            expected = (1 - lam) * sum(lam ** (n - 1) * n_step(t, n) for n in range(1, longest))
            expected = expected + lam ** (longest - 1) * n_step(t, longest)
            np.testing.assert_allclose(found[t], expected, rtol=1e-10)


@pytest.mark.parametrize(("negatives", "mean_reward"), [("step", False), ("all", True)])
def test_the_losses_of_the_model_are_those_of_the_paper(negatives: str, mean_reward: bool) -> None:
    a = agent("tpc", negatives=negatives, warm_up=2, length=5, mean_reward=mean_reward)
    b = sequences(length=5)
    g = torch.Generator()
    g.set_state(a.generator.get_state())
    losses, beliefs, _ = a.model_losses(b)

    code = double(a.encode(b.obs.flatten(0, 1))).reshape(8, 5, 6).transpose(1, 0, 2)
    h, s = np.zeros((8, 10)), np.zeros((8, 6))
    means, stds, rewards = [], [], []
    for t in range(5):
        h, mean, std = recur(a.rssm, h, s, double(b.action[:, t]))
        s = code[t] + std * double(torch.randn(8, 6, generator=g))
        means.append(mean)
        stds.append(std)
        rewards.append(network(a.reward, np.concatenate([s, h], axis=1)))
        np.testing.assert_allclose(beliefs.h[t].detach(), h, rtol=1e-3, atol=1e-5)
    noisy = code + 0.2 * double(torch.randn(5, 8, 6, generator=g))
    mean, std = np.stack(means), np.stack(stds)

    def coding(*parts: Array) -> float:
        problems = [[x.reshape(-1, 6) for x in parts]] if negatives == "all" else zip(*parts, strict=True)
        return float(np.mean([np.log(len(x[0])) - info_nce(*x) for x in map(list, problems)]))

    late = [log_normal(code[t, i], mean[t, i], std[t, i]) for t in range(2, 5) for i in range(8)]
    target = double(b.reward).transpose(1, 0, 2) / (4 if mean_reward else 1)  # the action repeat of the test
    expected = {
        "temporal": coding(noisy[2:], mean[2:], std[2:]),
        "static": coding(noisy, code, np.full_like(code, 0.2)),
        "consistency": -np.mean(late),
        "reward": np.mean((np.stack(rewards) - target) ** 2) / 2,
        "centring": np.sum(code.mean(axis=(0, 1)) ** 2),
    }
    assert losses.keys() == expected.keys() == a.weights.keys()
    for name, value in expected.items():
        assert losses[name].item() == pytest.approx(value, rel=1e-5), name


def test_the_losses_of_the_behaviour_are_those_of_the_paper() -> None:
    a = agent("tpc", horizon=4)
    with torch.no_grad():
        for p in a.target_critic.parameters():
            p.mul_(1.1)  # not the critic itself
    start = Belief(draw(2, 7, 10), draw(2, 7, 6, seed=1))
    g = torch.Generator()
    g.set_state(a.generator.get_state())
    noise = double(torch.randn(4, 14, 2, generator=g))

    h, s = double(start.h).reshape(14, 10), double(start.s).reshape(14, 6)
    features, log_pi = [], []
    for t in range(4):
        moments = network(a.actor.net, np.concatenate([s, h], axis=1))
        mean, std = 5 * np.tanh(moments[:, :2] / 5), np.log1p(np.exp(moments[:, 2:] + np.log(np.exp(5.0) - 1))) + 1e-4
        u = mean + std * noise[t]
        normal = np.exp(-((u - mean) ** 2) / (2 * std**2)) / (std * np.sqrt(2 * np.pi))
        log_pi.append(np.log(normal).sum(axis=1) - np.log(4 / (np.exp(u) + np.exp(-u)) ** 2).sum(axis=1))
        h, prior_mean, prior_std = recur(a.rssm, h, s, np.tanh(u))
        s = prior_mean + prior_std * double(torch.randn(14, 6, generator=g))
        features.append(np.concatenate([s, h], axis=1))
    reward, target, value = (
        np.stack([network(net, x)[:, 0] for x in features]) for net in (a.reward, a.target_critic, a.critic)
    )
    returns = [target[3]]
    for k in (2, 1, 0):
        returns.insert(0, reward[k] + 0.99 * (0.05 * target[k + 1] + 0.95 * returns[0]))
    pairs = list(enumerate(zip(returns[:3], value[:3], strict=True)))
    expected = {
        "loss/actor": -np.mean([0.99**k * v for k, (v, _) in pairs]),
        "loss/critic": np.mean([0.99**k * (v - guess) ** 2 / 2 for k, (v, guess) in pairs]),
        "tpc/imagined_reward": reward.mean(),
        "tpc/imagined_return": np.mean(returns[:3]),
        "actor/entropy": -np.mean(log_pi),
    }
    metrics = a._update_behaviour(start)
    assert metrics.keys() == expected.keys()
    for name, number in expected.items():
        assert metrics[name].item() == pytest.approx(number, rel=1e-5), name


class TestGradients:
    def learners(self, name: str) -> set[str]:
        """The modules, or layers of the recurrent model, that a loss of the model reaches."""
        a = agent("tpc")
        a.model_losses(sequences())[0][name].backward()
        found = {part for part, module in a.modules.items() for p in module.parameters() if p.grad is not None}
        return (found - {"rssm"}) | {f"rssm.{n}" for n, layer in a.rssm.named_children() if _has_gradient(layer)}

    def test_who_learns_from_which_loss(self) -> None:
        recurrent = {"rssm.inputs", "rssm.cell", "rssm.hidden", "rssm.moments"}
        assert self.learners("temporal") == {"encoder", "code"} | recurrent
        assert self.learners("consistency") == {"encoder", "code"} | recurrent
        assert self.learners("static") == self.learners("centring") == {"encoder", "code"}
        # The noise on a code has the prior's width, but does not train it.
        assert self.learners("reward") == {"encoder", "code", "reward", "rssm.inputs", "rssm.cell"}

    def test_actor_and_value_learn_from_imagination_alone(self) -> None:
        a = agent("tpc", model_first=2)
        moved = []
        for i in range(4):
            before = {name: _flat(module) for name, module in a.modules.items()}
            metrics = a.update(sequences(i), 0)
            moved.append({name for name, module in a.modules.items() if not torch.equal(before[name], _flat(module))})
            assert ("loss/actor" in metrics) == (i >= 2)
        model = {"encoder", "code", "rssm", "reward"}
        assert moved == [model, model, model | {"actor", "critic"}, model | {"actor", "critic"}]

    def test_imagination_trains_no_model(self) -> None:
        a = agent("tpc")
        belief = Belief(draw(7, 10), draw(7, 6))
        model = {name: _flat(module) for name, module in a.modules.items()}
        a._update_behaviour(Belief(*(x[None] for x in belief)))
        moved = {name for name, module in a.modules.items() if not torch.equal(model[name], _flat(module))}
        assert moved == {"actor", "critic"}

    def test_the_gradient_of_a_step_is_clipped(self) -> None:
        weight = torch.nn.Parameter(torch.ones(4))
        for factor, norm in ((1e3, 5.0), (1e-3, 2e-3)):
            minimise({"x": factor * weight.sum()}, {"x": 1.0}, ("x",), {"x": adam([weight], 1e-3)}, clip=5.0)
            assert weight.grad is not None
            assert weight.grad.norm().item() == pytest.approx(norm, rel=1e-4)

    def test_the_target_value_is_a_copy_of_long_ago(self) -> None:
        a = agent("tpc", target_every=3)
        for i in range(6):
            critic = _flat(a.critic)
            a.update(sequences(i), 0)
            copied = torch.equal(_flat(a.target_critic), critic)
            assert copied == (i % 3 == 0)


def _flat(module: torch.nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def _has_gradient(module: torch.nn.Module) -> bool:
    return any(p.grad is not None for p in module.parameters())


def test_consistency_weighs_more_and_more() -> None:
    a = agent("tpc", model_first=2)
    seen = []
    for i in range(4):
        seen.append(a.weights["consistency"])
        a.update(sequences(i), 0)
    assert seen == pytest.approx([0.05, 0.075, 0.1, 0.1])
    fixed = {name: weight for name, weight in a.weights.items() if name != "consistency"}
    assert fixed == {"temporal": 1.0, "static": 1.0, "reward": 1.0, "centring": 0.01}


class TestMemory:
    def frames(self, count: int, seed: int = 0) -> Array:
        return np.random.default_rng(seed).integers(0, 256, (count, 9, 20, 20), dtype=np.uint8)

    def test_it_filters_as_the_model_does(self) -> None:
        a, obs = agent("tpc"), self.frames(4)
        h, s, action = np.zeros((1, 10)), np.zeros((1, 6)), np.zeros((1, 2))
        for image in obs:
            h, _, _ = recur(a.rssm, h, s, action)
            s = double(a.encode(image))
            action = np.tanh(5 * np.tanh(network(a.actor.net, np.concatenate([s, h], axis=1))[:, :2] / 5))
            np.testing.assert_allclose(a.act(image, 0, explore=False), action[0], rtol=1e-3, atol=1e-5)

    def test_an_episode_begins_without_memory(self) -> None:
        a, obs = agent("tpc"), self.frames(3)
        first = a.act(obs[0], 0, explore=False)
        later = a.act(obs[0], 0, explore=False)
        assert not np.array_equal(first, later)
        begin_episode(a)
        assert np.array_equal(first, a.act(obs[0], 0, explore=False))

    def test_memory_survives_a_crash(self) -> None:
        a, b, obs = agent("tpc"), agent("tpc"), self.frames(3)
        a.act(obs[0], 0, explore=True)
        b.load_state_dict(a.state_dict())
        for explore in (True, False):
            assert np.array_equal(a.act(obs[1], 0, explore), b.act(obs[1], 0, explore))
        begin_episode(a)
        b.load_state_dict(a.state_dict())
        assert np.array_equal(a.act(obs[2], 0, explore=True), b.act(obs[2], 0, explore=True))

    def test_several_episodes_at_once_keep_apart(self) -> None:
        a, obs = agent("tpc"), self.frames(6).reshape(3, 2, 9, 20, 20)
        both = [a.act(pair, 0, explore=False) for pair in obs]
        begin_episode(a)
        one = [a.act(pair[1], 0, explore=False) for pair in obs]
        np.testing.assert_allclose([actions[1] for actions in both], one, rtol=1e-4, atol=1e-5)
        with pytest.raises(CBMError, match="call begin_episode"):
            a.act(obs[0], 0, explore=False)

    def test_only_the_newest_frame_is_looked_at(self) -> None:
        a, obs = agent("tpc"), self.frames(2)
        obs[1, -3:] = obs[0, -3:]
        for look in (a.encode, a.value):  # rows of one product may round differently
            torch.testing.assert_close(*look(obs), rtol=1e-5, atol=1e-5)
        obs[1, -3:] = 255 - obs[0, -3:]
        assert not torch.allclose(*a.encode(obs), rtol=1e-2, atol=1e-2)


def test_exploration_adds_noise_to_the_actions() -> None:
    a, obs = agent("tpc"), np.zeros((500, 9, 20, 20), np.uint8)
    with torch.no_grad():
        for p in a.actor.parameters():
            p.zero_()
        a.actor.net[-1].bias[2:] = -20.0  # the actor itself hardly varies
    actions = a.act(obs, 0, explore=True)
    assert actions.std() == pytest.approx(0.3, rel=0.1)
    begin_episode(a)
    assert np.abs(a.act(obs, 0, explore=False)).max() == 0.0
    begin_episode(a)
    with torch.no_grad():
        a.actor.net[-1].bias[:2] = 5.0
    assert a.act(obs, 0, explore=True).max() == 1.0


@pytest.mark.parametrize("first_std", [5.0, 0.5])
def test_the_actor_begins_with_the_deviation_that_is_asked_for(first_std: float) -> None:
    a = agent("tpc", first_std=first_std)
    with torch.no_grad():
        for p in a.actor.parameters():
            p.zero_()
        mean, log_std = a.actor(torch.randn(4, a.actor.net[0].in_features))
    assert mean.abs().max() == 0.0
    torch.testing.assert_close(log_std.exp(), torch.full((4, 2), first_std), rtol=1e-3, atol=0)


@pytest.mark.parametrize(("mean_reward", "value"), [(False, 3.0), (True, 12.0)])
def test_values_are_in_rewards_of_the_environment(mean_reward: bool, value: float) -> None:
    a = agent("tpc", mean_reward=mean_reward)
    with torch.no_grad():
        for p in a.critic.parameters():
            p.zero_()
        a.critic[-1].bias[:] = 3.0
    assert a.value(np.zeros((2, 9, 20, 20), np.uint8)).tolist() == [[value], [value]]


def test_it_learns_to_tell_codes_apart() -> None:
    a, b = agent("tpc", lr=4e-3, model_first=10**6, warm_up=2), sequences()
    history = [a.update(b, 0) for _ in range(150)]
    first, last = history[0], history[-1]
    assert first["tpc/temporal_accuracy"] < 0.4
    assert last["tpc/temporal_accuracy"] > 0.9
    assert last["tpc/static_accuracy"] > 0.9
    for name, factor in {"temporal": 0.5, "static": 0.5, "reward": 0.5, "consistency": 0.9}.items():
        assert last[f"loss/{name}"] < factor * first[f"loss/{name}"], name


def test_imagination_finds_the_action_that_is_rewarded() -> None:
    """Reward is the first action: the policy must learn that from the model, which must learn it first."""
    g = torch.Generator().manual_seed(0)
    a = agent("tpc", lr=4e-3, behaviour_lr=4e-3, warm_up=1, length=4, horizon=3)
    rewards = []
    for i in range(90):
        action = torch.rand(8, 4, 2, generator=g) * 2 - 1
        reward = 1.0 + action[..., :1]
        brightness = (100 + 90 * action[..., 0])[:, :, None, None, None].expand(8, 4, 3, 20, 20).to(torch.uint8)
        metrics = a.update(Sequences(brightness, action, 2 * reward), i)
        rewards.append(metrics["tpc/imagined_reward"].item())
    obs = np.random.default_rng(0).integers(10, 190, (6, 1, 1, 1)).repeat(9, axis=1).repeat(20, 2).repeat(20, 3)
    actions = a.act(obs.astype(np.uint8), 0, explore=False)
    assert np.mean(rewards[:5]) < 2.5  # at random: 2 on average
    assert np.mean(rewards[-5:]) > 3.5  # of 4
    assert actions[:, 0].min() > 0.7


TOY = {
    "agent.batch_size": 6,
    "agent.length": 8,
    "agent.conv_channels": 4,
    "agent.conv_layers": 2,
    "agent.hidden_dim": 16,
    "agent.memory_dim": 16,
    "agent.horizon": 4,
    "agent.model_first": 20,
    "agent.updates_per_env_step": 0.5,
    "training.seed_steps": 50,
    "training.eval_every": 50,
    "training.eval_episodes": 1,
    "training.eval_workers": 0,
    "training.log_every": 30,
    "training.threads": 1,
    "training.replay_capacity": 500,
    "training.film": False,
}


def toy_config(steps: int) -> Any:
    env = EnvConfig(env_id="toy:PixelDot-v0", size=24, action_repeat=2)
    overrides = [(key, str(value)) for key, value in (TOY | {"training.total_steps": steps}).items()]
    return make_config("tpc", env, seed=1, overrides=overrides)


@pytest.fixture
def toy_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "helpers"))


def test_a_run_that_died_within_an_episode_goes_on_bit_for_bit(tmp_path: Path, toy_path: None) -> None:
    from same_run import assert_same_run, load

    whole, died = tmp_path / "whole", tmp_path / "died"
    config = toy_config(200)
    loop.train(replace(config, training=replace(config.training, checkpoint_every=10)), whole, quiet=True)
    assert load(whole)[1]["agent"]["memory"] is None  # an episode has just begun
    shutil.copytree(whole, died)
    shutil.rmtree(max((died / "checkpoint").iterdir()))  # the one before is of the middle of the tenth episode
    step, state = load(died)
    assert step == 190
    assert state["agent"]["memory"]["h"].shape == (1, 16)
    loop.resume(died, quiet=True)
    assert_same_run(died, whole)


def test_every_evaluation_episode_begins_without_memory(tmp_path: Path, toy_path: None) -> None:
    config = toy_config(70)  # stopped within an episode
    loop.train(config, tmp_path, quiet=True)
    a, env, job = (
        load_agent(tmp_path),
        make_environment(config.env, "train"),
        evaluation_episodes(config, 70, 1, ("train",))[0],
    )
    assert a.state_dict()["memory"] is None
    played = [play(a, env, job, 70) for _ in range(2)]
    assert played[0] == played[1]
    assert a.state_dict()["memory"] is not None
    assert played[0].total == read_lines(tmp_path / "evals.jsonl")[-1]["train"]["returns"][0]


@pytest.mark.slow
def test_killed_again_and_again_it_equals_a_run_left_alone(tmp_path: Path, toy_path: None) -> None:
    import random
    import signal

    from same_run import assert_same_run, interrupt
    from toy import cbm

    options = ["--env", "toy:PixelDot-v0", "--agent", "tpc", "--env.size", "24", "--env.action_repeat", "2"]
    values = TOY | {"training.total_steps": 400, "training.checkpoint_every": 70, "training.eval_every": 200}
    options += [word for name, value in values.items() for word in (f"--{name}", str(value))]
    runs = tmp_path / "killed", tmp_path / "whole"
    words: list[Any] = [*options, "--out", runs[0]]
    for lines in sorted(random.sample(range(6, 30), 2)):
        code, output = interrupt(runs[0], signal.SIGKILL, lines, words)
        assert code == -signal.SIGKILL, output
        words = ["--resume", runs[0]]
    for command in (words, [*options, "--out", runs[1]]):
        process = cbm("train", *command)
        output = process.communicate(timeout=180)[0]
        assert process.returncode == 0, output
    assert_same_run(*runs)


def test_the_encoder_is_that_of_its_authors() -> None:
    encoder = FrameEncoder((3, 64, 64), channels=32, layers=4)
    sizes = [(c.in_channels, c.out_channels, c.kernel_size, c.stride) for c in encoder.convs]
    assert sizes == [(n, m, (4, 4), (2, 2)) for n, m in ((3, 32), (32, 64), (64, 128), (128, 256))]
    assert encoder.feature_count == 2 * 2 * 256
    x = images = torch.randint(0, 256, (70, 3, 64, 64), dtype=torch.uint8)
    x = x.float() / 255 - 0.5
    for conv in encoder.convs:
        x = torch.relu(conv(x))
    torch.testing.assert_close(encoder(images), x.permute(0, 2, 3, 1).flatten(1), rtol=1e-4, atol=1e-5)
    a = agent("tpc")
    assert [layer.out_features for layer in a.code if isinstance(layer, torch.nn.Linear)] == [10, 6]
    expected = network(a.code, double(a.encoder(sequences().obs[0])))
    np.testing.assert_allclose(a.encode(sequences().obs[0]), expected, rtol=1e-3, atol=1e-5)


def test_the_model_learns_first_and_at_once(tmp_path: Path, toy_path: None) -> None:
    loop.train(toy_config(60), tmp_path, quiet=True)
    lines = [line for line in read_lines(tmp_path / "metrics.jsonl") if "loss/reward" in line]
    assert [(line["env_step"], line["updates"], "loss/actor" in line) for line in lines] == [(60, 25, True)]
    assert [loop._updates_due(step, toy_config(60)) for step in (24, 25, 26)] == [0, 20, 21]


def test_how_often_it_learns() -> None:
    config = make_config("tpc", EnvConfig("cartpole-swingup"))
    assert config.agent.first_updates == 2_000
    assert config.training.seed_steps == 5_000
    assert config.updates_per_agent_step == pytest.approx(0.8)  # 0.1 an environment step, 8 of them a step
    assert make_config("drqv2", EnvConfig("cartpole-swingup")).updates_per_agent_step == 1.0
    assert make_config("drqv2").training.seed_steps == 4_000


def test_sizes() -> None:
    paper, laptop = make_config("tpc").agent, make_config("tpc", preset="laptop").agent
    assert (paper.feature_dim, paper.memory_dim, paper.batch_size, paper.length) == (30, 200, 250, 50)
    assert (paper.hidden_dim, paper.conv_channels, paper.horizon, paper.mean_reward) == (400, 32, 15, False)
    assert laptop.feature_dim == 30
    # Rewards must weigh as much in the model as where they are summed: at the largest action repeat, repeat^2.
    assert (laptop.mean_reward, laptop.reward_weight) == (True, 8.0**2)
    assert laptop.batch_size * laptop.length < 300


def test_bad_input() -> None:
    with pytest.raises(CBMError, match=r"cannot carry an objective, so there is no 'tpc\+cbm'"):
        make_agent("tpc+cbm", SETUP)
    with pytest.raises(CBMError, match="cannot carry"):
        make_config("tpc+dynamics")
    with pytest.raises(CBMError, match="batch_size must be 2 to"):
        TPCConfig(batch_size=1)
    with pytest.raises(CBMError, match=r"agent\.length .*5.* must be larger than agent\.warm_up"):
        TPCConfig(length=5)
    with pytest.raises(CBMError, match="first_std must be above 0"):
        TPCConfig(first_std=0.0)
    with pytest.raises(CBMError, match="horizon must be 2 to"):
        TPCConfig(horizon=1)
    with pytest.raises(CBMError, match=r"frames of 20x20 are too small for 4 convolutions.*--agent\.conv_layers"):
        agent("tpc", conv_layers=4)

"""The authors' agents against a plain version of them: two dictionaries of weights and Adam written out, in 64 bits.

The reference follows a description of their code, not our classes: images in ordinary layout, one loss at a time, their
surrogate of the cluster loss. It shares with ours the first weights and the order of the random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cbm.agents import make_agent
from cbm.agents.released import ReleasedConfig, ReleasedDrQ, ReleasedDrQv2
from cbm.agents.released.windows import sample_windows
from cbm.analysis.probing.clusters import cluster, prototype_space
from cbm.config import make_config
from cbm.errors import CBMError
from cbm.types import Batch
from replay_oracle import World, numbers
from small_agents import SETUP, SIZES, agent, batch, shrunk

NAMES = {"released-drqv2-cbm": ReleasedDrQv2, "released-drq-cbm": ReleasedDrQ}
B, K, A, REPEAT, STD = 8, 6, 2, 4, 0.55  # STD: of the noise at step 50 of `SETUP`
LR, TAU, GAMMA = 5e-4, 0.1, 0.99


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def double_batch(seed: int, ahead: int) -> Batch:
    b = batch(seed, ahead)
    g = torch.Generator().manual_seed(100 + seed)
    return replace(
        b,
        action=b.action.double(),
        reward=4.0 * torch.rand(B, 1, generator=g),
        n_step_reward=24.0 * torch.rand(B, 1, generator=g),  # / 4: so far from the average that the clamp at 2 cuts
        n_step_discount=torch.full((B, 1), GAMMA**ahead),
    )


class Reference:
    """Weights by name, their Adam moments, prototype rewards."""

    def __init__(self, a: Any) -> None:
        self.soft = isinstance(a, ReleasedDrQ)
        self.w = {
            f"{part}.{name}": tensor.detach().clone()
            for part, module in a.modules.items()
            for name, tensor in module.named_parameters()
        }
        self.moments = {name: [torch.zeros_like(w), torch.zeros_like(w), 0] for name, w in self.w.items()}
        self.r_c = torch.zeros(K)
        self.updates = 0

    # Networks

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]

    def norm(self, name: str, x: Tensor) -> Tensor:
        x = x - x.mean(dim=1, keepdim=True)
        x = x / (x.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()
        return x * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def head(self, name: str, *inputs: Tensor) -> Tensor:
        x = torch.cat(inputs, dim=1)
        for layer in (0, 2):
            x = self.linear(f"{name}.{layer}", x).clamp(min=0)
        return self.linear(f"{name}.4", x)

    def convolve(self, obs: Tensor, g: torch.Generator) -> Tensor:
        """Shifted at random; pixels / 255 and nothing taken off."""
        down, right = torch.randint(-4, 5, (2, B, 1), generator=g).squeeze(2) + 4
        padded = F.pad(obs.double(), (4,) * 4, "replicate")
        x = torch.stack([image[:, y : y + 20, x : x + 20] for image, y, x in zip(padded, down, right, strict=True)])
        x = x / 255
        for layer, stride in enumerate((2, 1, 1, 1)):
            weight, bias = (self.w[f"encoder.convs.{layer}.{kind}"] for kind in ("weight", "bias"))
            x = F.conv2d(x, weight, bias, stride).clamp(min=0)
        return x.permute(0, 2, 3, 1).reshape(B, -1)  # pixels before channels: how our projection reads them

    def latent(self, maps: Tensor, which: str = "encoder.projection") -> Tensor:
        return torch.tanh(self.norm(f"{which}.1", self.linear(f"{which}.0", maps)))

    def raw_transition(self, z: Tensor, action: Tensor) -> Tensor:
        return self.head("objective.transition.net", z, action)

    def finished(self, raw: Tensor) -> Tensor:
        return torch.tanh(self.norm("objective.transition.norm", raw))

    def q(self, which: str, z: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        return self.head(f"{which}.q1", z, action), self.head(f"{which}.q2", z, action)

    def mean_action(self, z: Tensor) -> Tensor:
        x = self.head("actor.net", z)
        return torch.tanh(x[:, :A]) if self.soft else torch.tanh(0.1 * x)

    def noisy_action(self, z: Tensor, g: torch.Generator) -> Tensor:
        a = self.mean_action(z)
        a = a + (STD * torch.randn(a.shape, generator=g)).clamp(-0.3, 0.3)
        return a + (a.clamp(-1, 1) - a).detach()

    def drawn_action(self, z: Tensor, g: torch.Generator) -> tuple[Tensor, Tensor]:
        mean, raw = self.head("actor.net", z).split(A, dim=1)
        std = torch.exp(-10 + 6 * (torch.tanh(raw) + 1)) + 1e-4
        u = mean + std * torch.randn(mean.shape, generator=g)
        log_pi = torch.distributions.Normal(mean, std).log_prob(u) - torch.log(1 - torch.tanh(u) ** 2)
        return torch.tanh(u), log_pi.sum(dim=1, keepdim=True)

    # Losses

    def cbm_loss(self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor) -> Tensor:
        def similarity(x: Tensor, y: Tensor) -> Tensor:
            return (x / x.norm(dim=1, keepdim=True)) @ (y / y.norm(dim=1, keepdim=True)).T

        c = self.w["objective.prototypes"]
        raw = self.raw_transition(c, self.mean_action(c).detach())
        with torch.no_grad():
            squares = (reward - self.r_c) ** 2
            assert (squares > 2).any()
            assert (squares < 2).any()
            q = torch.exp((similarity(z_next, self.finished(raw)) - squares.clamp(max=2)) / 0.05)
            for _ in range(3):
                q = q / q.sum(dim=0) * B / K
                q = q / q.sum(dim=1, keepdim=True)
            average = (q * reward).sum(dim=0) / (B / K)
            self.r_c = average if self.updates == 0 else 0.01 * average + 0.99 * self.r_c
        s = similarity(z, raw)
        p = torch.softmax(s / TAU, dim=1)
        cluster_loss = ((p - q).detach() * s).sum(dim=1).mean()  # its gradient is right, its value means nothing
        predicted = torch.softmax(similarity(self.finished(self.raw_transition(z, action)), z_next) / TAU, dim=1)
        return cluster_loss - torch.log(predicted.diagonal()).mean()

    def step(self, loss: Tensor, parts: tuple[str, ...]) -> None:
        """Adam on everything whose name begins so; the projection is in the list twice."""
        names = [name for name in self.w if name.startswith(parts)]
        gradients = torch.autograd.grad(loss, [self.w[name] for name in names])
        for name, gradient in zip(names, gradients, strict=True):
            for _ in range(2 if name.startswith("encoder.projection") else 1):
                m, v, t = self.moments[name]
                m, v, t = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2, t + 1
                change = LR * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)).sqrt() + 1e-8)
                self.w[name], self.moments[name] = (self.w[name] - change).detach().requires_grad_(), [m, v, t]

    def update(self, b: Batch, g: torch.Generator) -> None:
        for name, w in self.w.items():
            w.requires_grad_(not name.startswith("target"))
        maps = self.convolve(b.obs, g)
        z = self.latent(maps)
        with torch.no_grad():
            maps_next = self.convolve(b.next_obs, g)
            if self.soft:
                action, log_pi = self.drawn_action(self.latent(maps_next), g)
                q = torch.minimum(*self.q("target_critic", self.latent(maps_next, "target_projection"), action))
                y = b.reward + GAMMA * (q - self.w["temperature.log_alpha"].exp() * log_pi)
            else:
                maps_boot = self.convolve(b.boot_obs, g)
                action = self.noisy_action(self.latent(maps_boot), g)
                q = torch.minimum(*self.q("target_critic", self.latent(maps_boot, "target_projection"), action))
                y = b.n_step_reward + GAMMA**3 * q
        cbm_loss = self.cbm_loss(z, b.action, b.n_step_reward / REPEAT, self.latent(maps_next).detach())
        q1, q2 = self.q("critic", z.detach(), b.action)
        critic_loss = torch.stack([(q1 - y) ** 2, (q2 - y) ** 2]).mean()
        self.step(cbm_loss + critic_loss, ("encoder", "objective", "critic"))
        if self.updates % 2 == 0:
            with torch.no_grad():
                for name in [n for n in self.w if n.startswith("target")]:
                    part, _, rest = name.removeprefix("target_").partition(".")
                    online = self.w[f"{part.replace('projection', 'encoder.projection')}.{rest}"]
                    self.w[name] = 0.01 * online + 0.99 * self.w[name]
            self.update_actor(self.latent(maps).detach(), g)
        self.updates += 1

    def update_actor(self, z: Tensor, g: torch.Generator) -> None:
        if self.soft:
            action, log_pi = self.drawn_action(z, g)
            alpha = self.w["temperature.log_alpha"].exp()
            self.step((alpha * (-log_pi.detach() + A)).mean(), ("temperature",))
            entropy = self.w["temperature.log_alpha"].exp().detach() * log_pi
        else:
            action, entropy = self.noisy_action(z, g), 0
        self.step((entropy - torch.minimum(*self.q("critic", z, action))).mean(), ("actor",))


def released(name: str, **changes: Any) -> Any:
    sizes = SIZES | {"prototypes": K, "transition_hidden": 8}
    return make_agent(name, SETUP, replace(shrunk(ReleasedConfig(), sizes), **changes))


@pytest.mark.parametrize("name", NAMES)
def test_whole_updates_are_those_of_the_authors(name: str) -> None:
    """Every weight, every moment of Adam and every prototype reward, after each of four updates."""
    a = released(name)
    assert (a.config.lr, a.config.tau, a.config.discount, a.config.target_rate) == (LR, TAU, GAMMA, 0.01)
    reference, g = Reference(a), a.generator.clone_state()
    for i in range(4):
        b = double_batch(i, a.ahead)
        a.update(b, 50)
        reference.update(b, g)
        close = {"rtol": 0.0, "atol": 1e-7}
        moments = {id(p): slots for o in a.optimizers.values() for p, slots in o.state.items()}
        learned = 0
        for part, module in a.modules.items():
            for short, parameter in module.named_parameters():
                full = f"{part}.{short}"
                torch.testing.assert_close(parameter, reference.w[full], **close, msg=lambda m, n=full: f"{n}: {m}")
                m, v, t = reference.moments[full]
                if slots := moments.get(id(parameter)):
                    assert slots["step"].item() == t
                    torch.testing.assert_close(slots["exp_avg"], m, rtol=1e-5, atol=1e-9)
                    torch.testing.assert_close(slots["exp_avg_sq"], v, rtol=1e-5, atol=1e-14)
                    learned += 1
                else:
                    assert t == 0
        assert learned == sum(t > 0 for _, _, t in reference.moments.values()) > 30
        torch.testing.assert_close(a.objective.r_c, reference.r_c, **close)


def test_first_weights() -> None:
    a = make_agent("released-drqv2-cbm", SETUP, shrunk(ReleasedConfig(prototypes=128), {**SIZES, "feature_dim": 50}))
    c = a.objective.prototypes.detach()
    assert c.abs().max() <= 50**-0.5
    assert c.norm(dim=1).mean().item() == pytest.approx(0.58, abs=0.02)
    slow, fast = a.target_projection[0].weight, a.encoder.projection[0].weight
    assert not torch.allclose(slow, fast)
    torch.testing.assert_close(slow.T @ slow, torch.eye(4 * 3 * 3))  # another orthogonal matrix
    torch.testing.assert_close(a.target_critic.state_dict(), a.critic.state_dict())


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_critic_reaches_the_encoder(name: str) -> None:
    convs, critics = [], []
    for discount in (0.0, 5.0):
        a = released(name)
        a.update(replace(double_batch(0, a.ahead), n_step_discount=torch.full((B, 1), discount)), 50)
        convs.append(a.encoder.convs[0].weight)
        critics.append(a.critic.q1[0].weight)
    assert torch.equal(*convs)
    assert not torch.equal(*critics)


class TestWindows:
    """Frames show their number, the reward of the step into frame i is i, its action (i, -i)."""

    def test_rewards_are_late_and_frames_are_whole(self, tmp_path: Path) -> None:
        world = World(tmp_path).episode(9).episode(7, terminal=True).episode(4).episode(6, finish=False)
        seen = set()
        for seed in range(30):
            b = sample_windows(world.replay, 32, np.random.default_rng(seed), 0.5, ahead=3)
            stacks = numbers(b.obs)
            for i, t in enumerate(stacks[:, -1].tolist()):
                assert stacks[i].tolist() == [t - 2, t - 1, t]
                assert (numbers(b.next_obs)[i, -1], numbers(b.boot_obs)[i].tolist()) == (t + 1, [t + 1, t + 2, t + 3])
                assert world.start[t - 2] == world.start[t + 3]  # one episode, six frames
                assert b.reward[i].item() == t + 1
                assert b.action[i].tolist() == [t + 1, -t - 1]
                assert b.n_step_reward[i].item() == (t - 1) + 0.5 * t + 0.25 * (t + 1)  # r_{t-2}, r_{t-1}, r_t
                assert b.n_step_discount[i].item() == (0.0 if t + 3 in world.terminal else 0.125)
                seen.add(t)
        assert seen == {2, 3, 4, 5, 6} | {12, 13, 14} | {25, 26}  # of frames 0-9, 10-17, 18-22 (too short) and 23-29

    def test_one_step_for_drq(self, tmp_path: Path) -> None:
        b = sample_windows(World(tmp_path).episode(20).replay, 8, np.random.default_rng(0), 0.5, ahead=1)
        assert b.boot_obs is b.next_obs
        assert b.n_step_discount.unique().tolist() == [0.5]

    def test_one_background_a_batch(self, tmp_path: Path) -> None:
        world, seen = World(tmp_path), set()
        for background in (0, 1, 2, 1):
            world.episode(8, background=background)
        for seed in range(20):
            b = sample_windows(world.replay, 32, np.random.default_rng(seed), 0.99, ahead=3)
            labels = {world.background[t] for t in numbers(b.obs)[:, -1]}
            assert len(labels) == 1
            seen |= labels
        assert seen == {0, 1, 2}

    def test_frames_that_were_overwritten_are_in_no_window(self, tmp_path: Path) -> None:
        world = World(tmp_path, capacity=20).episode(14).episode(12)
        draws = numbers(sample_windows(world.replay, 500, np.random.default_rng(0), 0.99, ahead=3).obs)
        assert set(draws[:, -1]) == {10, 11} | set(range(17, 25))  # frames 8-14 and 15-27 are there

    def test_too_short(self, tmp_path: Path) -> None:
        with pytest.raises(CBMError, match=r"6 frames .* --training\.seed_steps"):
            sample_windows(World(tmp_path).episode(4).replay, 8, np.random.default_rng(0), 0.99, ahead=3)


def test_the_preset_chooses_them() -> None:
    for name, released_name in (("drqv2+cbm", "released-drqv2-cbm"), ("drq+cbm", "released-drq-cbm")):
        config = make_config(name, preset="released", overrides=[("agent.prototypes", "64")])
        assert (config.agent_name, config.objective, config.agent.prototypes) == (released_name, None, 64)
        assert config == make_config(released_name, preset="released", overrides=[("agent.prototypes", "64")])
        paper = make_config(name)
        assert (config.env, config.training) == (paper.env, paper.training)
    with pytest.raises(CBMError, match=r"drq\+cbm and drqv2\+cbm.*'svea'.*--preset paper"):
        make_config("svea", preset="released")
    assert make_config("released-drq-cbm", preset="laptop").agent.batch_size == 64


def test_refusals() -> None:
    with pytest.raises(CBMError, match="prototypes must be 2 to"):
        ReleasedConfig(prototypes=1)
    with pytest.raises(CBMError, match="one background video"):
        ReleasedConfig(batch_episodes=4)
    with pytest.raises(CBMError, match="cannot carry"):
        make_agent("released-drq-cbm+cbm", SETUP)


def test_analyses_find_its_clusters() -> None:
    torch.set_default_dtype(torch.float32)
    a = agent("released-drqv2-cbm")
    z = a.encode(batch().obs)
    found = cluster(z, prototype_space(a))
    anchors = a.objective.transition.net(
        torch.cat([a.objective.prototypes, a.actor(a.objective.prototypes)], dim=1)
    ).detach()
    cosines = torch.stack([torch.cosine_similarity(row[None], anchors) for row in z])
    assert found.labels.tolist() == cosines.argmax(dim=1).tolist()
    np.testing.assert_allclose(found.p, torch.softmax(cosines / TAU, 1), rtol=1e-4)

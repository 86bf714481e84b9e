"""What holds for every agent in the registry, alone and with each objective; small images, small heads."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cbm.agents import AGENTS, ActorCriticConfig, agent_names, configs, make_agent, split_name
from cbm.agents.drq import DrQ, DrQConfig
from cbm.agents.drqv2 import DrQv2, DrQv2Config
from cbm.errors import CBMError, UnknownChoice
from cbm.learning import chunks, threads
from cbm.learning.augment import draw_colours, view
from cbm.learning.optimisation import critic_blocked
from cbm.learning.recent import Latents, Recent
from cbm.objectives.cbm import CBMConfig
from cbm.replay import Replay
from cbm.types import begin_episode
from small_agents import OBJECTIVE_SIZES, SETUP, SIZES, agent, batch, example, sequences, shrunk

RELEASED_NAMES = {"released-drq-cbm", "released-drqv2-cbm"}  # late rewards, which CBM sees too: test_released.py
MODEL_FREE = [name for name in agent_names() if isinstance(configs(name)[0], ActorCriticConfig)]


def filled(folder: Path) -> Replay:
    """An episode of 20 random steps."""
    rng = np.random.default_rng(0)
    replay = Replay.create(folder, SETUP.obs_shape, SETUP.action_dim, capacity=100)
    replay.add_first(np.zeros(SETUP.obs_shape, np.uint8))
    for i in range(20):
        frame = rng.integers(0, 256, SETUP.obs_shape, dtype=np.uint8)
        replay.add(np.zeros(2, np.float32), 1.0, frame, False, i == 19)
    return replay


def leaves(tree: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {path: tree}
    found: dict[str, Any] = {}
    for key, value in tree.items():
        assert isinstance(key, str)
        found |= leaves(value, f"{path}/{key}")
    return found


def copied(state: dict[str, Any]) -> dict[str, Any]:
    """As out of a file: contiguous copies."""
    return {
        k: copied(v)
        if isinstance(v, dict)
        else (v.clone(memory_format=torch.contiguous_format) if isinstance(v, torch.Tensor) else v)
        for k, v in state.items()
    }


def equal(a: dict[str, Any], b: dict[str, Any]) -> None:
    left, right = leaves(a), leaves(b)
    assert left.keys() == right.keys()
    for name, value in left.items():
        same = torch.equal(value, right[name]) if isinstance(value, torch.Tensor) else value == right[name]
        assert same, name


def learned(a: Any) -> dict[str, torch.Tensor]:
    """Copies of the parameters of each optimizer, end to end."""
    return {
        name: torch.cat([p.detach().flatten() for group in optimizer.param_groups for p in group["params"]])
        for name, optimizer in a.optimizers.items()
    }


@pytest.mark.parametrize("name", agent_names())
class TestEveryAgent:
    def test_no_parameter_in_two_optimizers_and_none_forgotten(self, name: str) -> None:
        a = agent(name)
        listed = [id(p) for o in a.optimizers.values() for group in o.param_groups for p in group["params"]]
        assert len(listed) == len(set(listed))
        learned = {id(p) for module in a.modules.values() for p in module.parameters() if p.requires_grad}
        assert set(listed) == learned

    @pytest.mark.parametrize("mixed_precision", [False, True])
    def test_resume_is_bit_identical(self, name: str, mixed_precision: bool) -> None:
        a, obs = agent(name, mixed_precision=mixed_precision), np.zeros((9, 20, 20), np.uint8)
        for i in range(3):
            a.act(obs, i, explore=True)
            a.update(example(a, i), i)
        state = copied(a.state_dict())
        for leaf in leaves(state).values():
            assert isinstance(leaf, torch.Tensor) or json.dumps(leaf)
        b = agent(name, mixed_precision=mixed_precision)
        b.load_state_dict(state)
        torch.rand(3)  # the global random state plays no part
        for i in range(3, 7):
            assert np.array_equal(a.act(obs, i, explore=True), b.act(obs, i, explore=True))
            one, two = a.update(example(a, i), i), b.update(example(b, i), i)
            assert all(torch.equal(one[key], two[key]) for key in one)
        equal(a.state_dict(), b.state_dict())

    def test_the_global_random_state_is_left_alone(self, name: str) -> None:
        before = torch.get_rng_state()
        a = agent(name)
        a.update(example(a), 0)
        a.act(np.zeros((9, 20, 20), np.uint8), 0, explore=True)
        assert torch.equal(before, torch.get_rng_state())

    def test_the_seed_decides(self, name: str) -> None:
        equal(agent(name).state_dict(), agent(name).state_dict())
        config, objective = configs(name)
        other = make_agent(name, replace(SETUP, seed=4), shrunk(config, SIZES), objective)
        assert not torch.equal(other.encoder.convs[0].weight, agent(name).encoder.convs[0].weight)  # type: ignore[attr-defined]

    def test_actions(self, name: str) -> None:
        a, obs = agent(name), np.random.default_rng(0).integers(0, 256, (5, 9, 20, 20), dtype=np.uint8)
        many = a.act(obs, 0, explore=False)
        assert many.shape == (5, 2)
        assert many.dtype == np.float32
        begin_episode(a)
        one = a.act(obs[0], 0, explore=False)
        assert one.shape == (2,)
        np.testing.assert_allclose(one, many[0], rtol=1e-4, atol=1e-5)
        draws = np.stack([a.act(obs[0], 0, explore=True) for _ in range(20)])
        assert np.abs(draws).max() <= 1
        assert draws.std(axis=0).min() > 1e-3
        assert a.encode(obs).shape == (5, 6)
        assert a.value(obs).shape == (5, 1)

    def test_learns_from_what_it_samples(self, name: str, tmp_path: Path) -> None:
        """Everything that has an optimizer moves, and another sample moves it elsewhere."""
        replay, found = filled(tmp_path), []
        for seed in (0, 1):
            a = agent(name)
            sampled = a.sample(replay, np.random.default_rng(seed))
            assert len(sampled.obs) == 8
            before = learned(a)
            metrics = a.update(sampled, 0)
            assert all(value.ndim == 0 and torch.isfinite(value) for value in metrics.values())
            assert not any(value.requires_grad for value in metrics.values())
            found.append(learned(a))
            assert {key for key in before if torch.equal(before[key], found[-1][key])} == set()
        assert not any(torch.equal(found[0][key], found[1][key]) for key in before if key != "temperature")


@pytest.mark.parametrize("name", MODEL_FREE)
class TestModelFree:
    def test_who_trains_the_encoder(self, name: str) -> None:
        """Where an objective owns the encoder, the critic's error does not reach it: larger rewards change nothing."""
        if name in RELEASED_NAMES:
            pytest.skip("its objective sees those rewards; test_released.py")
        results = []
        for scale in (1.0, 50.0):
            a = agent(name)
            b = batch()
            a.update(replace(b, n_step_reward=scale * b.n_step_reward), 0)
            results.append(a.state_dict()["modules"])
        same = torch.equal(results[0]["encoder"]["convs.0.weight"], results[1]["encoder"]["convs.0.weight"])
        assert same == critic_blocked(a.objective)
        assert not torch.equal(results[0]["critic"]["q1.0.weight"], results[1]["critic"]["q1.0.weight"])

    def test_losses_fall_on_one_batch(self, name: str) -> None:
        a, b = agent(name, shift_pad=0, lr=1e-3), batch(n_step=1)
        b = replace(b, n_step_discount=torch.zeros(8, 1))  # plain regression onto the reward
        history = [a.update(b, 100) for _ in range(150)]
        for loss in a.weights.keys() - {"bisimulation"}:  # whose target moves with the latents
            values = [metrics[f"loss/{loss}"] for metrics in history if f"loss/{loss}" in metrics]
            assert values[-1] < 0.8 * values[0], loss

    def test_the_actor_s_loss_moves_the_actor_alone(self, name: str) -> None:
        """It passes through the critic, and what that and the encoder learn is the same with and without it."""
        found = []
        for every in (1, 2):
            a = agent(name, actor_every=every)
            a.updates, before = 1, learned(a)
            assert ("loss/actor" in a.update(batch(), 0)) == (every == 1)
            after = learned(a)
            assert torch.equal(before["actor"], after["actor"]) == (every == 2)
            found.append({key: after[key] for key in after if key not in ("actor", "temperature")})
        assert {"encoder", "critic"} <= found[0].keys()
        equal(*found)

    def test_the_actor_sees_latents_after_the_step(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those of plain images, through the convolutions before the step and the projection after it.

        Proto-RL's convolutions have a step of their own, before: its actor sees what the whole stepped encoder sees.
        """
        a, b, seen = agent(name, shift_pad=0), batch(), []
        before, actor_loss = deepcopy(a.encoder), a.actor_loss
        monkeypatch.setattr(a, "actor_loss", lambda z, *rest: (seen.append(z), actor_loss(z, *rest))[1])
        a.update(b, 0)
        with torch.no_grad():
            convs, others = (a.encoder.convs, before.convs)[:: 1 if name == "proto" else -1]
            torch.testing.assert_close(seen[0], a.encoder.latent(convs(b.obs)))
            for z in (before(b.obs), a.encoder.latent(others(b.obs))):
                assert (seen[0] - z).abs().max() > 1e-4
        assert not seen[0].requires_grad

    def test_rewards_and_discounts_of_what_it_samples(self, name: str, tmp_path: Path) -> None:
        if name in RELEASED_NAMES:
            pytest.skip("has no short windows; test_released.py")
        a = agent(name)
        replay, rng = filled(tmp_path), np.random.default_rng(0)
        discounts = torch.cat([a.sample(replay, rng).n_step_discount for _ in range(20)])  # the last steps too
        expected = 0.99 ** getattr(a.config, "n_step", 1)
        assert discounts.max().item() == pytest.approx(0.99)
        assert discounts.min().item() == pytest.approx(expected)

    def test_head_updates_train_critic_and_actor_alone(self, name: str) -> None:
        """And go on as they would have, bit for bit, in an agent out of a checkpoint."""
        if name in RELEASED_NAMES:
            with pytest.raises(CBMError, match="head_updates must be 0"):
                agent(name, head_updates=1)
            return
        a = agent(name, head_updates=3)
        a.update(batch(), 0)
        before = learned(a)
        a.learn_again(0)
        after = learned(a)
        changed = {key for key in before if not torch.equal(before[key], after[key])}
        assert changed - {"temperature"} == {"critic", "actor"}
        a = agent(name, head_updates=3)
        for number in (1, 5, 9):  # before the first update there is nothing to learn from again
            a.update(batch(number), number)
            assert {int(state["step"]) for state in a.optimizers["critic"].state.values()} == {number}
        b = agent(name, head_updates=3)
        b.load_state_dict(copied(a.state_dict()))
        for i in range(10, 13):
            a.update(batch(i), i), b.update(batch(i), i)
        equal(a.state_dict(), b.state_dict())

    def test_random_colours_are_those_of_each_view(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Drawn anew for each; and with none, nothing is drawn."""
        if name in RELEASED_NAMES:
            with pytest.raises(CBMError, match="colour_jitter must be 0"):
                agent(name, colour_jitter=0.2)
            return
        drawn: list[torch.Tensor] = []
        strengths: list[float] = []

        def draw(*args: Any) -> torch.Tensor:
            strengths.append(args[2])
            drawn.append(draw_colours(*args))
            return drawn[-1]

        monkeypatch.setattr("cbm.learning.augment.draw_colours", draw)
        found = []
        for strength in (0.0, 0.2):
            a = agent(name, colour_jitter=strength)
            a.update(batch(), 0)
            found.append(learned(a))
            assert bool(drawn) == bool(strength)
        assert not torch.equal(drawn[0], drawn[1])
        assert not torch.equal(found[0]["encoder"], found[1]["encoder"])
        strengths.clear()
        a = agent(name, colour_jitter=0.2, colour_updates=2)
        for i in range(4):
            a.update(batch(i), i)
        assert strengths == sorted(strengths)
        assert set(strengths) == {0.1, 0.2}  # in the first update there is nothing to draw

    def test_images_of_an_episode_look_alike_in_all_views(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """With `alike_shifts`; without, each image has a shift and colours of its own."""
        if name in RELEASED_NAMES:
            with pytest.raises(CBMError, match="alike_shifts must be 0"):
                agent(name, alike_shifts=0.5)
            return
        looks: list[tuple[torch.Tensor, ...]] = []

        def record(obs: torch.Tensor, *look: torch.Tensor) -> torch.Tensor:
            looks.append(look)
            return view(obs, *look)

        monkeypatch.setattr("cbm.agents.actor_critic.view", record)
        monkeypatch.setattr(f"{type(agent(name)).__module__}.view", record, raising=False)
        given = batch()
        for share in (0.0, 1.0):
            looks.clear()
            agent(name, alike_shifts=share, colour_jitter=0.2).update(given, 0)
            for part in zip(*looks, strict=True):
                drawn = torch.stack(part).flatten(2)  # (views, B, N); a batch this small is not cut into chunks
                for each in given.episode:
                    assert (len(drawn[:, given.episode == each].flatten(0, 1).unique(dim=0)) == 1) == bool(share)
            assert len(looks[0]) == 2, "shifts and colours"


@pytest.mark.parametrize(("name", "views"), [("drqv2+cbm", 3), ("drq+cbm", 5), ("drqv2+dynamics", 3)])
def test_l_p_looks_ahead_at_views_that_others_need_too(name: str, views: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three steps ahead lies what DrQ-v2's critic bootstraps from; DrQ encodes one more view."""
    encoded: list[int] = []

    def run(works: Any, **named: Any) -> list[Any]:
        works = list(works)
        encoded.append(len(works))
        return chunks_run(works, **named)

    chunks_run = chunks.run
    monkeypatch.setattr(chunks, "run", run)
    config, objective = configs(name)
    ahead = replace(shrunk(objective, OBJECTIVE_SIZES), steps_ahead=3)
    found = []
    for dark in (False, True):
        a = make_agent(name, SETUP, shrunk(config, SIZES), ahead)
        given = batch(ahead=3, n_step=3 if name.startswith("drqv2") else 1)
        if dark:  # what comes later matters to the encoder through L_P alone
            given = replace(given, later_obs=torch.zeros_like(given.later_obs))
        a.update(given, 0)
        found.append(a.encoder.state_dict()["convs.0.weight"])
    assert encoded[0] == views
    assert encoded[-1] == 4 if name.startswith("drqv2") else 5
    assert not torch.equal(*found)


def test_recent_latents_are_those_of_the_last_batches() -> None:
    recent, generator = Recent(3), torch.Generator().manual_seed(0)
    for number in range(5):
        recent.add(Latents(*(torch.full((4, size), float(number)) for size in (6, 2, 1, 1, 6))))
    drawn = list(recent.draw(64, 2, generator))
    for each in drawn:
        assert each.z.shape == (64, 6)
        assert {*each.z[:, 0].tolist()} == {2.0, 3.0, 4.0}
        assert torch.equal(each.z[:, :1], each.n_step_reward)  # rows stay together
        assert torch.equal(each.z[:, :2], each.action)
    assert not torch.equal(drawn[0].z, drawn[1].z)


def test_drqv2_target_is_the_n_step_return(monkeypatch: pytest.MonkeyPatch) -> None:
    a = agent("drqv2")
    z = torch.randn(8, 6)
    b = batch()
    monkeypatch.setattr(a, "noise", lambda env_step: 0.0)
    target = a.target(Latents(z, b.action, b.n_step_reward, b.n_step_discount, z), 0)
    action = a.actor(z)
    q = torch.minimum(*a.target_critic(z, action))
    torch.testing.assert_close(target, b.n_step_reward + b.n_step_discount * q)
    assert not target.requires_grad


def test_drq_target_averages_over_shifts_and_subtracts_entropy() -> None:
    a = agent("drq")
    z = torch.randn(16, 6)
    b = batch(n_step=1)
    a.generator.manual_seed(0)
    target = a.mean_target(b, z)
    g = torch.Generator().manual_seed(0)
    mean, log_std = a.actor(z)
    u = mean + log_std.exp() * torch.randn(16, 2, generator=g)
    log_pi = torch.distributions.Normal(mean, log_std.exp()).log_prob(u) - torch.log(1 - torch.tanh(u) ** 2)
    value = torch.minimum(*a.target_critic(z, torch.tanh(u))) - 0.1 * log_pi.sum(dim=1, keepdim=True)
    expected = b.reward + 0.99 * (value[:8] + value[8:]) / 2
    torch.testing.assert_close(target, expected, rtol=1e-4, atol=1e-4)


def test_target_critic_follows_slowly() -> None:
    a = agent("drqv2", target_rate=0.5, target_every=1)
    before = a.target_critic.q1[0].weight.clone()
    a.update(batch(), 0)
    torch.testing.assert_close(a.target_critic.q1[0].weight, (before + a.critic.q1[0].weight) / 2)


def test_noise_follows_the_schedule_of_the_task() -> None:
    a = agent("drqv2")
    assert [a.noise(step) for step in (0, 50, 200)] == pytest.approx([1.0, 0.55, 0.1])


def test_the_temperature_of_drq_can_be_learned() -> None:
    a = agent("drq", learn_temperature=True)
    before = a.temperature().item()
    assert before == pytest.approx(0.1)
    metrics = a.update(batch(n_step=1), 0)
    assert a.temperature().item() != before
    entropy_too_high = metrics["actor/entropy"] > -SETUP.action_dim
    assert (a.temperature().item() < before) == bool(entropy_too_high)
    fixed = agent("drq")
    fixed.update(batch(n_step=1), 0)
    assert fixed.temperature().item() == pytest.approx(0.1)


def test_the_actor_of_drqv2_has_a_bound_or_a_plain_tanh() -> None:
    z = 50 * torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    plain, bounded = agent("drqv2", actor_bound=None), agent("drqv2", actor_bound=2.0)
    x = plain.actor.net(z)
    assert x.abs().max() > 2
    torch.testing.assert_close(plain.actor.mean(z), torch.tanh(x))
    torch.testing.assert_close(bounded.actor.mean(z), torch.tanh(x.clamp(-2, 2)))
    plain.update(batch(), 0)
    with pytest.raises(CBMError, match="actor_bound must be above 0"):
        DrQv2Config(actor_bound=0.0)


def test_who_shares_the_encoder_with_the_critic() -> None:
    shared = {name for name in MODEL_FREE if not critic_blocked(agent(name).objective)}
    assert {name for name in shared if "+" in name} == {
        f"{name}+{objective}" for name in ("drq", "drqv2") for objective in ("dbc", "simsr")
    }


@pytest.mark.parametrize("prototypes", [8, 512])
@pytest.mark.parametrize("name", ["drq+cbm", "drqv2+cbm"])
def test_few_and_many_prototypes(name: str, prototypes: int) -> None:
    config, objective = configs(name)
    a = make_agent(name, SETUP, shrunk(config, SIZES), replace(objective, prototypes=prototypes))
    before, b = a.objective.prototypes.detach().clone(), batch()
    assert before.shape == (prototypes, 6)
    metrics = a.update(b, 0)
    assert (a.objective.prototypes != before).any(dim=1).all()  # each has learned
    r_c, reward = a.objective.r_c, b.reward / SETUP.action_repeat
    assert reward.min() <= r_c.min() < r_c.max() <= reward.max()  # and has a reward out of the batch
    assert metrics["cbm/q_entropy"] <= np.log(prototypes)
    assert 1 <= metrics["cbm/prototypes_used"] <= prototypes


def test_names() -> None:
    assert {"drq", "drqv2", "drq+cbm", "drqv2+cbm", "drqv2+dynamics"} <= set(agent_names())
    assert isinstance(agent("drq+cbm"), DrQ)  # composition, not a subclass
    assert type(agent("drqv2+cbm")) is DrQv2
    with pytest.raises(UnknownChoice, match="drqv2"):
        split_name("drqv3")
    with pytest.raises(UnknownChoice, match="cbm"):
        split_name("drqv2+cmb")
    with pytest.raises(UnknownChoice):
        split_name("drqv2+")


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CBMError, match="DrQConfig"):
        make_agent("drq", SETUP, DrQv2Config())
    with pytest.raises(CBMError, match="CBMConfig"):
        make_agent("drq+cbm", SETUP, DrQConfig(), DrQConfig())
    with pytest.raises(CBMError, match="batch_size must be 2 to"):
        DrQConfig(batch_size=1)
    with pytest.raises(CBMError, match=r"agent\.batch_size must be at least 3, not 2"):
        agent("drqv2+bisim-nce", batch_size=2)
    with pytest.raises(CBMError, match=r"episode_means .* need several .* --agent\.batch_episodes 4"):
        make_agent("drq+cbm", SETUP, DrQConfig(), CBMConfig(centred=True, episode_means=True))
    with pytest.raises(CBMError, match=r"episode_weight need several .* --agent\.batch_episodes 4"):
        make_agent("drq+cbm", SETUP, DrQConfig(), CBMConfig(episode_weight=1.0))
    monkeypatch.setitem(AGENTS, "drq", AGENTS["drq"]._replace(carries=False))
    with pytest.raises(CBMError, match="cannot carry"):
        split_name("drq+cbm")
    assert "drq+cbm" not in agent_names()


@pytest.mark.parametrize("name", agent_names())
def test_any_number_of_threads_gives_the_same_bits(name: str) -> None:
    """Batches of more than two chunks, as many updates as every part needs for its turn; in 32 bits and in 16."""
    states: dict[tuple[bool, int], dict[str, Any]] = {}
    heads = {"head_updates": 2, "colour_jitter": 0.2} if name in MODEL_FREE and name not in RELEASED_NAMES else {}
    for mixed in (False, True):
        for count in (1, 2, 3, 8) if not mixed else (1, 2):
            with threads.use(count):
                a = agent(name, batch_size=69, mixed_precision=mixed, **heads)
                for seed in range(3):
                    memory = hasattr(a.config, "length")
                    a.update(sequences(seed) if memory else batch(seed, size=69), 0)
            states[mixed, count] = a.state_dict()
            equal(states[mixed, count], states[mixed, 1])

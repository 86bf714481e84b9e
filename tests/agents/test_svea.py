"""SVEA: its critic's loss, what its augmentations reach, where the images of an overlay come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from augmentation import random_convolution, random_overlay, random_shift
from cbm.agents import make_agent
from cbm.agents.svea import SVEA, SVEAConfig, stills
from cbm.config import EnvConfig, make_config
from cbm.errors import CBMError
from cbm.system.jsonl import read_lines
from cbm.training import loop
from small_agents import SETUP, SIZES, agent, batch, shrunk


@pytest.mark.parametrize("augmentation", ["convolution", "overlay"])
def test_the_critic_s_loss_is_that_of_its_authors(augmentation: str) -> None:
    config = shrunk(SVEAConfig(augmentation=augmentation), SIZES)  # type: ignore[arg-type]
    images = torch.randint(0, 256, (5, 3, 20, 20), dtype=torch.uint8)
    a = SVEA(config, SETUP, images=images)
    with torch.no_grad():  # so that it matters which of the two encoders is used
        a.target_encoder.convs[0].weight.mul_(0.5)
    b = batch(n_step=1)
    g = a.generator.clone_state()
    with torch.no_grad():
        obs, next_obs = random_shift(b.obs, g, 4), random_shift(b.next_obs, g, 4)
        strong = random_convolution(obs, g) if augmentation == "convolution" else random_overlay(obs, images, g, 0.5)
        mean, log_std = a.actor(a.encoder(next_obs))
        u = mean + log_std.exp() * torch.randn(8, 2, generator=g)
        log_pi = torch.distributions.Normal(mean, log_std.exp()).log_prob(u) - torch.log(1 - torch.tanh(u) ** 2)
        q_next = torch.minimum(*a.target_critic(a.target_encoder(next_obs), torch.tanh(u)))
        y = b.reward + 0.99 * (q_next - 0.1 * log_pi.sum(dim=1, keepdim=True))
        plain, augmented = (
            sum(((q - y) ** 2).mean() for q in a.critic(a.encoder(images_), b.action)) for images_ in (obs, strong)
        )
    metrics = a.update(b, 0)
    assert metrics["loss/critic"].item() == pytest.approx(float(plain), rel=1e-5)
    assert metrics["loss/critic_augmented"].item() == pytest.approx(float(augmented), rel=1e-5)
    assert a.weights == {"critic": 0.5, "critic_augmented": 0.5}


def test_its_temperature_has_an_optimizer_of_its_own() -> None:
    group = agent("svea").optimizers["temperature"].param_groups[0]
    assert group["lr"] == 1e-4
    assert group["betas"] == (0.5, 0.999)


def test_target_encoder_follows() -> None:
    a = agent("svea", encoder_rate=0.5)
    before = a.target_encoder.convs[0].weight.clone()
    a.update(batch(n_step=1), 0)
    torch.testing.assert_close(a.target_encoder.convs[0].weight, (before + a.encoder.convs[0].weight) / 2)


def test_stills_come_evenly_from_the_training_videos(tmp_path: Path) -> None:
    for number, name in enumerate(["a", "b", "c", "d"]):
        (tmp_path / name).mkdir()
        for frame in range(6):
            Image.fromarray(np.full((12, 16, 3), 50 * number + frame, np.uint8)).save(tmp_path / name / f"{frame}.png")
    from cbm.envs.videos import open_source

    names = open_source(str(tmp_path)).names("train")
    images = stills(str(tmp_path), 3 * len(names), (20, 24))
    assert images.shape == (3 * len(names), 3, 20, 24)
    assert images.dtype == np.uint8
    values = sorted(images[:, 0, 0, 0].tolist())
    assert values == sorted(50 * "abcd".index(name) + frame for name in names for frame in (0, 2, 5))
    a = agent("svea", augmentation="overlay", overlay_videos=str(tmp_path), overlay_images=4)
    np.testing.assert_array_equal(a.images, stills(str(tmp_path), 4, (20, 20)))
    b = agent("svea", augmentation="overlay", overlay_videos=str(tmp_path), overlay_images=4)
    b.images = 255 - b.images
    losses = [each.update(batch(n_step=1), 0) for each in (a, b)]
    assert losses[0]["loss/critic"] == losses[1]["loss/critic"]
    assert losses[0]["loss/critic_augmented"] != losses[1]["loss/critic_augmented"]  # it is what the critic sees


def test_the_paper_preset_is_its_authors_and_the_laptop_preset_is_as_the_others() -> None:
    paper, laptop = (make_config("svea", preset=preset).agent for preset in ("paper", "laptop"))
    for config, theirs in ((paper, True), (laptop, False)):
        encoder = SVEA(shrunk(config, SIZES | {"conv_strides": (2, 1, 1, 1)}), SETUP).encoder
        assert (encoder.convs.pixel_offset == 0.0) == theirs
        assert encoder.convs.last_relu != theirs
        assert (encoder.convs[1].weight.count_nonzero() <= 4 * 4) == theirs
    assert (paper.first_updates, laptop.first_updates) == (1_000, 0)


def test_many_updates_come_at_once_after_the_random_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "helpers"))
    values = {
        "agent.batch_size": 4,
        "agent.conv_channels": 2,
        "agent.hidden_dim": 8,
        "agent.first_updates": 12,
        "training.seed_steps": 20,
        "training.total_steps": 26,
        "training.log_every": 2,
        "training.eval_episodes": 1,
        "training.eval_workers": 0,
        "training.threads": 1,
        "training.film": False,
    }
    env = EnvConfig(env_id="toy:PixelDot-v0", size=24, action_repeat=2)
    config = make_config("svea", env, seed=1, overrides=[(name, str(value)) for name, value in values.items()])
    assert loop.train(config, tmp_path / "run", quiet=True).at.updates == 15
    counts = [(x["env_step"], x["updates"]) for x in read_lines(tmp_path / "run" / "metrics.jsonl") if "updates" in x]
    assert counts == [(20, 12), (22, 13), (24, 14), (26, 15)]


def test_bad_input() -> None:
    with pytest.raises(CBMError, match="first_updates must be 0 to"):
        SVEAConfig(first_updates=-1)
    with pytest.raises(CBMError, match="overlay needs images"):
        agent("svea", augmentation="overlay")
    with pytest.raises(CBMError, match="overlay_images must be 1 to"):
        SVEAConfig(overlay_images=0)
    with pytest.raises(CBMError, match="batch_size must be 2 to"):
        SVEAConfig(batch_size=1)
    with pytest.raises(CBMError, match="nowhere"):
        agent("svea", augmentation="overlay", overlay_videos="nowhere")
    with pytest.raises(CBMError, match="cannot carry"):
        make_agent("svea+cbm", SETUP)

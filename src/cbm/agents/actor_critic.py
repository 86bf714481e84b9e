"""An encoder, an actor and two critics on its latents: what every agent but TPC has, and what its `update` calls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn

from cbm.agents.acting import Acting
from cbm.agents.base import Setup
from cbm.learning import chunks
from cbm.learning.adam import adams, encoder_optimizer
from cbm.learning.augment import Alike, Look, draw_alike, draw_look, look_alike, view
from cbm.learning.chunks import Work
from cbm.learning.nets import Encoder, Makes
from cbm.learning.ops import linear_schedule, soft_update
from cbm.learning.optimisation import loss_weights, minimise, td_loss
from cbm.learning.recent import Latents, Recent
from cbm.replay import Replay
from cbm.schema.methods import AgentConfig
from cbm.schema.ranges import Count, CountOrZero, Length, Range, Share, Width
from cbm.types import Batch, Metrics, Objective

_RECENT = 16  # batches whose latents are kept for `head_updates`
_HEAD_BATCH = 2  # times the batch size


@dataclass(frozen=True)
class ActorCriticConfig(AgentConfig):
    """What every agent with an encoder, an actor and critics has: all but TPC."""

    laptop_jitter: ClassVar[float] = 0.3

    conv_channels: Annotated[int, Range(1, 1_024)] = 32
    """Table."""
    conv_strides: Annotated[tuple[Annotated[int, Range(1, 16)], ...], Length(1, 16)] = (2, 1, 1, 1)
    """One 3x3 convolution per stride (Table)."""
    hidden_dim: Width = 1024
    """Width of the three-layer actor and critic heads (Table)."""
    shift_pad: Annotated[int, Range(0, 64)] = 4
    """Largest random shift in pixels (Table, "Random cropping padding")."""
    alike_shifts: Share = 0.0
    """Share of the episodes in a batch whose images, current and next ones, all move by the same shift and have the
    same random colours. Where little moves, a shift or colours of its own hide from a contrastive loss what an image
    differs in, and learning does not start. Needs few episodes in a batch (`batch_episodes`)."""
    colour_jitter: Share = 0.0
    """Red, green and blue of each image are multiplied by random factors between 1 - j and 1 + j, and moved by up to
    j / 2 of their range (ours; DrQ's authors tried one factor for all, and kept shifts alone). 0: not at all."""
    colour_updates: CountOrZero = 0
    """Number of updates over which `colour_jitter` grows from 0: a contrastive loss may not start with all of it."""
    actor_every: Count = 2
    """Updates between updates of the actor (Table)."""
    target_every: Count = 2
    """Updates between updates of the target critic (Table)."""
    target_rate: Annotated[float, Range(0, 1, above=True)] = 0.01
    """How far the target critic moves each time (Table, "Critic soft-update rate")."""
    updates_per_step: Annotated[float, Range(0, 1_000)] = 1.0
    """Updates per agent step. The paper does not say; DrQ makes one."""
    batch_episodes: CountOrZero = 0
    """Draw each batch from at most this many episodes, chosen anew for each batch; 0: from all. What distinguishes
    episodes, such as the background, then distinguishes few members of a batch, and a contrastive loss has to look at
    the rest."""
    head_updates: Annotated[int, Range(0, 1_000)] = 0
    """Further updates of critic and actor between two updates, from the latents of the last 16 batches, two batch sizes
    at a time (ours). No image is encoded for them, and they are made while those of the next update are."""

    def laptop(self) -> Self:
        """For two cores: smaller networks and batches, fewer updates, and a higher rate to make up for them.
        docs/results/recipe.md says what each was measured to do. The preset itself chooses the number of updates for
        tasks of the suite."""
        return replace(
            self,
            conv_strides=(2, 2, 1, 1),
            batch_size=64,
            hidden_dim=256,
            lr=1e-3,
            colour_jitter=self.laptop_jitter,
            colour_updates=3_000,
            updates_per_step=0.25,
        )

    def updates_per_agent_step(self, action_repeat: int) -> float:
        return self.updates_per_step


def make_encoder(config: ActorCriticConfig, setup: Setup, kind: type[Encoder] = Encoder, **options: Any) -> Encoder:
    """An encoder of these sizes; `options` are additional ones that `kind` has."""
    sizes = config.feature_dim, config.conv_channels, config.conv_strides
    return kind(setup.obs_shape, *sizes, config.mixed_precision, **options)


class ActorCritic(Acting):
    """An encoder, an actor and two critics on its latents: all but how it explores, what its critic and its actor
    should do, and its `update`."""

    n_step = 1  # steps of reward before the bootstrap

    def __init__(self, config: ActorCriticConfig, setup: Setup, objective: Objective | None) -> None:
        super().__init__(setup)
        self.config, self.objective = config, objective
        self.recent = Recent(_RECENT)

    def assemble(self, **others: nn.Module) -> None:
        """When encoder, actor and critic have been made: what learns from which losses; `others` are more modules."""
        self.target_critic = deepcopy(self.critic).requires_grad_(False)
        networks = {"encoder": self.encoder, "actor": self.actor, "critic": self.critic}
        self.hold(**networks, target_critic=self.target_critic, **others, objective=self.objective)
        lr = self.config.lr
        self.optimizers = {
            "encoder": encoder_optimizer(self.encoder, self.objective, lr),
            **adams(lr, critic=self.critic, actor=self.actor),
        }
        self.weights = loss_weights(self.objective)

    def sample(self, replay: Replay, generator: np.random.Generator) -> Batch:
        """A batch of the kind that `update` needs."""
        size, discount, episodes = self.config.batch_size, self.config.discount, self.config.batch_episodes
        ahead = 1 if self.objective is None else self.objective.steps_ahead
        return replay.sample(size, generator, self.n_step, discount, episodes, ahead)

    def target(self, latents: Latents, env_step: int) -> Tensor:
        """What Q of these transitions should be, (B, 1)."""
        raise NotImplementedError

    def update_actor(self, z: Tensor, env_step: int) -> Metrics:
        """One step of the actor on latents (B, D)."""
        raise NotImplementedError

    def finish_update(self, latents: Latents, maps: Tensor, env_step: int) -> Metrics:
        """What follows the step of encoder and critic; latents and feature maps of the batch are from before it."""
        with torch.no_grad():
            z = self.encoder.latent(maps)  # through the projection as it is now
        metrics = self.follow(z, env_step, self.critic_updates)
        if self.config.head_updates:
            self.recent.add(latents)
        self.updates += 1
        return metrics

    def follow(self, z: Tensor, env_step: int, number: int) -> Metrics:
        """Steps of actor and target critic, if it is their turn after `number` updates of the critic."""
        config = self.config
        metrics = self.update_actor(z, env_step) if number % config.actor_every == 0 else {}
        if number % config.target_every == 0:
            soft_update(self.target_critic.parameters(), self.critic.parameters(), config.target_rate)
        return metrics

    @property
    def critic_updates(self) -> int:
        return self.updates * (1 + self.config.head_updates)

    def encoded(self, seen: Iterable[Work], env_step: int) -> list[Any]:
        """What the encoder makes of views; meanwhile critic and actor learn again."""
        return chunks.run(seen, beside=partial(self.learn_again, env_step))

    def encoded_views(self, learned: Work, obs: Sequence[Tensor], alike: Alike | None, env_step: int) -> list[Any]:
        """What the encoder makes of `learned`, and the latents of views of observations. One tensor has one view."""
        works = {key: self.seen(x, alike) for key, x in {id(x): x for x in obs}.items()}
        first, *latents = self.encoded([learned, *works.values()], env_step)
        made = dict(zip(works, latents, strict=True))
        return [first, *(made[id(x)] for x in obs)]

    def learn_again(self, env_step: int) -> None:
        """`head_updates`: critic and actor learn from the latents of recent batches. The encoder takes no part."""
        config = self.config
        drawn = self.recent.draw(_HEAD_BATCH * config.batch_size, config.head_updates, self.generator)
        for number, again in enumerate(drawn, self.critic_updates - config.head_updates):
            loss = td_loss(self.critic(again.z, again.action), self.target(again, env_step))
            minimise({"critic": loss}, {"critic": 1.0}, ("critic",), self.optimizers)
            self.follow(again.z, env_step, number)

    def draw_look(self, obs: Tensor) -> Look:
        config = self.config
        jitter = linear_schedule(0.0, config.colour_jitter, config.colour_updates, self.updates)
        return draw_look(obs, self.generator, config.shift_pad, jitter)

    def draw_alike(self, batch: Batch) -> Alike | None:
        """`alike_shifts`: drawn once per update, for all of its views."""
        share, obs = self.config.alike_shifts, batch.obs
        return draw_alike(obs, batch.episode, self.generator, share, self.draw_look(obs)) if share else None

    def random_view(self, obs: Tensor, alike: Alike | None = None) -> tuple[Tensor, ...]:
        """Observations, and what is random in how they are learned from: the arguments of `view`."""
        look = self.draw_look(obs)
        return (obs, *(look if alike is None else look_alike(look, alike)))

    def seen(self, obs: Tensor, alike: Alike | None = None, learns: bool = False, makes: Makes = "latents") -> Work:
        """For `encoded`: latents (B, D) of a random view of observations, their feature maps (B, F), or both.

        `encoder.latent` makes latents of these maps, and others once it has learned.
        """
        return self.encoder.work(*self.random_view(obs, alike), see=view, learns=learns, makes=makes)

    def noise(self, env_step: int) -> float:
        """Standard deviation of the exploration noise of agents whose policy is deterministic."""
        schedule = self.setup.noise
        return linear_schedule(schedule.start, schedule.end, schedule.steps, env_step)

    def state_dict(self) -> dict[str, Any]:
        recent = {"recent": self.recent.state_dict()} if self.config.head_updates else {}
        return super().state_dict() | recent

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.recent.load_state_dict(state.get("recent", {}), self.device)

"""TPC (Nguyen, Shu, Pham, Bui and Ermon, ICML 2021): codes that the past predicts, a policy learned in imagination."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cbm.agents.base import Learner, Setup, as_actions, as_batch, seeded
from cbm.agents.tpc.config import TPCConfig
from cbm.agents.tpc.controller import Remembering
from cbm.agents.tpc.losses import centring, consistency, lambda_returns, predictive_coding, unit_gaussian
from cbm.agents.tpc.networks import RSSM, Actor, Belief, FrameEncoder, head
from cbm.errors import CBMError
from cbm.learning.adam import adam, adams
from cbm.learning.augment import RGB
from cbm.learning.ops import linear_schedule, noisy_action, squashed_action, squashed_gaussian, squashed_log_prob
from cbm.learning.optimisation import minimise
from cbm.replay import Replay
from cbm.types import Memory, Metrics, Sequences


class TPC(Learner):
    """The policy has a memory: call `begin_episode` before the first observation of each."""

    acting = ("encoder", "code", "rssm", "actor")

    def __init__(self, config: TPCConfig, setup: Setup, objective: None = None) -> None:
        super().__init__(setup)
        self.config = config
        _, height, width = setup.obs_shape
        codes, memory, hidden = config.feature_dim, config.memory_dim, config.hidden_dim
        with seeded(setup.seed):
            self.encoder = FrameEncoder(
                (RGB, height, width), config.conv_channels, config.conv_layers, config.mixed_precision
            )
            self.code = head(self.encoder.feature_count, memory, codes, layers=1)
            self.rssm = RSSM(codes, memory, setup.action_dim)
            self.reward = head(codes + memory, hidden, 1, layers=2)
            self.actor = Actor(codes + memory, setup.action_dim, hidden, config.first_std)
            self.critic = head(codes + memory, hidden, 1, layers=3)
        self.target_critic = deepcopy(self.critic).requires_grad_(False)
        self.hold(
            encoder=self.encoder,
            code=self.code,
            rssm=self.rssm,
            reward=self.reward,
            actor=self.actor,
            critic=self.critic,
            target_critic=self.target_critic,
        )
        model = [p for name in ("encoder", "code", "rssm", "reward") for p in self.modules[name].parameters()]
        self.optimizers = {
            "model": adam(model, config.lr),
            **adams(config.behaviour_lr, actor=self.actor, critic=self.critic),
        }
        self._repeat = setup.action_repeat if config.mean_reward else 1  # what rewards are divided by
        self.memory: dict[str, Tensor] | None = None  # the belief h, s and the last action; None before an episode

    def begin_episode(self) -> None:
        self.memory = None

    @torch.no_grad()
    def act(self, obs: np.ndarray, env_step: int = 0, explore: bool = False) -> np.ndarray:
        code = self.encode(obs)
        belief, last_action = self._recall(len(code))
        h = self.rssm.remember(belief, last_action)
        noise = torch.randn(code.shape, generator=self.generator, device=self.device) if explore else 0.0
        belief = Belief(h, code + self.rssm.predict(h).std * noise)
        if explore:
            action = squashed_gaussian(self.actor(belief.joined), self.generator)[0]
            action = noisy_action(action, self.config.exploration, self.generator)
        else:
            action = self.actor.mean(belief.joined)
        self.memory = {**belief._asdict(), "action": action}
        return as_actions(action, obs)

    def predict(
        self,
        observation: np.ndarray,
        state: Memory | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, Memory | None]:
        """As `Agent.predict`: the memory comes and goes by the caller, and that of `act` stays as it is."""
        kept, self.memory = self.memory, None
        try:
            if state is not None:
                goes_on = np.float32(1) if episode_start is None else ~np.asarray(episode_start, bool).reshape(-1, 1)
                parts = (torch.as_tensor(part * goes_on, device=self.device) for part in state)
                self.memory = dict(zip(("h", "s", "action"), parts, strict=True))
            action = self.act(observation, explore=not deterministic)
            assert self.memory is not None
            return action, tuple(part.cpu().numpy() for part in self.memory.values())
        finally:
            self.memory = kept

    def _recall(self, batch: int) -> tuple[Belief, Tensor]:
        """The belief so far and the last action; zeros where an episode begins."""
        if self.memory is None:
            return self.rssm.nothing(batch), torch.zeros(batch, self.setup.action_dim, device=self.device)
        h, s, action = self.memory.values()
        if len(h) != batch:
            raise CBMError(
                f"TPC remembers {len(h)} episodes, but {batch} observations came: call begin_episode() first"
            )
        return Belief(h, s), action

    def sample(self, replay: Replay, generator: np.random.Generator) -> Sequences:
        return replay.sample_sequences(self.config.batch_size, self.config.length, generator)

    def update(self, batch: Sequences, env_step: int) -> Metrics:
        batch = batch.to(self.device)
        losses, beliefs, metrics = self.model_losses(batch)
        metrics |= minimise(losses, self.weights, ("model",), self.optimizers, self.config.clip)
        if self.updates % self.config.target_every == 0:
            self.target_critic.load_state_dict(self.critic.state_dict())
        if self.updates >= self.config.model_first:
            metrics |= self._update_behaviour(Belief(*(x[:, : self.config.imagined].detach() for x in beliefs)))
        self.updates += 1
        return metrics

    @property
    def weights(self) -> dict[str, float]:
        """Of the losses of the model, at this update."""
        config = self.config
        start, end = config.consistency_start, config.consistency_weight
        return {
            "temporal": 1.0,
            "static": 1.0,
            "consistency": linear_schedule(start, end, config.model_first, self.updates),
            "reward": config.reward_weight,
            "centring": config.centring_weight,
        }

    def model_losses(self, batch: Sequences) -> tuple[dict[str, Tensor], Belief, Metrics]:
        """The losses of encoder, recurrent model and reward, beliefs (T, B, ...) along the batch, and metrics."""
        config, noise = self.config, self.config.code_noise
        code = self._codes(batch.obs.flatten(0, 1)).unflatten(0, batch.obs.shape[:2]).transpose(0, 1)  # (T, B, S)
        beliefs, prior = self.rssm.observe(code, batch.action.transpose(0, 1), self.generator)
        noisy = code + noise * torch.randn(code.shape, generator=self.generator, device=self.device)
        late = slice(config.warm_up, None)
        temporal, accuracy = predictive_coding(*map(self._against, (noisy[late], prior.mean[late], prior.std[late])))
        static, static_accuracy = predictive_coding(*map(self._against, (noisy, code, torch.full_like(code, noise))))
        losses = {
            "temporal": temporal,
            "static": static,
            "consistency": consistency(code[late], prior.mean[late], prior.std[late]),
            "reward": unit_gaussian(self.reward(beliefs.joined), batch.reward.transpose(0, 1) / self._repeat),
            "centring": centring(code),
        }
        metrics = {
            "tpc/temporal_accuracy": accuracy,
            "tpc/static_accuracy": static_accuracy,
            "tpc/prior_std": prior.std.detach().mean(),
            "z/std": code.detach().flatten(0, 1).std(dim=0).mean(),
        }
        return losses, beliefs, metrics

    def _against(self, x: Tensor) -> Tensor:
        """(T, B, S) as a separate problem for each step, or as one problem."""
        return x if self.config.negatives == "step" else x.flatten(0, 1)

    def _update_behaviour(self, start: Belief) -> Metrics:
        """Actor and value, on trajectories imagined from beliefs (T, B, ...)."""
        config = self.config
        joined, log_pi = self.imagine(Belief(*(x.flatten(0, 1) for x in start)))
        reward, value = self.reward(joined), self.target_critic(joined)
        returns = lambda_returns(reward, value, config.discount, config.return_lambda)  # (horizon - 1, N, 1)
        weight = config.discount ** torch.arange(len(returns), device=self.device)[:, None, None]
        actor_loss = -(weight * returns).mean()
        metrics = minimise({"actor": actor_loss}, {"actor": 1.0}, ("actor",), self.optimizers, config.clip)
        critic_loss = unit_gaussian(self.critic(joined[:-1].detach()), returns.detach(), weight)
        metrics |= minimise({"critic": critic_loss}, {"critic": 1.0}, ("critic",), self.optimizers, config.clip)
        return metrics | {
            "tpc/imagined_reward": reward.detach().mean(),
            "tpc/imagined_return": returns.detach().mean(),
            "actor/entropy": -log_pi.detach().mean(),
        }

    def imagine(self, belief: Belief) -> tuple[Tensor, Tensor]:
        """What follows from beliefs (N, ...) under the actor, as joined beliefs (horizon, N, S + H), and its log pi.

        Gradients reach the actor through the actions and the model, not through what the actor sees.
        """
        shape = (self.config.horizon, len(belief.h), self.setup.action_dim)
        noise = torch.randn(shape, generator=self.generator, device=self.device)
        joined, gaussians = [belief.joined], []
        for noise_t in noise:
            gaussian = self.actor(joined[-1].detach())
            belief = self.rssm.imagine(belief, squashed_action(gaussian, noise_t), self.generator)
            joined.append(belief.joined)
            gaussians.append(gaussian)
        with torch.no_grad():
            mean, log_std = (torch.stack(parts) for parts in zip(*gaussians, strict=True))
            log_pi = squashed_log_prob((mean, log_std), noise)
        return torch.stack(joined[1:]), log_pi

    def _codes(self, obs: Tensor) -> Tensor:
        codes: Tensor = self.code(self.encoder(obs[:, -RGB:]))
        return codes

    @torch.no_grad()
    def encode(self, obs: np.ndarray | Tensor) -> Tensor:
        """Codes (N, S) of the newest frames of observations (N, C, H, W): the memory plays no part."""
        return self._codes(as_batch(obs, self.device))

    @torch.no_grad()
    def value(self, obs: np.ndarray | Tensor) -> Tensor:
        """The value (N, 1), in rewards as the environment gives them, if an episode began with these observations."""
        code = self.encode(obs)
        nothing, no_action = self.rssm.nothing(len(code)), code.new_zeros(len(code), self.setup.action_dim)
        belief = Belief(self.rssm.remember(nothing, no_action), code)
        value: Tensor = self._repeat * self.critic(belief.joined)
        return value

    def controller(self) -> Remembering:
        return Remembering(self.encoder, self.code, self.rssm, self.actor, self.setup.action_dim)

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"memory": None if self.memory is None else dict(self.memory)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        memory = state["memory"]
        self.memory = None if memory is None else {name: memory[name].to(self.device) for name in ("h", "s", "action")}

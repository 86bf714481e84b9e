"""CBM on somebody else's agent: Stable-Baselines3's SAC with a CNN policy.

    pip install "cbm-rl[train]" stable-baselines3
    python docs/examples/sb3_sac_cbm.py --steps 2000

SAC keeps its own update. Two things change. The feature extractor is one that actor and critic share and that no SAC
gradient reaches (the paper's appendix: "we block the gradients of the agent's RL loss"). And before each SAC update the
extractor learns from CBM's two losses, on a separate batch from the same replay buffer.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box
from stable_baselines3 import SAC
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor

from cbm import CBM, CBMConfig
from cbm.learning.nets import Encoder


class BlockedEncoder(BaseFeaturesExtractor):
    """The paper's encoder as an SB3 feature extractor. SAC sees the latent without its graph."""

    def __init__(self, observation_space: Box, features_dim: int = 50, strides: tuple[int, ...] = (2, 1, 1, 1)) -> None:
        super().__init__(observation_space, features_dim)
        self.encoder = Encoder(observation_space.shape, features_dim, strides=strides)

    def forward(self, observations: Tensor) -> Tensor:
        with torch.no_grad():
            return self.encoder(observations)


class CBMSAC(SAC):
    """SAC whose shared encoder is trained by CBM."""

    def __init__(
        self, env: gym.Env, cbm_config: CBMConfig | None = None, reward_scale: float = 1.0, **options: Any
    ) -> None:
        policy_kwargs = {
            "features_extractor_class": BlockedEncoder,
            "share_features_extractor": True,
            "normalize_images": False,  # the encoder takes bytes
        } | options.pop("policy_kwargs", {})
        super().__init__("CnnPolicy", env, policy_kwargs=policy_kwargs, **options)
        self.blocked: BlockedEncoder = self.actor.features_extractor
        self.cbm = CBM(
            cbm_config,
            latent_dim=self.blocked.features_dim,
            action_dim=env.action_space.shape[0],
            reward_scale=reward_scale,
        ).to(self.device)
        own = [*self.blocked.encoder.parameters(), *self.cbm.parameters()]
        self.cbm_optimizer = torch.optim.Adam(own, lr=5e-4)
        # SB3 lists a shared extractor with the actor; here it belongs to CBM alone.
        heads = [*self.actor.latent_pi.parameters(), *self.actor.mu.parameters(), *self.actor.log_std.parameters()]
        self.actor.optimizer = torch.optim.Adam(heads, lr=self.lr_schedule(1))

    def train(self, gradient_steps: int, batch_size: int = 64) -> None:
        for _ in range(gradient_steps):
            for name, value in self.train_encoder(batch_size).items():
                self.logger.record(name, value.item())
            super().train(gradient_steps=1, batch_size=batch_size)

    def train_encoder(self, batch_size: int) -> dict[str, Tensor]:
        """One step on L_P + L_CBM; the losses and CBM's metrics."""
        batch = self.replay_buffer.sample(batch_size)
        z = self.blocked.encoder(batch.observations)
        z_next = self.blocked(batch.next_observations)
        losses, metrics = self.cbm.losses(z, batch.actions, batch.rewards, z_next, self.mean_action)
        self.cbm_optimizer.zero_grad()
        torch.stack([self.cbm.weights[name] * loss for name, loss in losses.items()]).sum().backward()
        self.cbm_optimizer.step()
        return metrics | {f"loss/{name}": loss.detach() for name, loss in losses.items()}

    def mean_action(self, z: Tensor) -> Tensor:
        """pi(z): SB3's actor without its feature extractor."""
        return torch.tanh(self.actor.mu(self.actor.latent_pi(z)))


class MovingDot(gym.Env):
    """A pixel task small enough for an example: hold a dot near the middle of a noisy picture."""

    def __init__(self, size: int = 48, length: int = 50) -> None:
        self.size, self.length = size, length
        self.observation_space = Box(0, 255, (9, size, size), np.uint8)
        self.action_space = Box(-1.0, 1.0, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.position, self.steps = self.np_random.uniform(-1, 1), 0
        self.background = self.np_random.integers(0, 128, (3, self.size, self.size), dtype=np.uint8)
        self.frames = [self._frame()] * 3
        return np.concatenate(self.frames), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.position = float(np.clip(self.position + 0.2 * action[0], -1, 1))
        self.steps += 1
        self.frames = [*self.frames[1:], self._frame()]
        return np.concatenate(self.frames), 1.0 - abs(self.position), False, self.steps >= self.length, {}

    def _frame(self) -> np.ndarray:
        frame = self.background.copy()
        column = round((self.position + 1) / 2 * (self.size - 6))
        frame[:, self.size // 2 : self.size // 2 + 6, column : column + 6] = 255
        return frame


def make_model(env: gym.Env, prototypes: int = 128, seed: int = 0, **options: Any) -> CBMSAC:
    settings = {"buffer_size": 10_000, "learning_starts": 200, "batch_size": 64, "ent_coef": 0.1} | options
    policy_kwargs = {"features_extractor_kwargs": {"strides": (2, 2, 1, 1)}}
    return CBMSAC(env, CBMConfig(prototypes=prototypes), policy_kwargs=policy_kwargs, seed=seed, **settings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2_000)
    arguments = parser.parse_args()
    make_model(MovingDot(), verbose=1).learn(arguments.steps, log_interval=5)


if __name__ == "__main__":
    main()

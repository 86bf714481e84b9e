"""The plain reference of `cbm bench update`: the same arithmetic, done as in published implementations.

Eager mode, NCHW layout, shifts by grid sampling of padded floats, one encoder pass that keeps the graph of all images
(though only the current ones receive a gradient), Adam without fusion. Losses, heads and sizes are ours.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam

from cbm.agents.drq import DrQ
from cbm.agents.drqv2 import DrQv2
from cbm.learning.ops import soft_update
from cbm.learning.optimisation import td_loss
from cbm.learning.recent import Latents
from cbm.types import Batch, Context


class PlainUpdate:
    """The reference. It takes networks, losses and targets from one of our agents, but encodes and steps by itself."""

    def __init__(self, agent: DrQ | DrQv2) -> None:
        assert agent.objective is not None
        self.agent, self.objective = agent, agent.objective
        self.copies = agent.config.shifts if isinstance(agent, DrQ) else 1
        self.convs = nn.Sequential(
            nn.Conv2d(9, 32, 3, 2), nn.ReLU(),
            nn.Conv2d(32, 32, 3, 1), nn.ReLU(),
            nn.Conv2d(32, 32, 3, 1), nn.ReLU(),
            nn.Conv2d(32, 32, 3, 1), nn.ReLU(),
        )  # fmt: skip
        self.projection = nn.Sequential(nn.Linear(39_200, 50), nn.LayerNorm(50), nn.Tanh())
        learned = [self.convs, self.projection, self.objective, agent.critic]
        self.optimizer = Adam([p for module in learned for p in module.parameters()], lr=5e-4)
        self.actor_optimizer = Adam(agent.actor.parameters(), lr=5e-4)

    def update(self, batch: Batch, step: int) -> None:
        agent, size = self.agent, len(batch.obs)
        if isinstance(agent, DrQ):
            images = [batch.obs] * self.copies + [batch.next_obs] * self.copies
        else:
            images = [batch.obs, batch.next_obs, batch.boot_obs]
        z = self.encode(grid_shift(torch.cat(images).float()))
        z_first = z[:size]
        z_now, z_next = z[: self.copies * size].detach(), z[self.copies * size :].detach()
        assert batch.later_obs is batch.next_obs, "only the preset `paper`, whose L_P looks one step ahead"
        transitions = z_first, batch.action, batch.reward, z_next[:size]
        losses, _ = self.objective.losses(*transitions, agent.actor.mean, Context(batch.episode))
        if isinstance(agent, DrQ):
            target = agent.mean_target(batch, z_next).repeat(self.copies, 1)
        else:
            rewards = batch.n_step_reward, batch.n_step_discount
            target = agent.target(Latents(z_now, batch.action, *rewards, z_next[size:]), step)
        losses["critic"] = td_loss(agent.critic(z_now, batch.action.repeat(self.copies, 1)), target)
        self.optimizer.zero_grad()
        torch.stack([agent.weights[name] * loss for name, loss in losses.items()]).sum().backward()
        self.optimizer.step()
        if agent.updates % agent.config.actor_every == 0:
            self.update_actor(z_first.detach(), step)
        if agent.updates % agent.config.target_every == 0:
            soft_update(agent.target_critic.parameters(), agent.critic.parameters(), agent.config.target_rate)
        agent.updates += 1

    def encode(self, x: Tensor) -> Tensor:
        return self.projection(self.convs(x / 255.0 - 0.5).flatten(1))

    def update_actor(self, z: Tensor, step: int) -> None:
        agent = self.agent
        self.actor_optimizer.zero_grad()
        loss = agent.actor_loss(z)[0] if isinstance(agent, DrQ) else agent.actor_loss(z, step)
        loss.backward()
        self.actor_optimizer.step()


def grid_shift(x: Tensor, pad: int = 4) -> Tensor:
    """Random shifts as in DrQ-v2: pad by replication, then sample a shifted grid of pixel centres."""
    batch, _, height, width = x.shape
    padded = F.pad(x, (pad,) * 4, "replicate")
    rows, columns = (torch.arange(n, dtype=x.dtype) for n in (height, width))
    shift = torch.randint(0, 2 * pad + 1, (2, batch, 1, 1)).to(x.dtype)
    y = (2 * (rows[:, None] + shift[0]) + 1) / (height + 2 * pad) - 1  # (B, H, 1), in [-1, 1] over the padded image
    x_ = (2 * (columns[None, :] + shift[1]) + 1) / (width + 2 * pad) - 1
    grid = torch.stack(torch.broadcast_tensors(x_, y), dim=-1)
    return F.grid_sample(padded, grid, padding_mode="zeros", align_corners=False)

"""What agents are put together from: shared settings, one step of learning, what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam

from cbm.augment import draw_shifts, shift
from cbm.chunks import Work
from cbm.errors import CBMError
from cbm.nets import Encoder, Makes
from cbm.ranges import Count, CountOrZero, Length, Positive, Range, Share, Width
from cbm.settings import Checked
from cbm.tasks import Noise
from cbm.types import Losses, Metrics, Objective, send


@dataclass(frozen=True)
class Setup:
    """What a run knows and a config does not."""

    obs_shape: tuple[int, int, int]  # (3 * stack, H, W)
    action_dim: int
    action_repeat: int = 1  # rewards come summed over it; objectives see them divided by it
    noise: Noise = field(default_factory=lambda: Noise(1.0, 0.1, 100_000))  # DrQ-v2's exploration, from tasks.py
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    seed: int = 0


@dataclass(frozen=True)
class AgentConfig(Checked):
    """What every agent has. "Table" is the paper's "CBM list of hyperparameters"."""

    batch_size: Annotated[int, Range(2, 65_536)] = 128
    """Table."""
    discount: Share = 0.99
    """Per agent step (Table)."""
    lr: Positive = 5e-4
    """Adam, for everything (Table)."""
    feature_dim: Width = 50
    """Length of a latent (Table)."""
    conv_channels: Annotated[int, Range(1, 1_024)] = 32
    """Table."""
    conv_strides: Annotated[tuple[Annotated[int, Range(1, 16)], ...], Length(1, 16)] = (2, 1, 1, 1)
    """One 3x3 layer each (Table)."""
    hidden_dim: Width = 1024
    """Of the three-layer actor and critic heads (Table)."""
    shift_pad: Annotated[int, Range(0, 64)] = 4
    """Largest random shift in pixels (Table, "Random cropping padding")."""
    actor_every: Count = 2
    """Updates between updates of the actor (Table)."""
    target_every: Count = 2
    """Updates between updates of the target critic (Table)."""
    target_rate: Annotated[float, Range(0, 1, above=True)] = 0.01
    """How far the target critic moves each time (Table, "Critic soft-update rate")."""
    updates_per_step: Annotated[float, Range(0, 1_000)] = 1.0
    """Updates per agent step. The paper does not say; DrQ makes one."""
    batch_episodes: CountOrZero = 0
    """Batches from at most so many episodes, drawn anew for each; 0: from all. What tells episodes apart, such as the
    background, then tells few of a batch apart, and a contrastive loss has to look at the rest."""
    mixed_precision: bool = False
    """Convolutions in bfloat16: faster on processors that have it, as `cbm doctor` tells. Untested on CUDA."""

    def laptop(self) -> Self:
        """For two cores: smaller networks and batches, and a higher rate for a fifth of the steps."""
        return replace(self, conv_strides=(2, 2, 1, 1), batch_size=64, hidden_dim=256, lr=1e-3)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Weights made inside depend on `seed` alone, and the global random state stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def make_encoder(config: AgentConfig, setup: Setup, kind: type[Encoder] = Encoder, **options: Any) -> Encoder:
    """An encoder of these sizes; `options` are those that `kind` has besides."""
    sizes = config.feature_dim, config.conv_channels, config.conv_strides
    return kind(setup.obs_shape, *sizes, config.mixed_precision, **options)


def shifted(
    encoder: Encoder, obs: Tensor, pad: int, generator: torch.Generator, learns: bool = False, makes: Makes = "latents"
) -> Work:
    """For `chunks.run`: latents (B, D) of randomly shifted observations, their features (B, F), or both.

    `encoder.latent` makes latents of features, and others once it has learned.
    """
    return encoder.work(obs, draw_shifts(obs, generator, pad), see=shift, learns=learns, makes=makes)


def adam(parameters: Iterable[nn.Parameter], lr: float, beta1: float = 0.9) -> Adam:
    return Adam(list(parameters), lr=lr, betas=(beta1, 0.999), fused=True)


def critic_blocked(objective: Objective | None) -> bool:
    """Whether the critic's gradient stops before the latent: with an objective, unless that says otherwise.

    The appendix blocks the gradients of L_RL "from updating the encoder, prototypes, and the latent model". Methods
    whose authors let the critic train the encoder too have `blocks_critic = False`.
    """
    return objective is not None and objective.blocks_critic


def encoder_optimizer(encoder: nn.Module, objective: nn.Module | None, lr: float) -> Adam:
    """Of the encoder and of what the objective learns."""
    own = [] if objective is None else [p for p in objective.parameters() if p.requires_grad]
    return adam([*encoder.parameters(), *own], lr)


def td_loss(q: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    """Mean squared temporal-difference error, summed over the two critics."""
    return F.mse_loss(q[0], target) + F.mse_loss(q[1], target)


def minimise(
    losses: Losses,
    weights: Mapping[str, float],
    names: Sequence[str],
    optimizers: Mapping[str, Adam],
    clip: float | None = None,
) -> Metrics:
    """One backward pass of sum_i w_i L_i, then one step of each of the optimizers `names`. The losses, as metrics.

    `clip` is the largest norm that the gradient of all their parameters together may have.
    """
    if losses.keys() != weights.keys():
        raise CBMError(f"losses {sorted(losses)} and weights {sorted(weights)} differ")
    chosen = [optimizers[name] for name in names]
    parameters = [p for optimizer in chosen for group in optimizer.param_groups for p in group["params"]]
    for optimizer in chosen:
        optimizer.zero_grad(set_to_none=True)
    total = torch.stack([weights[name] * loss for name, loss in losses.items()]).sum()
    total.backward(inputs=parameters)
    if clip is not None:
        nn.utils.clip_grad_norm_(parameters, clip)
    for optimizer in chosen:
        optimizer.step()
    return {f"loss/{name}": loss.detach() for name, loss in losses.items()}


def pack(
    modules: Mapping[str, nn.Module], optimizers: Mapping[str, Adam], generator: torch.Generator, updates: int
) -> dict[str, Any]:
    """A nested dict of tensors and numbers from which `unpack` restores an agent bit for bit."""
    return {
        "modules": {name: dict(module.state_dict()) for name, module in modules.items()},
        "optimizers": {
            name: {str(i): dict(slots) for i, slots in optimizer.state_dict()["state"].items()}
            for name, optimizer in optimizers.items()
        },
        "generator": generator.get_state(),
        "updates": updates,
    }


def unpack(
    state: Mapping[str, Any],
    modules: Mapping[str, nn.Module],
    optimizers: Mapping[str, Adam],
    generator: torch.Generator,
) -> int:
    """Put a state of `pack` back; returns the number of updates."""
    for name, module in modules.items():
        module.load_state_dict(state["modules"][name])
    for name, optimizer in optimizers.items():
        slots = {int(i): values for i, values in state["optimizers"].get(name, {}).items()}
        optimizer.load_state_dict({"state": slots, "param_groups": optimizer.state_dict()["param_groups"]})
    generator.set_state(state["generator"].cpu())
    return int(state["updates"])


def as_batch(obs: np.ndarray | Tensor, device: torch.device) -> Tensor:
    """One observation (C, H, W), or several (N, C, H, W), as several on `device`."""
    tensor = send(torch.as_tensor(obs), device)
    if tensor.dtype != torch.uint8 or tensor.ndim not in (3, 4):
        raise CBMError(
            f"an observation is a uint8 array (channels, height, width), or several of them; this is {tensor.dtype} "
            f"of shape {tuple(tensor.shape)}."
        )
    return tensor if tensor.ndim == 4 else tensor[None]

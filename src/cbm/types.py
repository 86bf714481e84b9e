"""The contracts between the parts: a batch, an agent, an objective. Everything else is plain functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from cbm.agents.controller import Controller
    from cbm.learning.nets import DeterministicActor, GaussianActor
    from cbm.replay import Replay

Metrics = dict[str, Tensor]  # detached scalars; `.item()` is the logger's business
Losses = dict[str, Tensor]  # scalars with a graph, by name
Policy = Callable[[Tensor], Tensor]  # latent (B, D) -> action (B, A) in [-1, 1]
Memory = tuple[np.ndarray, ...]  # what an agent remembers between two calls of `predict`

_TRAINED = 10**12  # an environment step beyond the end of every exploration schedule


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on `device`. It goes to a GPU through pinned memory, so that nothing waits for the copy."""
    if tensor.device.type != "cpu" or device.type != "cuda":
        return tensor.to(device)
    if torch.cuda.is_available() and not tensor.is_pinned():
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


@dataclass(frozen=True)
class Sample:
    """What an agent learns from at once."""

    obs: Tensor

    def to(self, device: torch.device) -> Self:
        """The same on `device`; itself if it is there already. Views of the same frames are sent once, and what was one
        tensor is one there."""
        there: dict[int, Tensor] = {}

        def sent(tensor: Tensor) -> Tensor:
            base = tensor if tensor._base is None else tensor._base
            if id(base) not in there:
                there[id(base)] = send(base, device)
            if id(tensor) not in there:
                whole, place = there[id(base)], (tensor.shape, tensor.stride(), tensor.storage_offset())
                there[id(tensor)] = whole.as_strided(*place)
            return there[id(tensor)]

        if self.obs.device == device:
            return self
        return type(self)(**{field.name: sent(getattr(self, field.name)) for field in fields(self)})


@dataclass(frozen=True)
class Batch(Sample):
    """B transitions from replay. Observations are uint8 (B, C, H, W); every scalar is (B, 1) float32.

    `next_obs` is one agent step after `obs`; `boot_obs` is n steps after it and `later_obs` m steps, or where the
    episode ended. With equal numbers of steps they are the same tensor.
    """

    obs: Tensor
    action: Tensor  # a_t, (B, A)
    reward: Tensor  # r_t, summed over the action repeat
    next_obs: Tensor
    n_step_reward: Tensor  # r_t + gamma r_{t+1} + ... over the n steps
    n_step_discount: Tensor  # gamma^n, or 0 where the episode terminated within them (a time limit does not)
    boot_obs: Tensor
    episode: Tensor  # (B,): which transitions are from the same episode
    later_obs: Tensor
    actions: Tensor  # a_t ... a_{t+m-1}, (B, m, A); zeros after the end of the episode
    steps: Tensor  # (B,), from `obs` to `later_obs`: m, or fewer where the episode ended


class Later(NamedTuple):
    """What B transitions lead to in several steps."""

    z: Tensor  # (B, D), of `later_obs`; without gradient
    actions: Tensor  # that led there, (B, m, A)
    steps: Tensor  # how many of them, (B,)


class Context(NamedTuple):
    """What an objective may know of B transitions beyond what they are."""

    episode: Tensor | None = None  # (B,): the same number for those of the same episode
    later: Later | None = None


ALONE = Context()


@dataclass(frozen=True)
class Sequences(Sample):
    """B stretches of T steps, each within one episode, for agents with a memory.

    Action and reward of a step are those that *led to* its frame: zeros where an episode begins.
    """

    obs: Tensor  # single frames, uint8 (B, T, 3, H, W)
    action: Tensor  # (B, T, A)
    reward: Tensor  # (B, T, 1), summed over the action repeat


@dataclass(frozen=True)
class PrototypeSpace:
    """Prototypes (K, D) among the latents that an agent's `encode` returns."""

    points: Tensor
    log_p: Callable[[Tensor], Tensor]  # latents (N, D) -> log of the predicted assignment, (N, K)
    centred: bool = False  # whether latents and prototypes are compared by their deviations from the mean latent

    def similarity(self, z: Tensor) -> Tensor:
        """Cosine of each latent with each prototype, (N, K): what "nearest" means."""
        mean = z.mean(dim=0) if self.centred else torch.zeros(())
        return F.normalize(z - mean, dim=1) @ F.normalize(self.points - mean, dim=1).T


class Objective(nn.Module):
    """Losses that own the encoder: in an agent that has an objective, the critic's gradient stops at the latent.

    Methods whose authors let the critic train the encoder too set `blocks_critic = False`. Everything that must
    survive a crash belongs in `state_dict`, including a random state (through `get_extra_state`).
    """

    weights: Mapping[str, float]  # the same keys as the losses
    blocks_critic: bool = True
    steps_ahead: int = 1  # how far `context.later` is to be

    def losses(
        self, z: Tensor, action: Tensor, reward: Tensor, z_next: Tensor, policy: Policy, context: Context = ALONE
    ) -> tuple[Losses, Metrics]:
        """For z (B, D), actions (B, A), one-step rewards (B, 1) and z_next (B, D), which carries no gradient."""
        raise NotImplementedError

    def prototype_space(self, policy: Policy) -> PrototypeSpace | None:
        """The prototypes, for analyses and figures; None for an objective that has none."""
        return None


class Acts(Protocol):
    """What it takes to play an episode."""

    def act(self, obs: np.ndarray, env_step: int = 0, explore: bool = False) -> np.ndarray:
        """The action (A,) in [-1, 1] for a uint8 observation (C, H, W), or (N, A) for (N, C, H, W).

        To play, the observation is enough. Training explores, and exploration schedules depend on `env_step`.
        """
        ...


class Agent(Acts, Protocol):
    """What the training loop, evaluation and users rely on. A class that derives from it inherits a `predict` that
    suits agents without a memory."""

    def begin_episode(self) -> None:
        """The next observation is the first of an episode. An agent whose actions depend on all observations since the
        episode began forgets them; others do nothing. The memory is part of `state_dict`."""
        return None  # not abstract

    def predict(
        self,
        observation: np.ndarray,
        state: Memory | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = True,
    ) -> tuple[np.ndarray, Memory | None]:
        """The action and the memory. Called as in Stable-Baselines3, so its `evaluate_policy` works too.

        Unlike there, the default is to play without exploration. `deterministic=False` explores as at the end of
        training. With an agent that has a memory (`tpc`), pass the memory it returned as `state` with the next
        observation; it starts afresh without one, or where `episode_start` is true. Other agents return None.
        """
        return self.act(observation, _TRAINED, explore=not deterministic), None

    def sample(self, replay: Replay, generator: np.random.Generator) -> Any:
        """What `update` needs from replay: a `Batch`, `Sequences`, or whatever an agent of another package needs."""
        ...

    def update(self, batch: Any, env_step: int) -> Metrics:
        """One gradient step on everything the agent learns."""
        ...

    def encode(self, obs: np.ndarray | Tensor) -> Tensor:
        """Latents (N, D) of observations (N, C, H, W), for analysis."""
        ...

    def value(self, obs: np.ndarray | Tensor) -> Tensor:
        """The agent's estimate of the return from observations (N, C, H, W): (N, 1)."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Everything that must survive a crash: parameters, optimizers, buffers, counters, random state."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@runtime_checkable
class Deployable(Protocol):
    """An agent that can be exported."""

    def controller(self) -> Controller:
        """The networks that act, as one module."""
        ...


@runtime_checkable
class Carries(Protocol):
    """An agent that may carry an objective, for analyses."""

    objective: Objective | None
    actor: DeterministicActor | GaussianActor


@runtime_checkable
class ActsApart(Protocol):
    """An agent whose copy can act while it learns: what `training.overlap` needs.

    `acting` names the attributes that `act` reads and `update` changes; all of them are modules. All random numbers of
    `act` come from `generator`. An agent with a memory keeps it in the attribute `memory`, which `act` replaces instead
    of changing it in place.
    """

    acting: Sequence[str]
    generator: torch.Generator


def begin_episode(agent: Acts) -> None:
    """Tell `agent` that an episode begins, if it wants to know."""
    if hasattr(agent, "begin_episode"):
        agent.begin_episode()

"""The settings of TPC."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self

from cbm.errors import CBMError
from cbm.schema.methods import AgentConfig
from cbm.schema.ranges import Count, CountOrZero, Positive, Range, Share, Weight, Width


@dataclass(frozen=True)
class TPCConfig(AgentConfig):
    """Defaults follow TPC's authors."""

    prefill: ClassVar[int] = 5_000  # training.seed_steps, unless a run says otherwise (TPC)

    batch_size: Annotated[int, Range(2, 65_536)] = 250
    """Sequences in a batch (TPC)."""
    length: Annotated[int, Range(2, 10_000)] = 50
    """Steps in a sequence (TPC)."""
    updates_per_env_step: Annotated[float, Range(0, 1_000)] = 0.1
    """Updates per *environment* step: TPC makes 100 every 1000."""
    discount: Share = 0.99
    """Per agent step (TPC)."""
    lr: Positive = 6e-4
    """Learning rate of the model: encoder, recurrent model, reward (TPC)."""
    behaviour_lr: Positive = 8e-5
    """Learning rate of actor and value (TPC)."""
    clip: Positive = 100.0
    """Largest norm of a gradient (TPC)."""
    feature_dim: Width = 30
    """Length of a code, which is the stochastic part of the belief (TPC)."""
    memory_dim: Width = 200
    """Length of the deterministic part, and of the layers around it (TPC)."""
    hidden_dim: Width = 400
    """Width of the layers of reward (2), value (3) and actor (4) (TPC)."""
    conv_channels: Annotated[int, Range(1, 1_024)] = 32
    """Channels of the first convolution; each further one has twice as many (TPC)."""
    conv_layers: Annotated[int, Range(1, 8)] = 4
    """Number of 4x4 convolutions of stride 2 (TPC)."""
    code_noise: Weight = 0.2
    """Standard deviation of the noise on codes in the contrastive losses (TPC)."""
    negatives: Literal["step", "all"] = "step"
    """What a code is compared with: the other sequences at its step (TPC), or all steps of all sequences."""
    warm_up: Annotated[int, Range(0, 10_000)] = 5
    """Steps of a sequence before the prior must predict (TPC)."""
    consistency_weight: Weight = 0.1
    """Weight of the prior's log-likelihood (TPC)."""
    consistency_start: Weight = 0.05
    """Its weight at the first update (TPC)."""
    reward_weight: Weight = 1.0
    """Weight of the reward's log-likelihood (TPC)."""
    centring_weight: Weight = 0.01
    """Weight of the squared mean code (TPC)."""
    mean_reward: bool = False
    """Whether rewards are divided by the action repeat, so that they lie in [0, 1]; TPC sums them over it."""
    model_first: CountOrZero = 2_000
    """Updates of the model alone, in one go after the random steps; the weight of consistency rises during them
    (TPC)."""
    imagined: Count = 50
    """Sequences of a batch whose steps imagination starts from (TPC)."""
    horizon: Annotated[int, Range(2, 1_000)] = 15
    """Imagined steps (TPC)."""
    return_lambda: Share = 0.95
    """lambda of the returns (TPC)."""
    target_every: Count = 100
    """Updates between copies of the value network to its target (TPC)."""
    first_std: Positive = 5.0
    """Initial standard deviation of the actor, before its tanh (Dreamer, which TPC builds on)."""
    exploration: Weight = 0.3
    """Standard deviation of the noise added to actions in training, on top of the actor's own (TPC)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length <= self.warm_up:
            raise CBMError(f"agent.length ({self.length}) must be larger than agent.warm_up ({self.warm_up})")

    @property
    def first_updates(self) -> int:
        return self.model_first

    def updates_per_agent_step(self, action_repeat: int) -> float:
        return self.updates_per_env_step * action_repeat

    def laptop(self) -> Self:
        """For two cores: a fiftieth of the frames per update, smaller networks, and a policy that learns from that.

        Each code is compared with all steps of all sequences, since there are few; rewards weigh as much in the model
        as where they are summed over 8 steps, without making values large; returns look ahead over less time; and
        the actor begins where its tanh is not flat. See docs/methods/tpc.md for what each was measured to do.
        """
        return replace(
            self,
            batch_size=12,
            length=20,
            negatives="all",
            conv_channels=16,
            memory_dim=100,
            hidden_dim=100,
            updates_per_env_step=0.03,
            model_first=300,
            imagined=12,
            mean_reward=True,
            reward_weight=64.0,
            horizon=8,
            discount=0.97,
            first_std=1.0,
            behaviour_lr=1.5e-4,
        )

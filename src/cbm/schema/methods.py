"""What a run reads of the settings of an agent and of an objective, whichever they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from cbm.schema.ranges import Positive, Range, Share, Width
from cbm.schema.tree import Checked

LAPTOP_PACE = 16  # environment steps per update of an actor and critic, in the preset `laptop`


@dataclass(frozen=True)
class AgentConfig(Checked):
    """What every agent has. "Table" is the paper's "CBM list of hyperparameters"."""

    prefill: ClassVar[int | None] = None  # `training.seed_steps`, unless a run says otherwise

    batch_size: Annotated[int, Range(2, 65_536)] = 128
    """Table."""
    discount: Share = 0.99
    """Per agent step (Table)."""
    lr: Positive = 5e-4
    """Learning rate of Adam, for everything (Table)."""
    feature_dim: Width = 50
    """Length of a latent (Table, "Encoder feature dim")."""
    mixed_precision: bool = False
    """Run convolutions in bfloat16: faster on processors that support it (see `cbm doctor`). Untested on CUDA."""

    def laptop(self) -> Self:
        """The same method at a size for two cores."""
        return self

    def updates_per_agent_step(self, action_repeat: int) -> float:
        """How many updates follow an agent step, which is `action_repeat` environment steps."""
        return 1.0

    @property
    def first_updates(self) -> int:
        """How many come in one go after the random steps; 0: as at every other step."""
        return 0


@dataclass(frozen=True)
class ObjectiveConfig(Checked):
    """What every objective has: the preset `laptop`."""

    laptop_agent: ClassVar[Mapping[str, Any]] = {}  # settings there of an actor and critic that carry it
    laptop_pace: ClassVar[int] = LAPTOP_PACE

    def laptop(self) -> Self:
        """The same objective with batches for two cores."""
        return self

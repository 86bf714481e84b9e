"""One step of learning: the critic's loss, and a step down a weighted sum of losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import Adam

from cbm.errors import CBMError
from cbm.types import Losses, Metrics, Objective


def critic_blocked(objective: Objective | None) -> bool:
    """Whether the critic's gradient stops before the latent: with an objective, unless that says otherwise.

    The appendix blocks the gradients of L_RL "from updating the encoder, prototypes, and the latent model". Methods
    whose authors let the critic train the encoder too have `blocks_critic = False`.
    """
    return objective is not None and objective.blocks_critic


def td_loss(q: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    """Mean squared temporal-difference error, summed over the two critics."""
    return F.mse_loss(q[0], target) + F.mse_loss(q[1], target)


def critic_metrics(q: Tensor, target: Tensor, z: Tensor) -> Metrics:
    """What agents with a critic on latents z (B, D) have in common to report."""
    return {"critic/q": q.detach().mean(), "critic/target": target.mean(), "z/std": z.detach().std(dim=0).mean()}


def loss_weights(objective: Objective | None) -> dict[str, float]:
    """Of the losses in the step that encoder and critic take: 1 for the critic's, and those of the objective."""
    return {"critic": 1.0} | ({} if objective is None else dict(objective.weights))


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

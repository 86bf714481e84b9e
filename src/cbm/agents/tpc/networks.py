"""Networks of TPC: the encoder of a frame, a recurrent state-space model whose posterior is the code of an image, and
heads on its belief."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbm.errors import CBMError
from cbm.learning import chunks
from cbm.learning.linear import Linear
from cbm.learning.nets import initialise
from cbm.learning.ops import channels_last

MIN_STD = 1e-4  # keeps logarithms finite
_KERNEL, _STRIDE = 4, 2  # of the encoder


class FrameEncoder(nn.Module):
    """uint8 frames (B, 3, H, W) -> feature maps (B, F), in channels-last layout.

    As in Dreamer, each of the 4x4 convolutions of stride 2 with ReLU halves the image and doubles the channels.
    """

    def __init__(self, shape: Sequence[int], channels: int, layers: int, mixed_precision: bool = False) -> None:
        super().__init__()
        inputs, *sides = shape
        convs = []
        for layer in range(layers):
            sides = [(side - _KERNEL) // _STRIDE + 1 for side in sides]
            convs.append(nn.Conv2d(inputs, channels * 2**layer, _KERNEL, _STRIDE))
            inputs = channels * 2**layer
        if min(sides) < 1:
            raise CBMError(
                f"frames of {shape[1]}x{shape[2]} are too small for {layers} convolutions that halve them: take larger "
                "ones (--env.size) or fewer of these (--agent.conv_layers)"
            )
        self.convs = nn.ModuleList(convs).apply(initialise)
        self.feature_count = inputs * sides[0] * sides[1]
        self.mixed_precision = mixed_precision

    def forward(self, obs: Tensor) -> Tensor:
        maps: Tensor = chunks.run([chunks.Work(self._convolve, (obs,), tuple(self.parameters()))])[0]
        return maps

    def _convolve(self, obs: Tensor) -> Tensor:
        x = channels_last(obs).float() / 255.0 - 0.5
        with torch.autocast(obs.device.type, torch.bfloat16, enabled=self.mixed_precision, cache_enabled=False):
            for conv in self.convs:
                x = F.relu_(conv(x))
        return x.float().permute(0, 2, 3, 1).flatten(1)


class Belief(NamedTuple):
    """What the agent knows: h, which remembers, and s, which is drawn at every step."""

    h: Tensor  # (B, H)
    s: Tensor  # (B, S)

    @property
    def joined(self) -> Tensor:
        """s and h side by side, (B, S + H): what reward, actor and value see."""
        return torch.cat([self.s, self.h], dim=-1)


class Prior(NamedTuple):
    """The Gaussian that h_t predicts for the code of the image at t."""

    mean: Tensor
    std: Tensor


class RSSM(nn.Module):
    """h_t = GRU(h_{t-1}, s_{t-1}, a_{t-1}); prior p(s_t | h_t) = N(mean, std^2).

    There is no network for the posterior: where an image is there, s_t is its code, which depends on that image alone,
    with noise of the prior's width.
    """

    def __init__(self, stochastic: int, deterministic: int, action_dim: int) -> None:
        super().__init__()
        self.stochastic, self.deterministic = stochastic, deterministic
        self.inputs = nn.Linear(stochastic + action_dim, deterministic)
        self.cell = nn.GRUCell(deterministic, deterministic)
        self.hidden = nn.Linear(deterministic, deterministic)
        self.moments = nn.Linear(deterministic, 2 * stochastic)
        self.apply(initialise)
        nn.init.xavier_uniform_(self.cell.weight_ih)
        for gate in self.cell.weight_hh.chunk(3):
            nn.init.orthogonal_(gate)
        nn.init.zeros_(self.cell.bias_ih)
        nn.init.zeros_(self.cell.bias_hh)

    def nothing(self, batch: int) -> Belief:
        """The belief before the first image."""
        like = self.moments.weight
        return Belief(like.new_zeros(batch, self.deterministic), like.new_zeros(batch, self.stochastic))

    def remember(self, belief: Belief, action: Tensor) -> Tensor:
        """h one step on, before the image is seen."""
        h: Tensor = self.cell(F.elu_(self.inputs(torch.cat([belief.s, action], dim=-1))), belief.h)
        return h

    def predict(self, h: Tensor) -> Prior:
        """What the image will be."""
        mean, std = self.moments(F.elu_(self.hidden(h))).chunk(2, dim=-1)
        return Prior(mean, F.softplus(std) + MIN_STD)

    def imagine(self, belief: Belief, action: Tensor, generator: torch.Generator) -> Belief:
        """One step on, without an image."""
        h = self.remember(belief, action)
        prior = self.predict(h)
        return Belief(h, prior.mean + prior.std * _normal(prior.mean, generator))

    def observe(self, code: Tensor, action: Tensor, generator: torch.Generator) -> tuple[Belief, Prior]:
        """Beliefs and priors (T, B, ...) along sequences of codes (T, B, S) and the actions (T, B, A) before them.

        On the way a prior only tells how wide the noise is; to learn from, all are computed again, in one product.
        """
        belief, beliefs = self.nothing(code.shape[1]), []
        for code_t, action_t in zip(code, action, strict=True):
            h = self.remember(belief, action_t)
            with torch.no_grad():
                std = self.predict(h).std
            belief = Belief(h, code_t + std * _normal(code_t, generator))
            beliefs.append(belief)
        h, s = (torch.stack(parts) for parts in zip(*beliefs, strict=True))
        return Belief(h, s), self.predict(h)


class Actor(nn.Module):
    """Belief, joined -> mean and log standard deviation of a Gaussian before tanh, within Dreamer's bounds."""

    mean_scale = 5.0  # Dreamer

    def __init__(self, inputs: int, action_dim: int, hidden: int, first_std: float) -> None:
        super().__init__()
        self.shift = math.log(math.expm1(first_std))  # softplus brings it back
        self.net = head(inputs, hidden, 2 * action_dim, layers=4)

    def forward(self, belief: Tensor) -> tuple[Tensor, Tensor]:
        mean, std = self.net(belief).chunk(2, dim=-1)
        mean = self.mean_scale * torch.tanh(mean / self.mean_scale)
        return mean, (F.softplus(std + self.shift) + MIN_STD).log()

    def mean(self, belief: Tensor) -> Tensor:
        """The action at the centre of the distribution, in [-1, 1]^A."""
        return torch.tanh(self(belief)[0])


def head(inputs: int, hidden: int, outputs: int, layers: int) -> nn.Sequential:
    """`layers` hidden layers with ELU, and a linear one.

    In place, because the slope is then found from the result, without another exponential.
    """
    parts: list[nn.Module] = []
    for _ in range(layers):
        parts += [Linear(inputs, hidden), nn.ELU(inplace=True)]
        inputs = hidden
    return nn.Sequential(*parts, Linear(inputs, outputs)).apply(initialise)


def _normal(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=generator, device=like.device, dtype=like.dtype)

"""The networks of the paper's appendix, "Network Architecture"."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbm.errors import CBMError
from cbm.learning import chunks
from cbm.learning.linear import MLP, Linear
from cbm.learning.ops import bounded_tanh, channels_last
from cbm.types import send

Makes = Literal["latents", "maps", "both"]


def initialise(module: nn.Module) -> None:
    """Orthogonal weights and zero biases, as DrQ initialises them. For `module.apply`."""
    if isinstance(module, nn.Linear):
        nn.init.orthogonal_(module.weight)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Conv2d):
        nn.init.orthogonal_(module.weight, nn.init.calculate_gain("relu"))
        assert module.bias is not None
        nn.init.zeros_(module.bias)


def delta_orthogonal(module: nn.Module) -> None:
    """Convolutions that begin as orthogonal products at each pixel: zero but in the middle of the kernel (SVEA)."""
    if isinstance(module, nn.Conv2d):
        middle = torch.empty(module.out_channels, module.in_channels)
        nn.init.orthogonal_(middle, nn.init.calculate_gain("relu"))
        row, column = (size // 2 for size in module.kernel_size)
        with torch.no_grad():
            module.weight.zero_()
            module.weight[:, :, row, column] = middle


def conv_outputs(obs_shape: Sequence[int], channels: int, strides: Sequence[int]) -> int:
    """F, how many numbers 3x3 convolutions with these strides make of an observation."""
    _, height, width = obs_shape
    for stride in strides:
        height, width = (height - 3) // stride + 1, (width - 3) // stride + 1
    if min(height, width) < 1:
        raise CBMError(f"an image of {tuple(obs_shape)} is too small for convolutions of strides {tuple(strides)}")
    return channels * height * width


class Convolutions(nn.ModuleList):
    """uint8 observations (B, C, H, W) -> feature maps (B, F): 3x3 convolutions with ReLU, in channels-last layout."""

    def __init__(
        self,
        inputs: int,
        channels: int,
        strides: Sequence[int],
        mixed_precision: bool = False,
        pixel_offset: float = 0.5,
        last_relu: bool = True,
    ) -> None:
        widths = [inputs, *[channels] * (len(strides) - 1)]
        super().__init__(nn.Conv2d(n, channels, 3, stride) for n, stride in zip(widths, strides, strict=True))
        self.mixed_precision, self.pixel_offset, self.last_relu = mixed_precision, pixel_offset, last_relu

    def forward(self, obs: Tensor) -> Tensor:
        x, own = channels_last(obs), next(self.parameters()).dtype
        kind = torch.bfloat16 if self.mixed_precision else own
        for number, conv in enumerate(self):
            assert isinstance(conv, nn.Conv2d)
            assert conv.bias is not None
            weight, bias = conv.weight, conv.bias
            if number == 0:  # its input is pixels / 255 - 0.5; taking that over saves two passes over the images
                weight, bias = weight / 255.0, bias - self.pixel_offset * weight.sum(dim=(1, 2, 3))
            else:
                x = F.relu_(x)
            x = F.conv2d(x.to(kind), weight.to(kind), bias.to(kind), conv.stride)
        x = F.relu_(x) if self.last_relu else x
        return x.to(own).permute(0, 2, 3, 1).flatten(1)  # a view of channels-last memory: no copy


class Encoder(nn.Module):
    """uint8 observation (B, C, H, W) -> latent z (B, D): 3x3 convolutions with ReLU, then FC, LayerNorm, tanh.

    `mixed_precision` runs the convolutions in bfloat16, faster on processors that have it (and, untested, on CUDA).
    The rest is for methods whose authors have it otherwise: `pixel_offset` is taken off pixels / 255, `last_relu` and
    `tanh` end maps and latents, `delta` begins with `delta_orthogonal`.
    """

    def __init__(
        self,
        obs_shape: Sequence[int],
        latent_dim: int = 50,
        channels: int = 32,
        strides: Sequence[int] = (2, 1, 1, 1),
        mixed_precision: bool = False,
        *,
        pixel_offset: float = 0.5,
        last_relu: bool = True,
        tanh: bool = True,
        delta: bool = False,
    ) -> None:
        super().__init__()
        self.tanh = tanh
        self.convs = Convolutions(obs_shape[0], channels, strides, mixed_precision, pixel_offset, last_relu)
        outputs = conv_outputs(obs_shape, channels, strides)
        self.projection = nn.Sequential(Linear(outputs, latent_dim), nn.LayerNorm(latent_dim))
        self.apply(initialise)
        if delta:
            self.convs.apply(delta_orthogonal)

    def forward(self, obs: Tensor) -> Tensor:
        z: Tensor = chunks.run([self.work(obs)])[0]
        return z

    def maps(self, obs: Tensor) -> Tensor:
        """What the convolutions make of observations, (B, F)."""
        maps: Tensor = chunks.run([self.work(obs, makes="maps")])[0]
        return maps

    def work(
        self, *inputs: Tensor, see: Callable[..., Tensor] | None = None, learns: bool = True, makes: Makes = "latents"
    ) -> chunks.Work:
        """For `chunks.run`: the encoding of observations, or of what `see` makes of `inputs`.

        Of `both` the feature maps come second, and without a gradient.
        """

        def encode(*chunk: Tensor) -> chunks.Tensors:
            maps: Tensor = self.convs(chunk[0] if see is None else see(*chunk))
            if makes == "maps":
                return maps
            z = self.latent(maps)
            return (z, maps) if makes == "both" else z

        parameters = (self.convs if makes == "maps" else self).parameters() if learns else ()
        return chunks.Work(encode, inputs, tuple(p for p in parameters if p.requires_grad))

    def latent(self, maps: Tensor) -> Tensor:
        """z (B, D) of feature maps (B, F): `forward` is both in one."""
        z = self.projection(maps)
        return torch.tanh(z) if self.tanh else z


class Critic(nn.Module):
    """Twin Q: (z, a) -> (Q1, Q2), each (B, 1)."""

    def __init__(self, latent_dim: int, action_dim: int, hidden: int = 1024) -> None:
        super().__init__()
        self.q1 = MLP(latent_dim + action_dim, hidden, 1)
        self.q2 = MLP(latent_dim + action_dim, hidden, 1)
        self.apply(initialise)

    def forward(self, z: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        inputs = torch.cat([z, action], dim=-1)
        return self.q1(inputs), self.q2(inputs)


class DeterministicActor(nn.Module):
    """z -> action in [-1, 1]^A; exploration noise is added outside (DrQ-v2).

    With a `bound` the last tanh is kept off its flat ends (see `bounded_tanh`): at the paper's learning rate of 5e-4
    an actor reaches them within a hundred updates and, with a plain tanh, never comes back. tanh(3) = 0.995.
    """

    def __init__(self, latent_dim: int, action_dim: int, hidden: int = 1024, bound: float | None = 3.0) -> None:
        super().__init__()
        self.net = MLP(latent_dim, hidden, action_dim)
        self.bound = bound
        self.apply(initialise)

    def forward(self, z: Tensor) -> Tensor:
        x = self.net(z)
        return torch.tanh(x) if self.bound is None else bounded_tanh(x, self.bound)

    def mean(self, z: Tensor) -> Tensor:
        """The action without noise: the same."""
        action: Tensor = self(z)
        return action


class GaussianActor(nn.Module):
    """z -> mean and log standard deviation of a Gaussian before tanh (SAC)."""

    log_std_range = (-10.0, 2.0)  # DrQ

    def __init__(self, latent_dim: int, action_dim: int, hidden: int = 1024) -> None:
        super().__init__()
        self.net = MLP(latent_dim, hidden, 2 * action_dim)
        self.apply(initialise)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.net(z).chunk(2, dim=-1)
        low, high = self.log_std_range
        return mean, low + 0.5 * (high - low) * (torch.tanh(log_std) + 1.0)

    def mean(self, z: Tensor) -> Tensor:
        """The action at the centre of the distribution, in [-1, 1]^A."""
        return torch.tanh(self(z)[0])


class Transition(nn.Module):
    """The deterministic latent model P: (z, a) -> predicted next latent. `residual`: the net predicts its change."""

    def __init__(self, latent_dim: int, action_dim: int, hidden: int = 256, residual: bool = False) -> None:
        super().__init__()
        self.residual = residual
        self.net = MLP(latent_dim + action_dim, hidden, latent_dim)
        self.apply(initialise)

    def forward(self, z: Tensor, action: Tensor) -> Tensor:
        predicted: Tensor = self.net(torch.cat([z, action], dim=-1))
        return z + predicted if self.residual else predicted

    def ahead(self, z: Tensor, actions: Tensor, steps: Tensor) -> Tensor:
        """The latents (B, D) after `steps` (B,) of the actions (B, m, A)."""
        for number, action in enumerate(actions.unbind(dim=1)):
            z = torch.where((number < steps)[:, None], self(z, action), z)
        return z


class GaussianTransition(nn.Module):
    """(z, a) -> mean and standard deviation of the next latent, each (B, D): the latent model of DBC and SimSR."""

    std_range = (1e-4, 10.0)  # DBC, SimSR

    def __init__(self, latent_dim: int, action_dim: int, hidden: int = 512) -> None:
        super().__init__()
        self.net = MLP(latent_dim + action_dim, hidden, 2 * latent_dim)
        self.apply(initialise)

    def forward(self, z: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.net(torch.cat([z, action], dim=-1)).chunk(2, dim=-1)
        low, high = (math.log(bound) for bound in self.std_range)
        return mean, (low + 0.5 * (high - low) * (torch.tanh(log_std) + 1.0)).exp()


class RandomState(nn.Module):
    """Random numbers for a module, with the state of their generator in its `state_dict`.

    Seeded by the global random state at construction. The generator lives on the CPU, so that a checkpoint may move
    between devices.
    """

    def __init__(self) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(int(torch.randint(2**62, ())))

    def normal(self, like: Tensor) -> Tensor:
        """Standard normal numbers of the shape of `like`, where it lives."""
        return send(torch.randn(like.shape, generator=self.generator, dtype=like.dtype), like.device)

    def below(self, n: int) -> int:
        """One of 0 ... n - 1."""
        return int(torch.randint(n, (), generator=self.generator))

    def get_extra_state(self) -> Tensor:
        return self.generator.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        self.generator.set_state(state.cpu())

"""The encoder of TPC, which is Dreamer's: each convolution halves the image and doubles the channels."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cbm.errors import CBMError
from cbm.learning import chunks
from cbm.learning.nets import initialise
from cbm.learning.ops import channels_last

_KERNEL, _STRIDE = 4, 2


class FrameEncoder(nn.Module):
    """uint8 frames (B, 3, H, W) -> features (B, F): 4x4 convolutions of stride 2 with ReLU, in channels-last layout."""

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
        features: Tensor = chunks.run([chunks.Work(self._convolve, (obs,), tuple(self.parameters()))])[0]
        return features

    def _convolve(self, obs: Tensor) -> Tensor:
        x = channels_last(obs).float() / 255.0 - 0.5
        with torch.autocast(obs.device.type, torch.bfloat16, enabled=self.mixed_precision, cache_enabled=False):
            for conv in self.convs:
                x = F.relu_(conv(x))
        return x.float().permute(0, 2, 3, 1).flatten(1)

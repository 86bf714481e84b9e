"""A nested state (dicts, lists, tensors, arrays, numbers) as plain JSON plus one flat dict of tensors, and back.

It is exact in both directions, as `load_state_dict` after a crash needs: floats keep every digit, integer keys (Adam's)
stay integers, and a tensor keeps its memory order. The last matters because Adam's fused kernel walks parameters and
moments as flat memory: channels-last weights with moments restored in another order would be updated wrongly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

Json = Any


def pack(state: Any) -> tuple[Json, dict[str, Tensor]]:
    """The JSON skeleton of `state`, and its tensors by path."""
    tensors: dict[str, Tensor] = {}

    def walk(node: Any, path: str) -> Json:
        if isinstance(node, Tensor):
            order = _memory_order(node)
            # A copy, because safetensors refuses two names for one storage, and a shared parameter has two.
            tensors[path] = node.detach().cpu().permute(order).contiguous().clone()
            return {"$tensor": path, "order": order}
        if isinstance(node, np.ndarray):
            tensors[path] = torch.from_numpy(np.ascontiguousarray(node)).clone()
            return {"$array": path}
        if isinstance(node, np.generic):
            return node.item()
        if isinstance(node, dict):
            items = [(key, walk(value, f"{path}/{key}" if path else str(key))) for key, value in node.items()]
            plain = all(isinstance(key, str) and not key.startswith("$") for key in node)
            return dict(items) if plain else {"$items": [list(item) for item in items]}
        if isinstance(node, list | tuple):
            walked = [walk(item, f"{path}/{i}") for i, item in enumerate(node)]
            return walked if isinstance(node, list) else {"$tuple": walked}
        if node is None or isinstance(node, bool | int | float | str):
            return node
        raise TypeError(f"{path or 'state'}: cannot store a {type(node).__name__} in a checkpoint")

    return walk(state, ""), tensors


def unpack(skeleton: Json, tensors: dict[str, Tensor]) -> Any:
    """The inverse of `pack`."""
    if isinstance(skeleton, list):
        return [unpack(item, tensors) for item in skeleton]
    if not isinstance(skeleton, dict):
        return skeleton
    if "$tensor" in skeleton:
        order = skeleton["order"]
        return tensors[skeleton["$tensor"]].permute([order.index(axis) for axis in range(len(order))])
    if "$array" in skeleton:
        return tensors[skeleton["$array"]].numpy()
    if "$items" in skeleton:
        return {key: unpack(value, tensors) for key, value in skeleton["$items"]}
    if "$tuple" in skeleton:
        return tuple(unpack(item, tensors) for item in skeleton["$tuple"])
    return {key: unpack(value, tensors) for key, value in skeleton.items()}


def _memory_order(tensor: Tensor) -> list[int]:
    """The axes, from the one that varies slowest in memory to the fastest; in their natural order if contiguous."""
    axes, strides = range(tensor.dim()), tensor.stride()
    return list(axes) if tensor.is_contiguous() else sorted(axes, key=lambda axis: -strides[axis])

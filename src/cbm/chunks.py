"""Images go through networks in chunks of a fixed number, each on one thread of the pool.

The gradients of the chunks are added in the order of the chunks. So neither results nor gradients depend on how many
threads there are. On a GPU nothing is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cbm import threads

SIZE = 16  # images


class Work(NamedTuple):
    """What `function` makes of `inputs`, which are cut along their first axis.

    `parameters` are those of the function that learn from it; without any, no graph is kept.
    """

    function: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    parameters: tuple[Tensor, ...] = ()


def run(works: Iterable[Work]) -> list[Tensor]:
    """What comes out of each work. All of them are computed together, with one wait; so are their gradients."""
    works = list(works)
    if not torch.is_grad_enabled():
        works = [work._replace(parameters=()) for work in works]
    if torch.compiler.is_exporting() or not any(map(_is_cut, works)):
        return [_apply(work.function, work.inputs, bool(work.parameters)) for work in works]
    parameters = list({id(p): p for work in works for p in work.parameters}.values())
    return list(_Chunked.apply(works, *parameters))


def _is_cut(work: Work) -> bool:
    return work.inputs[0].device.type == "cpu" and len(work.inputs[0]) > SIZE


def _apply(function: Callable[..., Tensor], inputs: tuple[Tensor, ...], learns: bool) -> Tensor:
    with torch.set_grad_enabled(learns):
        return function(*inputs)


def _pieces(work: Work) -> list[Callable[[], Tensor]]:
    chunks = zip(*(x.split(SIZE) for x in work.inputs), strict=True)
    return [partial(_apply, work.function, chunk, bool(work.parameters)) for chunk in chunks]


class _Chunked(torch.autograd.Function):
    """One node of the outer graph, with the graphs of all chunks inside."""

    @staticmethod
    def forward(ctx: Any, works: list[Work], *parameters: Tensor) -> tuple[Tensor, ...]:
        pieces = [_pieces(work) for work in works]
        results = iter(threads.run([piece for group in pieces for piece in group]))
        chunks = [[next(results) for _ in group] for group in pieces]
        outputs = tuple(torch.cat([chunk.detach() for chunk in group]) for group in chunks)
        ctx.graphs = [(work, group) if work.parameters else None for work, group in zip(works, chunks, strict=True)]
        ctx.parameters = parameters
        ctx.mark_non_differentiable(*(x for x, work in zip(outputs, works, strict=True) if not work.parameters))
        ctx.set_materialize_grads(False)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        pieces, owners = [], []
        for graph, gradient in zip(ctx.graphs, gradients, strict=True):
            if graph is None or gradient is None:
                continue
            work, chunks = graph
            for chunk, part in zip(chunks, gradient.split(SIZE), strict=True):
                pieces.append(partial(torch.autograd.grad, chunk, work.parameters, part))
                owners.append(work.parameters)
        ctx.graphs = None
        sums: dict[int, Tensor] = {}
        for owner, parts in zip(owners, threads.run(pieces), strict=True):
            for parameter, part in zip(owner, parts, strict=True):
                total = sums.get(id(parameter))
                sums[id(parameter)] = part if total is None else total.add_(part)
        return (None, *(sums.get(id(p)) for p in ctx.parameters))

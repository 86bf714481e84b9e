"""Images go through networks in chunks of a fixed number, each on one thread of the pool.

The gradients of the chunks are added in the order of the chunks. So neither results nor gradients depend on how many
threads there are. On a GPU nothing is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cbm.learning import threads

SIZE = 32  # images
_LARGE = 1 << 20  # numbers in a gradient whose sum is worth the pool

Tensors = Tensor | tuple[Tensor, ...]


class Work(NamedTuple):
    """What `function` makes of `inputs`, which are cut along their first axis: one tensor or several.

    `parameters` are those of the function that learn, from the first tensor alone; without any, no graph is kept.
    """

    function: Callable[..., Tensors]
    inputs: tuple[Tensor, ...]
    parameters: tuple[Tensor, ...] = ()


def run(works: Iterable[Work], beside: Callable[[], None] = lambda: None) -> list[Any]:
    """The result of each work. All of them are computed together, with one wait; so are their gradients.

    `beside` is done along with them, on one of the threads. It must not need, or change, anything of theirs.
    """
    works = list(works)
    if not torch.is_grad_enabled():
        works = [work._replace(parameters=()) for work in works]
    if torch.compiler.is_exporting() or not any(map(_is_cut, works)):
        beside()
        return [_apply(work, work.inputs) for work in works]
    parameters = list({id(p): p for work in works for p in work.parameters}.values())
    widths: list[int | None] = []  # how many tensors each work makes; None: one, not in a tuple
    made = iter(_Chunked.apply(works, widths, beside, *parameters))  # type: ignore[no-untyped-call]
    return [next(made) if width is None else tuple(next(made) for _ in range(width)) for width in widths]


def _is_cut(work: Work) -> bool:
    return work.inputs[0].device.type == "cpu" and len(work.inputs[0]) > SIZE


def _apply(work: Work, inputs: tuple[Tensor, ...]) -> Tensors:
    with torch.set_grad_enabled(bool(work.parameters)):
        made = work.function(*inputs)
    return made if isinstance(made, Tensor) else (made[0], *(x.detach() for x in made[1:]))


class _Chunked(torch.autograd.Function):
    """One node of the outer graph, with the graphs of all chunks inside."""

    @staticmethod
    def forward(
        ctx: Any, works: list[Work], widths: list[int | None], beside: Callable[[], None], *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        cuts = [list(zip(*(x.split(SIZE) for x in work.inputs), strict=True)) for work in works]
        pieces: list[Callable[[], Any]] = [torch.enable_grad()(beside)]
        pieces += [partial(_apply, work, cut) for work, group in zip(works, cuts, strict=True) for cut in group]
        results = iter(threads.run(pieces)[1:])
        ctx.parameters, ctx.graphs, outputs, fixed = parameters, [], [], []
        for work, group in zip(works, cuts, strict=True):
            chunks = [next(results) for _ in group]
            widths.append(None if isinstance(chunks[0], Tensor) else len(chunks[0]))
            chunks = [(chunk,) if isinstance(chunk, Tensor) else chunk for chunk in chunks]
            made = [torch.cat([x.detach() for x in column]) for column in zip(*chunks, strict=True)]
            ctx.graphs += [(work.parameters, [chunk[0] for chunk in chunks]), *[None] * (len(made) - 1)]
            outputs += made
            fixed += made[1:] if work.parameters else made
        ctx.mark_non_differentiable(*fixed)
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        pieces: list[Callable[[], tuple[Tensor, ...]]] = []
        learners: list[tuple[Tensor, ...]] = []
        for graph, gradient in zip(ctx.graphs, gradients, strict=True):
            if graph is None or gradient is None:
                continue
            parameters, chunks = graph
            pieces += [
                partial(torch.autograd.grad, chunk, parameters, part)
                for chunk, part in zip(chunks, gradient.split(SIZE), strict=True)
            ]
            learners += [parameters] * len(chunks)
        ctx.graphs = None
        parts: dict[int, list[Tensor]] = {id(p): [] for p in ctx.parameters}
        for learner, found in zip(learners, threads.run(pieces), strict=True):
            for parameter, part in zip(learner, found, strict=True):
                parts[id(parameter)].append(part)
        return None, None, None, *(_sum(parts[id(p)]) for p in ctx.parameters)


def _sum(parts: list[Tensor]) -> Tensor | None:
    """In their order. A large sum is cut up for the pool, by numbers and not by parts, which gives the same bits."""
    if not parts:
        return None
    if parts[0].numel() < _LARGE:
        return _added(parts)
    slices = zip(*(part.flatten().split(_LARGE // 4) for part in parts), strict=True)
    threads.run([partial(_added, cut) for cut in slices])
    return parts[0]


def _added(parts: Sequence[Tensor]) -> Tensor:
    total, *others = parts
    for part in others:
        total.add_(part)
    return total

"""Comparing runs: learning curves, and the current scores (`cbm.analysis.scores`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.legend import Legend

from cbm.analysis import scores
from cbm.analysis.figures.style import plt, save, style, thousands
from cbm.analysis.published import published
from cbm.errors import CBMError
from cbm.runs.labels import label_runs
from cbm.runs.read import Run

_SPLITS = {"train": "training videos", "unseen": "unseen videos"}


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed."""

    method: str
    task: str
    distraction: str
    runs: tuple[Run, ...]

    @property
    def column(self) -> tuple[str, str]:
        return self.task, self.distraction

    def has(self, split: str) -> bool:
        """Whether all of the runs were evaluated on these videos."""
        return all(split in run.splits for run in self.runs)

    def curve(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        """The steps (E,) at which all runs were evaluated, and their returns (E, runs)."""
        tables = [dict(zip(*run.curve(split), strict=True)) for run in self.runs]
        steps = sorted(set.intersection(*(set(table) for table in tables)))
        values = [[table[step] for table in tables] for step in steps]
        return np.array(steps, int), np.array(values, float).reshape(len(steps), len(tables))


def group_runs(runs: Iterable[Run]) -> list[Group]:
    """Runs by method, task and distraction (`cbm.runs.labels`), in the order in which they were given."""
    runs = [run for run in runs if run.evals]
    if not runs:
        raise CBMError("none of these runs has an evaluation yet.")
    found: dict[tuple[str, str, str], list[Run]] = {}
    for run, label in zip(runs, label_runs(runs), strict=True):
        found.setdefault((label.method, run.task, label.distraction), []).append(run)
    return [Group(*key, tuple(sorted(group, key=lambda run: run.seed))) for key, group in found.items()]


def draw_curves(groups: Sequence[Group], folder: Path, name: str) -> list[Path]:
    """Learning curves: a row of panels per task and distraction, a column per set of videos.

    A line is the interquartile mean over seeds (the mean if there are fewer than four), with its bootstrap interval.
    Thin lines are single seeds. A line ends where the shortest of its runs ends.
    """
    columns = list(dict.fromkeys(group.column for group in groups))
    splits = [split for split in _SPLITS if any(split in run.splits for group in groups for run in group.runs)]
    methods = list(dict.fromkeys(group.method for group in groups))
    figure, axes = plt.subplots(
        len(columns), len(splits), figsize=(5.2 * len(splits), 3.4 * len(columns)), sharey="row", squeeze=False
    )
    rows: list[list[object]] = []
    legends: list[Legend] = []
    for line, (task, distraction) in zip(axes, columns, strict=True):
        own = [group for group in groups if group.column == (task, distraction)]
        for axis, split in zip(line, splits, strict=True):
            shown = [group for group in own if group.has(split)]
            axis.set_visible(bool(shown))  # a task without videos has no unseen ones
            for group in shown:
                rows += _draw_group(axis, group, split, methods.index(group.method))
            if shown:
                _draw_references(axis, own, split)
            axis.set_title(f"{task}, {distraction}" + (f": {_SPLITS[split]}" if len(splits) > 1 else ""))
            axis.set_xlabel("environment steps (thousands)")
        seen = [axis for axis in line if axis.get_visible()]
        line[0].set_ylim(0, 1.05 * max(axis.dataLim.y1 for axis in seen))
        seen[0].set_ylabel("return of an evaluation")
        found = {
            label: handle for axis in seen for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        legend = seen[-1].legend(found.values(), found.keys(), loc="upper left", bbox_to_anchor=(1.01, 1.0))
        legend.set_in_layout(False)  # so that it takes no room from the panels
        legends.append(legend)
    figure.tight_layout()
    for legend in legends:
        legend.set_in_layout(True)  # but the saved picture includes it
    header = ("method", "task", "distraction", "split", "env_step", "seeds", "iqm", "low", "high", "returns")
    return save(figure, folder, name, header, rows)


def _draw_group(axis: plt.Axes, group: Group, split: str, index: int) -> list[list[object]]:
    look = style(index)
    steps, values = group.curve(split)
    estimates = [scores.estimate([row]) for row in values]
    for run in group.runs if len(group.runs) > 1 else ():
        own_steps, own = run.curve(split)
        axis.plot(np.array(own_steps) / 1000, own, color=look.color, lw=0.6, alpha=0.45)
    seeds = f"seed{'s' if len(group.runs) > 1 else ''} {', '.join(str(run.seed) for run in group.runs)}"
    label = f"{group.method} ({seeds})"
    axis.plot(steps / 1000, [each.value for each in estimates], lw=1.8, label=label, **look.line())
    if len(group.runs) > 1:
        low, high = ([getattr(each, side) for each in estimates] for side in ("low", "high"))
        axis.fill_between(steps / 1000, low, high, color=look.color, alpha=0.15, lw=0)
    place = [group.method, *group.column, split]
    return [
        [*place, int(step), len(row), each.value, each.low, each.high, " ".join(f"{value:.6g}" for value in row)]
        for step, row, each in zip(steps, values, estimates, strict=True)
    ]


def _draw_references(axis: plt.Axes, groups: Sequence[Group], split: str) -> None:
    """Random actions (the episodes of the seed steps), and what the paper reached after 500K steps."""
    chance = [value for group in groups for run in group.runs for value in run.random_returns]
    if chance:
        axis.axhline(float(np.mean(chance)), color="0.6", lw=1, label=f"random actions ({len(chance)} episodes)")
    for index, entry in enumerate(published(*groups[0].column, split)):
        source = " of DCS" if "(DCS)" in entry.source else ""
        label = f"paper: {entry.agent}{source}, {entry.split} videos, 500K: {entry.mean:.0f}"
        axis.axhline(entry.mean, color="0.35", lw=0.9, ls=(0, (1 + 2 * index, 2)), label=label)


@dataclass(frozen=True)
class ScoresSoFar:
    """Returns of each method at the newest step that all runs of a task have reached."""

    steps: dict[tuple[str, str], int]  # (task, distraction) -> environment step
    scores: dict[str, list[np.ndarray]]  # method -> an array of returns per task, in the order of `steps`
    incomplete: list[str]  # methods that were left out because they lack a task


def scores_so_far(groups: Sequence[Group], split: str) -> ScoresSoFar:
    """The current scores. Methods that were not run on every task are left out: they cannot be compared over all."""
    curves = {
        (group.method, group.column): dict(zip(*group.curve(split), strict=True))
        for group in groups
        if group.has(split)
    }
    methods = list(dict.fromkeys(method for method, _ in curves))
    columns = list(dict.fromkeys(column for _, column in curves))
    whole = [method for method in methods if all((method, column) in curves for column in columns)]
    steps = {}
    for column in columns:
        shared = set.intersection(*(set(curves[method, column]) for method in whole)) if whole else None
        if not shared:
            return ScoresSoFar({}, {}, methods)
        steps[column] = int(max(shared))
    values = {method: [curves[method, column][steps[column]] for column in columns] for method in whole}
    return ScoresSoFar(steps, values, [method for method in methods if method not in whole])


def draw_scores(groups: Sequence[Group], folder: Path, name: str, level: float = 200.0) -> list[Path]:
    """IQM, performance profiles, probability of improvement and sample efficiency of the methods."""
    splits = [split for split in _SPLITS if any(split in run.splits for group in groups for run in group.runs)]
    split = splits[-1]
    now = scores_so_far(groups, split)
    if not now.scores:
        raise CBMError("the runs share no evaluated step of a common task, so their scores cannot be compared.")
    figure, axes = plt.subplots(2, 2, figsize=(10.4, 6.8))
    rows = [
        *_draw_iqm(axes[0][0], now),
        *_draw_profiles(axes[0][1], now),
        *_draw_improvement(axes[1][0], now),
        *_draw_efficiency(axes[1][1], groups, split, level),
    ]
    where = "; ".join(f"{task}, {distraction} at {thousands(step)}" for (task, distraction), step in now.steps.items())
    title = f"{_SPLITS[split] if len(splits) > 1 else 'evaluation'}. {where}"
    if now.incomplete:
        title += f"\nleft out, not run on every task: {', '.join(now.incomplete)}"
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    return save(figure, folder, name, ("panel", "method", "against", "x", "value", "low", "high", "runs"), rows)


def _draw_iqm(axis: plt.Axes, now: ScoresSoFar) -> list[list[object]]:
    rows, names = list[list[object]](), []
    for index, (method, tasks) in enumerate(now.scores.items()):
        found = scores.estimate(tasks)
        _interval(axis, index, found, index)
        names.append(f"{method}\n{' + '.join(str(len(task)) for task in tasks)} runs")
        rows.append(["iqm", method, None, None, *found, sum(map(len, tasks))])
    _names(axis, names)
    axis.set_xlabel("interquartile mean of returns, 95 % interval")
    axis.set_xlim(left=0)
    return rows


def _draw_profiles(axis: plt.Axes, now: ScoresSoFar) -> list[list[object]]:
    highest = max(float(task.max()) for tasks in now.scores.values() for task in tasks)
    levels = np.linspace(0.0, 1.05 * highest, 101)
    rows: list[list[object]] = []
    for index, (method, tasks) in enumerate(now.scores.items()):
        share, low, high = scores.estimate(tasks, partial(scores.profile, thresholds=levels))
        axis.plot(levels, share, label=method, lw=1.6, **style(index).line() | {"markevery": (3 * index, 20)})
        if low is not None:
            axis.fill_between(levels, low, high, color=style(index).color, alpha=0.15, lw=0)
        none = [None] * len(levels)
        numbers = zip(levels, share, none if low is None else low, none if low is None else high, strict=True)
        rows += [["profile", method, None, *each, sum(map(len, tasks))] for each in numbers]
    axis.set_xlabel("return")
    axis.set_ylabel("share of runs above it")
    axis.legend()
    return rows


def _draw_improvement(axis: plt.Axes, now: ScoresSoFar) -> list[list[object]]:
    rows, names = list[list[object]](), []
    methods = list(now.scores)
    pairs = [(x, y) for i, x in enumerate(methods) for y in methods[i + 1 :]]
    for index, (x, y) in enumerate(pairs):
        found = scores.probability_of_improvement(now.scores[x], now.scores[y])
        _interval(axis, index, found, methods.index(x))
        names.append(f"{x}\nover {y}")
        rows.append(["improvement", x, y, None, *found, None])
    if pairs:
        _names(axis, names)
    else:
        axis.text(0.5, 0.5, "one method: nothing to compare", ha="center", transform=axis.transAxes)
        axis.set_yticks([])
    axis.axvline(0.5, color="0.4", lw=1)
    axis.set_xlim(-0.03, 1.03)
    axis.set_xlabel("probability that a run of the first is better, 95 % interval")
    return rows


def _draw_efficiency(axis: plt.Axes, groups: Sequence[Group], split: str, level: float) -> list[list[object]]:
    """Environment steps until an evaluation reached `level`, one marker per run; hollow if it never did."""
    methods = list(dict.fromkeys(group.method for group in groups))
    rows, names = [], []
    for index, group in enumerate(group for group in groups if group.has(split)):
        look = style(methods.index(group.method))
        reached = [scores.steps_to(*run.curve(split), level) for run in group.runs]
        for place, (run, step) in enumerate(zip(group.runs, reached, strict=True)):
            aside = 0.5 * ((place + 0.5) / len(group.runs) - 0.5)  # keeps the markers of several seeds apart
            at = run.curve(split)[0][-1] if step is None else step
            fill = look.color if step is not None else "none"
            axis.plot(at / 1000, index + aside, look.marker, color=look.color, markerfacecolor=fill, ms=6)
            where = f"{group.task}, {group.distraction}"
            rows.append(["steps_to_return", group.method, where, level, step, None, None, run.seed])
        names.append(f"{group.method}\n{group.task} ({sum(step is not None for step in reached)}/{len(reached)})")
    _names(axis, names)
    axis.set_xlim(left=0)
    axis.set_xlabel(f"thousand environment steps to a return of {level:g} (hollow: not reached by then)")
    return rows


def _interval(axis: plt.Axes, y: int, found: scores.Estimate, look: int) -> None:
    if found.low is not None and found.high is not None:
        axis.plot([found.low, found.high], [y, y], color=style(look).color, lw=5, alpha=0.35, solid_capstyle="butt")
    axis.plot(found.value, y, style(look).marker, color=style(look).color, ms=6)


def _names(axis: plt.Axes, names: list[str]) -> None:
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)

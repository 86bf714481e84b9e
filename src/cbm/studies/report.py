"""The figures and tables of a study, from what its runs have written so far, with the paper's numbers next to ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from cbm.analysis.analyze import analyze
from cbm.analysis.figures.curves import Group, draw_curves, draw_scores
from cbm.analysis.figures.generalization import Generalization, draw_generalization
from cbm.analysis.figures.style import plt, save, style, write_csv
from cbm.analysis.published import published
from cbm.errors import CBMError
from cbm.report.page import write_page
from cbm.runs.read import Run, load_runs
from cbm.studies.define import Plan, PlannedRun
from cbm.studies.store import Store
from cbm.system.files import read_object

_SPLITS = {"train": "training videos", "unseen": "unseen videos", "final": "unseen videos, final episodes"}
_PAGE_BYTES = 19_500_000


@dataclass(frozen=True)
class FinalReturns:
    """The final returns of one method on one task in one variant, one per seed."""

    task: str
    method: str
    variant: str
    split: str  # train, unseen, or `final`: the episodes played by the finished agent
    returns: tuple[float, ...]
    paper: str = ""  # the paper's number, with its source

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def std(self) -> float | None:
        """Over seeds, unbiased; None if there is only one."""
        return float(np.std(self.returns, ddof=1)) if len(self.returns) > 1 else None

    def cells(self) -> list[object]:
        """For final.csv."""
        std = "" if self.std is None else f"{self.std:.2f}"
        returns = " ".join(f"{value:.2f}" for value in self.returns)
        place = [self.task, self.method, self.variant, self.split]
        return [*place, len(self.returns), f"{self.mean:.2f}", std, returns, self.paper]

    def __str__(self) -> str:
        spread = "" if self.std is None else f" ± {self.std:.0f}"
        return f"{self.mean:.0f}{spread} (n={len(self.returns)})"


def write_report(plan: Plan, store: Store, out: Path) -> list[Path]:
    """report.md with its tables and figures, final.csv, and the page of `cbm report` with every run."""
    begun = [run for run in plan.runs if store.progress(run)[1] is not None]
    if not begun:
        raise CBMError(
            f"{plan.title} has no evaluation yet in {store.root}. Run it first: cbm study run {plan.study.name} "
            f"--scale {plan.scale} --root {store.root}"
        )
    out.mkdir(parents=True, exist_ok=True)
    loaded = load_runs([store.run_dir(run).root for run in begun])
    found = {run.path.name: run for run in loaded.runs}
    done = [run for run in begun if store.is_done(run)]
    finals = {run.name: read_object(store.final(run), found[run.name].path) for run in done if run.final_episodes}
    rows = final_rows(done, found, finals)
    figures = _figures(plan, begun, done, found, rows, finals, out)
    text, table = out / "report.md", out / "final.csv"
    header = ("task", "method", "variant", "split", "seeds", "mean", "std", "returns", "paper")
    write_csv(table, header, [row.cells() for row in rows])
    text.write_text(_text(plan, store, rows, [found[run.name] for run in done], figures, out))
    page = write_page(loaded, out / "report.html", f"{plan.study.title} ({plan.title})", _PAGE_BYTES)
    return [text, table, page.path, *figures]


def final_rows(done: Sequence[PlannedRun], found: Mapping[str, Run], finals: Mapping[str, Any]) -> list[FinalReturns]:
    """A row for each cell of the grid and each set of videos, over the seeds that are complete."""
    cells: dict[tuple[str, str, str, str], list[float]] = {}
    sources: dict[tuple[str, str, str, str], str] = {}
    for run in done:
        last = found[run.name].evals[-1]
        played = {split: last[split] for split in ("train", "unseen") if split in last}
        played |= {"final": finals[run.name]} if run.name in finals else {}
        for split, episodes in played.items():
            key = (run.task, run.method, run.variant, split)
            cells.setdefault(key, []).append(episodes["mean"])
            sources[key] = _in_paper(run, "unseen" if split == "final" else split)
    return [FinalReturns(*key, tuple(values), sources[key]) for key, values in cells.items()]


def _in_paper(run: PlannedRun, split: str) -> str:
    env, agent = run.config["env"], run.config["agent_name"]
    changed = any(env[name] for name in ("scale", "num_videos", "dynamic"))
    entries = [] if changed else published(run.task, env["distraction"], split)
    own = [entry for entry in entries if entry.agent == agent]
    return "; ".join(f"{e.mean:.0f}" + (f" ± {e.std:.0f}" if e.std else "") + f" ({e.source})" for e in own)


def _figures(
    plan: Plan,
    begun: Sequence[PlannedRun],
    done: Sequence[PlannedRun],
    found: Mapping[str, Run],
    rows: Sequence[FinalReturns],
    finals: Mapping[str, Any],
    out: Path,
) -> list[Path]:
    members: dict[tuple[str, str, str], list[Run]] = {}
    for run in begun:
        members.setdefault((run.method, run.task, run.variant), []).append(found[run.name])
    groups = [Group(*key, tuple(runs)) for key, runs in members.items()]
    written = []
    for task in plan.distinct("task"):
        own = [group for group in groups if group.task == task]
        written += draw_curves(own, out, f"curves-{_file_name(task)}") if own else []
    if len({group.method for group in groups}) > 1:
        with suppress(CBMError):  # there is no step yet that all of them have reached
            written += draw_scores(groups, out, "scores")
    if len(plan.distinct("variant")) > 2 and rows:
        written += draw_variants(rows, out)
    if finals:
        written += draw_generalization([_tested(found[name], final) for name, final in finals.items()], out)
    if plan.study.analyses:
        for task in dict.fromkeys(run.task for run in done):
            paths = [found[run.name].path for run in done if run.task == task]
            folder = out / f"analysis-{_file_name(task)}"
            written += analyze(paths, folder, plan.study.analyses, episodes=0).written
    return written


def _tested(run: Run, final: Mapping[str, Any]) -> Generalization:
    """The final episodes, in the form that the figure takes."""
    returns = {"train": list(run.evals[-1]["train"]["returns"]), "unseen": list(final["returns"])}
    return Generalization(run, final["env_step"], returns, len(set(final["backgrounds"])))


def draw_variants(rows: Sequence[FinalReturns], folder: Path) -> list[Path]:
    """Final return, averaged over tasks, against the variants of the study, such as rising magnitudes."""
    variants = list(dict.fromkeys(row.variant for row in rows))
    figure, axis = plt.subplots(figsize=(1.6 + 0.7 * len(variants), 3.8))
    table: list[list[object]] = []
    for index, method in enumerate(dict.fromkeys(row.method for row in rows)):
        own = [row for row in rows if row.method == method and row.split == "train"]
        means, label = dict[str, float](), method
        for variant in variants:
            if same := [row for row in own if row.variant == variant]:
                means[variant] = float(np.mean([row.mean for row in same]))
                table.append([method, variant, means[variant], len(same), " ".join(row.task for row in same)])
        for _, kind in groupby(means, key=lambda variant: variant.split()[0]):  # a line joins magnitudes of one kind
            joined = {variants.index(variant): means[variant] for variant in kind}
            axis.plot(list(joined), list(joined.values()), label=label, **style(index).line())
            label = "_nolegend_"
    axis.set_xticks(range(len(variants)), variants, rotation=40, ha="right")
    axis.set(ylabel="final return, mean over tasks", ylim=(0, None))
    axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure.tight_layout()
    return save(figure, folder, "variants", ("method", "variant", "mean", "tasks", "which"), table)


def _text(
    plan: Plan, store: Store, rows: Sequence[FinalReturns], done: Sequence[Run], figures: Sequence[Path], out: Path
) -> str:
    about = f"{plan.study.source}. Scale `{plan.scale}`, {len(done)} of {len(plan.runs)} runs are complete."
    parts = [f"# {plan.study.title}", about, _warnings(plan, store, done)]
    for split in dict.fromkeys(row.split for row in rows):
        own = [row for row in rows if row.split == split]
        parts.append(f"## Final return, {_SPLITS[split]}\nMean ± standard deviation over seeds.")
        parts.append(_table(own))
        beside = [f"- {row.task}, {row.method}: paper {row.paper}; ours {row}" for row in own if row.paper]
        if beside:
            other = "" if plan.scale == "paper" else f" Ours are at the scale `{plan.scale}`: not the same experiment."
            parts.append(
                f"The paper's numbers are at 500K environment steps, five seeds.{other}\n\n" + "\n".join(beside)
            )
    own_figures = [path.relative_to(out) for path in figures if path.suffix == ".png" and path.is_relative_to(out)]
    parts += ["## Figures", *(f"![{path.stem}]({path})" for path in own_figures)] if own_figures else []
    parts.append(
        "Every run, with its films: [report.html](report.html). Numbers: [final.csv](final.csv), and a .csv per figure."
    )
    return "\n\n".join(filter(None, parts)) + "\n"


def _table(rows: Sequence[FinalReturns]) -> str:
    """Methods down, tasks and variants across."""
    columns = list(dict.fromkeys((row.task, row.variant) for row in rows))
    found = {(row.method, row.task, row.variant): row for row in rows}
    head = " | ".join(" ".join(filter(None, column)) for column in columns)
    lines = [f"| | {head} |", "|---" * (len(columns) + 1) + "|"]
    for method in dict.fromkeys(row.method for row in rows):
        cells = [str(found.get((method, *column), "–")) for column in columns]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _warnings(plan: Plan, store: Store, done: Sequence[Run]) -> str:
    """What a reader must know before believing the numbers."""
    lines = []
    if len(done) < len(plan.runs):
        lines.append(f"- {len(plan.runs) - len(done)} runs are not complete and are missing from the tables.")
    states = {run.label: store.state(run) for run in plan.runs}
    lines += [f"- Set aside: {label}: {state.error}" for label, state in states.items() if state.kind == "set aside"]
    if plan.scale == "smoke":
        lines.append("- Scale `smoke` shows whether everything works; its returns mean nothing.")
    revisions = {str(run.provenance.get("git") or run.provenance.get("versions", {}).get("cbm-rl")) for run in done}
    if len(revisions) > 1:
        lines.append(f"- The runs come from {len(revisions)} revisions of the code: {', '.join(sorted(revisions))}.")
    return "\n".join(lines)


def _file_name(task: str) -> str:
    return task.rpartition(":")[2]

"""All figures of a run, and of several runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cbm.analysis.figures.embedding import draw_tsne
from cbm.analysis.figures.gallery import draw_gallery
from cbm.analysis.figures.generalization import EPISODES, Generalization, draw_generalization, play_unseen
from cbm.analysis.figures.overtime import draw_assignments, draw_ch_index, draw_probes
from cbm.analysis.figures.saliency import draw_saliency
from cbm.analysis.probing.subject import Subject, examine
from cbm.errors import CBMError, UnknownChoice
from cbm.runs.directory import RunDir
from cbm.runs.read import Problem, Run, load_runs
from cbm.system.files import make_folder

FIGURES = ("ch_index", "probes", "tsne", "gallery", "assignments", "generalization", "saliency")
Makers = dict[str, Callable[[], list[Path]]]


@dataclass
class Report:
    """What was written, and what was not, with the reason."""

    analysed: int = 0
    written: list[Path] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def make(self, makers: Makers, only: Sequence[str], about: Path) -> None:
        """Draw the figures that are asked for. One that cannot be drawn is reported, and the others are drawn."""
        for name in only:
            try:
                self.written += makers[name]() if name in makers else []
            except CBMError as error:
                self.problems.append(Problem(about, f"no {name}: {error}"))


def analyze(
    paths: Iterable[Path],
    output: Path = Path("analysis"),
    only: Sequence[str] = FIGURES,
    episodes: int = EPISODES,
    all_prototypes: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Draw the figures of each run into its `figures/`, those of zoo agents into folders in `output`, and comparisons
    of several runs into `output`."""
    for name in only:
        if name not in FIGURES:
            raise UnknownChoice("figure", name, FIGURES)
    loaded = load_runs(paths)
    report = Report(problems=list(loaded.problems))
    subjects: list[Subject] = []
    tested: list[Generalization] = []
    for run in loaded.runs:
        say(f"{run.name}: {run.agent} on {run.task}, {run.distraction}, {run.status}")
        try:
            subject = examine(run)
            folder = _make_folder(run, output)
        except (OSError, CBMError) as error:
            what = f"figures {error.strerror}" if isinstance(error, OSError) else error
            report.problems.append(Problem(run.path, f"skipped: {what}"))
            continue
        subjects.append(subject)
        report.analysed += 1
        say(f"{run.name}: {summary(subject.findings)}")
        if subject.space is None and {"gallery", "assignments"} & set(only):
            say(f"{run.name}: {run.agent} has no prototypes: no gallery, no assignments; clusters by k-means")
        report.make(_of_one(subject, folder, episodes, all_prototypes, tested), only, run.path)
    if len(subjects) > 1:
        report.make(_of_several(subjects, tested, output, report), only, output)
    return report


def _make_folder(run: Run, output: Path) -> Path:
    """Where the figures of a run go. An entry of the zoo is never changed."""
    if RunDir(run.path).entry.exists():
        return make_folder(output / f"zoo-{run.task}-{run.agent}-s{run.seed}", output)
    return make_folder(run.path / "figures", run.path)


def _of_one(
    subject: Subject, folder: Path, episodes: int, all_prototypes: bool, tested: list[Generalization]
) -> Makers:
    """The figures of a run; what `generalization` plays is added to `tested`."""

    def generalize() -> list[Path]:
        tested.append(play_unseen(subject.run, episodes))
        return draw_generalization(tested[-1:], folder)

    def galleries() -> list[Path]:
        whole = draw_gallery(subject, folder, everything=True) if all_prototypes else []
        return draw_gallery(subject, folder) + whole

    makers: Makers = {
        "ch_index": partial(draw_ch_index, [subject], folder),
        "probes": partial(draw_probes, [subject], folder),
        "tsne": partial(draw_tsne, subject, folder),
        "saliency": partial(draw_saliency, [subject], folder),
    }
    if subject.space is not None:
        makers |= {"gallery": galleries, "assignments": partial(draw_assignments, subject, folder)}
    if "unseen" in subject.run.splits:
        makers["generalization"] = generalize
    return makers


def _of_several(subjects: list[Subject], tested: list[Generalization], output: Path, report: Report) -> Makers:
    """The figures that compare runs."""
    seen = subjects[0].probe.obs.shape[1:]
    alike = [subject for subject in subjects if subject.probe.obs.shape[1:] == seen]

    def look() -> list[Path]:
        for subject in subjects:
            if subject not in alike:
                what = f"not in the comparison of saliency: it sees {subject.probe.obs.shape[1:]}, not {seen}"
                report.problems.append(Problem(subject.run.path, what))
        return draw_saliency(alike, output) if len(alike) > 1 else []

    makers: Makers = {
        "ch_index": partial(draw_ch_index, subjects, output),
        "probes": partial(draw_probes, subjects, output),
        "saliency": look,
    }
    if len(tested) > 1:
        makers["generalization"] = partial(draw_generalization, tested, output)
    return makers


def summary(findings: dict[str, Any]) -> str:
    """The numbers of an analysis in one line."""

    def number(key: str) -> str:
        return "-" if findings.get(key) is None else f"{findings[key]:.2f}"

    return (
        f"CH index {number('ch_index')} ({findings.get('clusters', '-')}, K = {findings.get('k', '-')}), "
        f"background from z {number('background_accuracy')} (chance {number('background_chance')}), "
        f"state from z R^2 {number('state_r2')}"
    )

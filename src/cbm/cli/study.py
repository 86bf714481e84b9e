"""The verb `cbm study`: list, show, run, report and archive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rich.console import Console
from rich.table import Table
from tyro import MISSING
from tyro.conf import Positional, UseAppendAction, arg

from cbm.cli.train import expand_overrides, overrides
from cbm.errors import CBMError
from cbm.runs.trust import module_of, trust
from cbm.training.progress import clock

if TYPE_CHECKING:
    from cbm.studies.define import Plan
    from cbm.studies.store import Store

__all__ = ["expand_overrides", "study"]


@dataclass(frozen=True)
class List:
    """List the studies of the paper, and how many runs each has."""

    def __call__(self) -> int:
        from cbm.studies.define import SCALES, count
        from cbm.studies.paper import STUDIES

        table = Table("study", "what", "in the paper", *SCALES, box=None, pad_edge=False)
        for name, study in STUDIES.items():
            table.add_row(name, study.title, study.source, *(str(count(study, scale)) for scale in SCALES))
        console = Console()
        console.print(table)
        console.print(
            "\nThe last columns count runs. Details: `cbm study show NAME`.\nTo run one: `cbm study run NAME`."
        )
        return 0


@dataclass(frozen=True)
class StudyOptions:
    """A study, or a part of it. Any value of the configuration can be set for all runs: --training.total_steps 5e4."""

    name: Annotated[Positional[str], arg(metavar="NAME")]
    """A study of the paper (`cbm study list`), or the path of your own: my-study.toml."""
    scale: Literal["paper", "laptop", "smoke"] | None = None
    """paper, laptop (the default), or smoke, which only shows whether everything works."""
    tasks: tuple[str, ...] = ()
    """Only these of its tasks."""
    methods: tuple[str, ...] = ()
    """Only these of its methods."""
    variants: tuple[str, ...] = ()
    """Only these of its variants."""
    seeds: int | None = None
    """How many seeds, from 1."""
    root: Path = Path("studies")
    """The folder of studies. Runs that several studies share are computed once."""
    set: UseAppendAction[tuple[str, ...]] = ()
    """NAME=VALUE: the long form of --NAME VALUE for a dotted name."""


@dataclass(frozen=True)
class Show(StudyOptions):
    """Show the runs of a study, which of them are done, and how long the rest will take on this machine."""

    jobs: int = 0
    """Runs in parallel, for the estimate. 0: one per core."""
    measure: bool = True
    """Measure some updates of each method, to estimate the time."""

    def __call__(self) -> int:
        store, plan = _open(self)
        console = Console()
        print(f"{plan.study.title}\n{plan.study.source}\n")
        table = Table(box=None, show_header=False, pad_edge=False)
        for part in ("task", "method", "variant", "seed"):
            names = [str(name) for name in plan.distinct(part) if name]
            if names:
                table.add_row(f"{len(names)} {part}{'s' if len(names) > 1 else ''}", ", ".join(names))
        steps = sorted({run.total_steps for run in plan.runs})
        table.add_row("each", f"{', '.join(f'{n:,}' for n in steps)} environment steps, scale {plan.scale}")
        console.print(table)
        states = {run.name: store.state(run) for run in plan.runs}
        kinds = [state.kind for state in states.values()]
        there = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("done", "begun", "set aside", "missing"))
        console.print(f"\n{len(plan.runs)} runs: {there}")
        _tell_set_aside(plan, store, console)
        if self.measure and any(kind != "done" for kind in kinds):
            from cbm.studies.measure import estimate_duration

            with console.status("measuring ...") as status:
                seconds, jobs, methods = estimate_duration(
                    plan, states, self.jobs, lambda part: status.update(f"measuring: {part}")
                )
            console.print(f"\nabout {clock(seconds)} (h:mm:ss) for the rest on this machine, {jobs} at a time")
            table = Table("method", "ms per update", "h:mm:ss per run", box=None, pad_edge=False)
            for method, (update, run) in methods.items():
                table.add_row(method, f"{1000 * update:.0f}", clock(run))
            console.print(table)
        return 0


@dataclass(frozen=True)
class Run(StudyOptions):
    """Run what is missing. Ctrl-C saves and stops all runs; the same command resumes them."""

    launcher: Literal["local", "ray"] = "local"
    """local: processes on this machine; ray: tasks on a Ray cluster."""
    jobs: int = 0
    """Runs in parallel. 0: one per core, or as many as the cluster has room for."""
    address: str | None = None
    """Ray: HOST:PORT of the head node, or auto on a node of the cluster. Without it, Ray is started here."""
    cpus: int = 1
    """Ray: CPUs per run, which are its threads."""
    gpus: float = 0.0
    """Ray: GPUs per run; 0.25 lets four runs share one."""
    retry: bool = False
    """Retry the runs that were set aside after three failures."""

    def __call__(self) -> int:
        from cbm.studies.board import Board
        from cbm.studies.drive import drive
        from cbm.studies.launch import Resources, make_launcher

        _fits(self)
        store, plan = _open(self)
        resources = Resources(self.root, self.jobs, self.cpus, self.gpus, self.address)
        board = Board(plan, store)
        result = drive(plan, store, make_launcher(self.launcher, resources), board, self.retry)
        console = board.console
        console.print(f"{plan.title}: {result.count('done')} of {len(plan.runs)} runs are done", highlight=False)
        _tell_set_aside(plan, store, console)
        if result.signal is not None:
            console.print("stopped; run the same command to resume", highlight=False)
            return 128 + result.signal
        if result.count("done") < len(plan.runs):
            return 1
        words = f"{self.name} --scale {plan.scale}" + ("" if self.root == StudyOptions.root else f" --root {self.root}")
        console.print(f"figures and tables: cbm study report {words}", highlight=False, soft_wrap=True)
        return 0


@dataclass(frozen=True)
class Report(StudyOptions):
    """Write figures and tables of the results so far, with the paper's numbers next to them."""

    output: Annotated[Path | None, arg(aliases=["-o"])] = None
    """Folder for the report. None: ROOT/STUDY-SCALE/report."""

    def __call__(self) -> int:
        from cbm.studies.report import write_report

        store, plan = _open(self)
        written = write_report(plan, store, self.output or store.root / plan.title / "report")
        print(f"wrote {written[0]}, and {len(written) - 1} files next to it")
        return 0


@dataclass(frozen=True)
class Archive(StudyOptions):
    """Copy the records of finished runs (configuration, returns, metrics) to a folder that is small enough to keep.

    It is a folder of studies too: `cbm study report --root FOLDER` reads it, and `run` counts its runs as done.
    """

    output: Annotated[Path, arg(aliases=["-o"])] = MISSING
    """Folder for the records. What is already there is kept."""

    def __call__(self) -> int:
        from cbm.studies.store import Store

        store, plan = _open(self)
        done = [run for run in plan.runs if store.is_done(run)]
        if not done:
            raise CBMError(f"no run of {plan.title} is done yet in {self.root}, so there is nothing to archive.")
        for run in done:
            store.archive(run, Store(self.output))
        print(f"{self.output}: the records of {len(done)} of {len(plan.runs)} runs of {plan.title}")
        return 0


def study(args: Annotated[List | Show | Run | Report | Archive, arg(name="")]) -> int:
    """The paper's experiments, or your own, on one machine or on a Ray cluster."""
    return args()


def _open(args: StudyOptions) -> tuple[Store, Plan]:
    from cbm.studies.define import Choice
    from cbm.studies.file import find_study
    from cbm.studies.store import Store

    store = Store(args.root)
    typed = tuple(overrides(args.set))
    choice = Choice(args.scale, args.tasks, args.methods, args.variants, args.seeds, typed)
    plan = store.plan(find_study(args.name), choice)
    for run in plan.runs:
        trust(module_of(run.config["env"]["env_id"]))  # the study is the user's own
    return store, plan


def _fits(args: Run) -> None:
    """An option that would be ignored is an error."""
    if args.launcher == "local":
        for name in ("address", "cpus", "gpus"):
            if getattr(args, name) != getattr(Run, name):
                raise CBMError(f"--{name} works only with --launcher ray.")
    elif args.address is not None and args.address.startswith("ray://"):
        raise CBMError(
            "Ray's client (ray://) is not supported: start the study on a node of the cluster, with --address auto."
        )


def _tell_set_aside(plan: Plan, store: Store, console: Console) -> None:
    for run in plan.runs:
        state = store.state(run)
        if state.kind == "set aside":
            console.print(
                f"set aside after {state.failures} failures: {run.label}: {state.error}\n"
                f"  its output: {store.log(run)}; to try again, add --retry",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )

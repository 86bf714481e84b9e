"""Verbs about the environments: doctor, preview, videos."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from rich.progress import track
from rich.table import Table
from tyro import MISSING
from tyro.conf import Positional, arg

from cbm.cli.conditions import ConditionArgs

OutputPath = Annotated[Path | None, arg(aliases=["-o"])]


def doctor(as_json: Annotated[bool, arg(name="json")] = False) -> int:
    """Check versions, rendering, videos, cores and GPU, and say how to fix what is wrong.

    Args:
        as_json: print the findings as one JSON object.
    """
    from cbm.cli.doctor import can_train, examine

    console = Console()
    with console.status("checking ...") if not as_json else nullcontext():
        findings = examine()
    able = can_train(findings)
    if as_json:
        print(json.dumps({"can_train": able, "findings": list(map(asdict, findings))}, indent=2))
        return 0 if able else 1
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        mark = "[green]ok[/]" if finding.ok else "[red]missing[/]" if finding.needed else "[yellow]note[/]"
        table.add_row(mark, finding.what, finding.found)
    console.print(table)
    for fix in dict.fromkeys(finding.fix for finding in findings if not finding.ok and finding.fix):
        fixed = [finding for finding in findings if finding.fix == fix and not finding.ok]
        what = ", ".join(finding.what for finding in fixed)
        console.print(f"\n{what}: {'to fix it' if any(f.needed for f in fixed) else 'if you want it'}, type")
        console.print(f"  {fix}", style="bold", markup=False, soft_wrap=True)
    console.print("\ntraining can run here" if able else "\ntraining cannot run here yet", style="bold")
    return 0 if able else 1


@dataclass(frozen=True)
class PreviewArgs(ConditionArgs):
    """What to draw."""

    task: str = MISSING
    """A task such as cartpole-swingup, or `all` for one picture of six tasks under every distraction."""
    distraction: str = "easy"
    split: str = "train"
    """Show train or unseen videos."""
    size: int = 84
    """Size of a frame, in pixels."""
    episodes: int = 4
    """Rows of the sheet."""
    columns: int = 6
    """Frames per episode."""
    seed: int = 0
    """Seed of the first episode."""
    output: OutputPath = None
    """A .png for the sheet, or an .mp4 for a film only. None: preview.png. --dynamic adds a film to the sheet."""


def preview(args: Annotated[PreviewArgs, arg(name="")]) -> int:
    """Draw what the agent will see under random actions: a contact sheet, and a film if distractions move."""
    from cbm.envs.preview import contact_sheet, film, overview, watch
    from cbm.errors import CBMError
    from cbm.schema.ranges import Range
    from cbm.schema.tree import check
    from cbm.system.files import check_output

    path = Path("preview.png") if args.output is None else args.output
    if path.suffix not in (".png", ".jpg", ".mp4"):
        raise CBMError(f"-o {path}: the name must end in .png, .jpg or .mp4.")
    check(Annotated[int, Range(1, 1_000)], args.episodes, "--episodes")
    check(Annotated[int, Range(1, 1_000)], args.columns, "--columns")
    check(Annotated[int, Range(0, 2**31)], args.seed, "--seed")
    check(Annotated[int, Range(4, 1_024)], args.size, "--size")
    check_output(path)
    if args.task == "all":
        with Console().status("drawing six tasks ..."):
            overview(args.seed).save(path)
        print("wrote", path)
        return 0
    options = {"task": args.task, **args.conditions(), "split": args.split, "size": args.size, "frame_stack": 1}
    as_film = args.dynamic or path.suffix == ".mp4"
    steps = 120 if as_film else 40
    drawn = watch(options, args.episodes, steps, args.seed)
    shown = list(track(drawn, "drawing", total=args.episodes, transient=True))
    written = []
    if path.suffix != ".mp4":
        what = f"{args.task}   {args.distraction} ({'dynamic' if args.dynamic else 'static'})"
        seeds = f"seeds {args.seed}-{args.seed + args.episodes - 1}"
        contact_sheet(f"{what}   {args.split} videos: {args.videos}   {seeds}", shown, args.columns).save(path)
        written.append(path)
    if as_film:
        film(path.with_suffix(".mp4"), shown)
        written.append(path.with_suffix(".mp4"))
    print("wrote", ", ".join(map(str, written)))
    return 0


def videos(
    action: Positional[Literal["list", "show", "measure", "download"]] = "list",
    source: Positional[str] = "builtin",
    split: Literal["train", "unseen"] | None = None,
    output: OutputPath = None,
    apart: int = 3,
    as_json: Annotated[bool, arg(name="json")] = False,
    to: Path | None = None,
    url: str | None = None,
    sha256: str | None = None,
) -> int:
    """List the video sources, draw one (`show`), measure how busy it is, or fetch DAVIS (`download davis`).

    Args:
        action: list, show, measure or download.
        source: builtin, davis, davis:FOLDER, or a folder.
        split: which videos to show (None: train) or to measure (None: both).
        output: where `show` writes its picture (None: videos.png).
        apart: distance in frames that `measure` compares; use 1 for a source with every third frame of its films.
        as_json: print the measures as one JSON object.
        to: where `download` puts the data set (None: the cache, where `davis` finds it).
        url: another address of the archive.
        sha256: the checksum that the archive must have.
    """
    from cbm.envs.videos import contact_sheet, list_sources, open_source
    from cbm.envs.videos.download import DAVIS_URL, download_davis
    from cbm.errors import CBMError, UnknownChoice
    from cbm.schema.ranges import Range
    from cbm.schema.tree import check
    from cbm.system.files import check_output

    if action != "download" and (to, url, sha256) != (None, None, None):
        raise CBMError("--to, --url and --sha256 work only with `cbm videos download davis`.")
    if action != "measure" and (apart != 3 or as_json):
        raise CBMError("--apart and --json work only with `cbm videos measure`.")
    if action != "show" and output is not None:
        raise CBMError("-o works only with `cbm videos show`.")
    check(Annotated[int, Range(1, 10_000)], apart, "--apart")
    if action == "list":
        table = Table("source", "training", "unseen", "where", box=None, pad_edge=False)
        for row in list_sources():
            table.add_row(row.name, str(row.train), str(row.unseen), row.where)
        table.add_row("FOLDER", "", "", "any folder of videos or of image folders: --videos ./my-videos")
        Console().print(table)
    elif action == "show":
        path = Path("videos.png") if output is None else output
        if path.suffix not in (".png", ".jpg"):
            raise CBMError(f"-o {path}: the name must end in .png or .jpg.")
        check_output(path)
        with Console().status(f"drawing the {split or 'train'} videos of {source} ..."):
            contact_sheet(open_source(source), split or "train").save(path)
        print("wrote", path)
    elif action == "measure":
        _measure(source, split, apart, as_json)
    else:
        if source != "davis":
            raise UnknownChoice("data set to download", source, ("davis",))
        where = download_davis(to, url=DAVIS_URL if url is None else url, sha256=sha256)
        print(f"DAVIS is in {where}; use it with --videos davis" + ("" if to is None else f":{where}"))
    return 0


def _measure(spec: str, split: Literal["train", "unseen"] | None, apart: int, as_json: bool) -> None:
    from cbm.envs.videos import open_source
    from cbm.envs.videos.measure import all_names, measure_clip, median

    source = open_source(spec)
    names = all_names(source) if split is None else source.names(split)
    waiting = track(names, "measuring", console=Console(stderr=True), transient=True)
    clips = {name: measure_clip(source.clip(name), apart=apart) for name in waiting}
    middle = median(list(clips.values()))
    if as_json:
        rows = {name: measures.to_json() for name, measures in clips.items()}
        print(json.dumps({"source": spec, "apart": apart, "median": middle.to_json(), "clips": rows}, indent=2))
        return
    table = Table("clip", *(key.replace("_", " ") for key in middle.to_json()), box=None, pad_edge=False)
    for name, measures in [*clips.items(), (f"median of {len(clips)}", middle)]:
        table.add_row(name, *(f"{value:.2f}" for value in measures.to_json().values()))
    Console().print(table)

"""Verbs about the environments: preview, videos."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from rich.progress import track
from rich.table import Table
from tyro import MISSING
from tyro.conf import Positional, arg

from cbm.cli.conditions import ConditionArgs
from cbm.errors import CBMError, UnknownChoice
from cbm.schema.ranges import Range
from cbm.schema.tree import check
from cbm.system.files import check_output

OutputPath = Annotated[Path | None, arg(aliases=["-o"])]


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

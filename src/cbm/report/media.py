"""Films, pictures and embeddings of runs: what there is, and what fits into a page.

A page that is served takes them from the disk. A page that is a file contains them, unchanged if they all fit.
Otherwise they are made smaller and added, the best run of each setting first, until the page is full or has a few
hundred of them. The page names what is left out.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from cbm.report.data import final_return, rounded, run_id
from cbm.runs.read import Problem, Run
from cbm.system.files import Unreadable, read_file, read_object

Kind = Literal["film", "figure", "tsne", "frames"]
CAPTIONS: dict[str, str] = {  # in this order on the page; others follow
    "gallery": "observations nearest to prototypes",
    "saliency": "where the encoder looks",
    "ch_index": "CH index over training",
    "probes": "what can be read from the latents",
    "assignments": "assignments to prototypes",
    "generalization": "returns on unseen videos",
    "robustness": "returns over a grid of conditions",
    "gallery_all": "observations nearest to every prototype",
}
_FILM_HEIGHT, _PICTURE_WIDTH, _FRAME = 200, 1000, 40  # pixels, when made smaller
_SMALL_FILM = 60_000  # bytes; a film below this size stays as it is
_MOST_PIXELS = 80_000_000
_MOST_SHRUNK = 400  # media; each takes a fifth of a second
_POSTER_WIDTH = 360  # pixels, about the width of a card
_MOST_FILM_PIXELS = 16_000_000  # a larger film has no still
POSTER_TYPE = "image/webp"
TYPES = {".mp4": "video/mp4", ".png": "image/png", ".svg": "image/svg+xml"}


@dataclass(frozen=True)
class Medium:
    """One film, picture, sheet of frames or embedding of a run."""

    run: str  # its id
    kind: Kind
    name: str
    path: Path
    root: Path  # of its run
    type: str
    about: Mapping[str, Any] = field(default_factory=dict)  # what else the page needs to know to show it

    @property
    def key(self) -> str:
        return f"{self.run}/{self.kind}/{self.path.name}"

    def read(self) -> bytes:
        return read_file(self.path, self.root)

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "type": self.type, **self.about}


def media_of(run: Run, problems: list[Problem]) -> list[Medium]:
    """The media of a run, in the order in which the page shows them."""
    own = run_id(run)
    files = {path.name: path for paths in run.figures.values() for path in paths}
    found = []
    for path in reversed(run.films):
        match = re.search(r"(\d{6,})$", path.stem)
        step = {} if match is None else {"step": int(match.group(1))}
        found.append(Medium(own, "film", path.stem, path, run.path, TYPES[".mp4"], step))
    embedding = files.get("tsne.csv")
    if embedding is not None:
        found.append(Medium(own, "tsne", "tsne", embedding, run.path, "application/json"))
        sheet, layout = files.get("tsne_frames.png"), files.get("tsne_frames.json")
        if sheet and layout and (about := _sheet_layout(layout, run.path, problems)):
            found.append(Medium(own, "frames", "tsne_frames", sheet, run.path, TYPES[".png"], about))
    rank = {name: index for index, name in enumerate(CAPTIONS)}
    for name in sorted(run.figures, key=lambda name: (rank.get(name, len(rank)), name)):
        if name == "tsne_frames" or (embedding is not None and name.startswith("tsne")):
            continue
        if picture := files.get(f"{name}.png") or files.get(f"{name}.svg"):
            caption = CAPTIONS.get(name, name.replace("_", " "))
            found.append(Medium(own, "figure", name, picture, run.path, TYPES[picture.suffix], {"caption": caption}))
    return found


def _sheet_layout(path: Path, root: Path, problems: list[Problem]) -> dict[str, int] | None:
    """How many frames are on the sheet, their size, and the number of columns."""
    try:
        read = read_object(path, root)
        layout = {name: int(read[name]) for name in ("width", "height", "columns", "count")}
        if min(layout.values()) < 1:
            raise ValueError
    except (Unreadable, ValueError, TypeError, KeyError):
        problems.append(Problem(path, "does not say where the frames are (width, height, columns, count); left out"))
        return None
    return layout


def read_embedding(data: bytes) -> str:
    """tsne.csv as JSON, column by column. Raises ValueError for any other file."""
    table = csv.DictReader(io.StringIO(data.decode(errors="replace"), newline=""))
    try:
        rows = [row for row in table if None not in (_number(row.get("x"), 4), _number(row.get("y"), 4))]
    except csv.Error as error:
        raise ValueError(f"is not a table: {error}") from None
    if not rows:
        raise ValueError("has no points (columns x and y)")
    names = sorted({row.get("background") or "" for row in rows})
    columns: dict[str, list[Any]] = {
        "x": [_number(row["x"], 4) for row in rows],
        "y": [_number(row["y"], 4) for row in rows],
        "prototype": [1 if row.get("kind") == "prototype" else 0 for row in rows],
        "backgrounds": names,
        "background": [names.index(row.get("background") or "") for row in rows],
    }
    for name in ("value", "step", "frame", "episode"):
        numbers = [_number(row.get(name), 5) for row in rows]
        if any(number is not None for number in numbers):
            columns[name] = numbers
    return json.dumps(columns, separators=(",", ":"), allow_nan=False)


def _number(text: str | None, digits: int) -> float | int | None:
    try:
        return rounded(float(text or ""), digits)
    except ValueError:
        return None


def embed(
    media: Sequence[Medium], runs: Sequence[Mapping[str, Any]], budget: int, problems: list[Problem]
) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
    """The media of these runs that fit into `budget` bytes of page, as the texts of its elements, by their ids.

    Also what the page must know of each medium, by its key: its element, a still, what shrinking changed; or that it
    is left out.
    """
    texts: dict[str, str] = {}
    about: dict[str, dict[str, Any]] = {}
    whole = sum(_text_size(medium) for medium in media) <= budget
    for medium in media if whole else _by_importance(media, runs):
        if budget <= 0 or (not whole and len(texts) >= _MOST_SHRUNK):
            about[medium.key] = {"left_out": True}
            continue
        try:
            data, changed = _content(medium, shrink=not whole)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            problems.append(Problem(medium.path, f"cannot be shown ({reason}); left out"))
            continue
        text = data if isinstance(data, str) else base64.b64encode(data).decode()
        size = len(text) + len(changed.get("poster", ""))
        if size > budget:
            about[medium.key] = {"left_out": True}
            if size < 100_000:  # hardly anything else will fit; do not try it all
                budget = 0
            continue
        budget -= size
        about[medium.key] = changed | {"embed": f"m{len(texts)}"}
        texts[f"m{len(texts)}"] = text
    return texts, about


def _text_size(medium: Medium) -> int:
    try:
        size = medium.path.lstat().st_size
    except OSError:
        return 0
    return size if medium.kind == "tsne" else size * 4 // 3 + 4  # base64


def _by_importance(media: Sequence[Medium], runs: Sequence[Mapping[str, Any]]) -> Iterable[Medium]:
    """One of each kind from the best run of each task, method and distraction first; then the others."""
    place: dict[str, int] = {}  # of each run among those alike
    alike: dict[tuple[str, ...], int] = defaultdict(int)
    for run in sorted(runs, key=final_return, reverse=True):
        same = run["task"], run["method"], run["distraction"]
        place[run["id"]] = alike[same]
        alike[same] += 1
    kinds = ("film", "gallery", "tsne", "frames", "saliency", "assignments")
    count: dict[tuple[str, str], int] = defaultdict(int)
    order = []
    for medium in media:
        count[medium.run, medium.kind] += 1
        again = medium.kind == "film" and count[medium.run, medium.kind] > 1  # an older film of the same run
        sort = medium.name if medium.kind == "figure" else medium.kind
        rank = kinds.index(sort) if sort in kinds else len(kinds) + (medium.name == "gallery_all")
        order.append((place[medium.run] + again * len(runs), rank, medium))
    return [medium for *_, medium in sorted(order, key=lambda entry: entry[:2])]


def _content(medium: Medium, shrink: bool) -> tuple[bytes | str, dict[str, Any]]:
    """The bytes of a medium (JSON for an embedding), and what else the page must know."""
    if medium.kind == "tsne":
        return read_embedding(medium.read()), {}
    if medium.kind == "film":
        data = medium.read()
        still = poster(data)
        about = {} if still is None else {"poster": f"data:{POSTER_TYPE};base64,{base64.b64encode(still).decode()}"}
        return shrink_film(data) if shrink and len(data) > _SMALL_FILM else data, about
    if medium.type == TYPES[".svg"]:
        return medium.read(), {}
    return _picture(medium, shrink)


def poster(film: bytes) -> bytes | None:
    """The first frame as a small picture, so that playing begins with the still; None if it cannot be read."""
    import av

    try:
        with av.open(io.BytesIO(film), format="mp4") as source:  # no playlist, which could name any file
            stream = source.streams.video[0]
            if stream.width * stream.height > _MOST_FILM_PIXELS:
                return None
            picture = next(source.decode(video=0)).to_image()
    except (av.FFmpegError, IndexError, StopIteration, ValueError, AttributeError):  # the last: no decoder for it
        return None
    output = io.BytesIO()
    picture.thumbnail((_POSTER_WIDTH, picture.height), reducing_gap=None)
    picture.save(output, "WEBP", quality=60, method=2)
    return output.getvalue()


def shrink_film(data: bytes) -> bytes:
    """The same film, at most 200 pixels high and more compressed; unchanged if that does not make it smaller."""
    import av

    output = io.BytesIO()
    try:
        with av.open(io.BytesIO(data), format="mp4") as source, av.open(output, "w", format="mp4") as target:
            old = source.streams.video[0]
            scale = min(1.0, _FILM_HEIGHT / old.height)
            width, height = (max(2, round(side * scale / 2) * 2) for side in (old.width, old.height))
            new = target.add_stream("libx264", rate=Fraction(old.average_rate or 25))
            new.width, new.height, new.pix_fmt = width, height, "yuv420p"
            new.options = {"crf": "30", "preset": "veryfast"}
            for frame in source.decode(old):
                target.mux(new.encode(frame.reformat(width, height, "yuv420p")))
            target.mux(new.encode())
    except (av.FFmpegError, IndexError, AttributeError, ZeroDivisionError) as error:
        raise ValueError(f"not a film: {error}") from None
    small = output.getvalue()
    return small if len(small) < len(data) else data


def _picture(medium: Medium, shrink: bool) -> tuple[bytes, dict[str, Any]]:
    from PIL import Image

    data = medium.read()
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise ValueError("too large for a page")
            image.load()  # fails here, not in the page, if the picture is half-written
            if not shrink:
                return data, {}
            changed: dict[str, Any] = {"type": "image/webp"}
            if medium.kind == "frames":
                about = medium.about
                scale = min(1.0, _FRAME / max(about["width"], about["height"]))
                width, height = (max(1, round(side * scale)) for side in (about["width"], about["height"]))
                changed |= {"width": width, "height": height}
                size = (width * about["columns"], height * math.ceil(about["count"] / about["columns"]))
            else:
                scale = min(1.0, _PICTURE_WIDTH / image.width)
                size = (round(image.width * scale), max(1, round(image.height * scale)))
            if max(size) > 16_383:
                raise ValueError("too large for a page")
            output = io.BytesIO()
            paper = Image.new("RGBA", image.size, "white")
            paper.alpha_composite(image.convert("RGBA"))
            paper.convert("RGB").resize(size, Image.Resampling.LANCZOS).save(output, "WEBP", quality=70, method=2)
    except (Image.DecompressionBombError, SyntaxError) as error:
        raise ValueError(str(error)) from None
    small = output.getvalue()
    return (small, changed) if len(small) < len(data) or medium.kind == "frames" else (data, {})

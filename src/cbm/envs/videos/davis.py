"""DAVIS-2017 in its own folder layout, with its official lists (as the Distracting Control Suite uses them)."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from cbm.errors import CBMError

from .cache import cache_dir
from .clips import Clip, Split, check_name, check_split, media_files

_TRAIN = """
    bear bmx-bumps boat boxing-fisheye breakdance-flare bus car-turn cat-girl classic-car color-run crossing
    dance-jump dancing disc-jockey dog-agility dog-gooses dogs-scale drift-turn drone elephant flamingo hike hockey
    horsejump-low kid-football kite-walk koala lady-running lindy-hop longboard lucia mallard-fly mallard-water
    miami-surf motocross-bumps motorbike night-race paragliding planes-water rallye rhino rollerblade schoolgirls
    scooter-board scooter-gray sheep skate-park snowboard soccerball stroller stunt surf swing tennis tractor-sand
    train tuk-tuk upside-down varanus-cage walking
    """
_VAL = """
    bike-packing blackswan bmx-trees breakdance camel car-roundabout car-shadow cows dance-twirl dog dogs-jump
    drift-chicane drift-straight goat gold-fish horsejump-high india judo kite-surf lab-coat libby loading
    mbike-trick motocross-jump paragliding-launch parkour pigs scooter-black shooting soapbox
    """
TRAIN, VAL = tuple(_TRAIN.split()), tuple(_VAL.split())
LISTS: dict[Split, tuple[str, ...]] = {"train": TRAIN, "unseen": VAL}
FRAMES = Path("JPEGImages") / "480p"

HELP = "Get it with `cbm videos download davis`, point CBM_DAVIS at a copy, or use `--videos builtin`."


def default_root() -> Path:
    """`$CBM_DAVIS`, or else where `cbm videos download davis` puts it."""
    chosen = os.environ.get("CBM_DAVIS")
    return Path(chosen).expanduser() if chosen else cache_dir() / "davis"


def find_frames(root: Path) -> Path | None:
    """The folder with one folder per video, from the DAVIS root, its parent, or a folder inside it."""
    inner = [root / FRAMES, root / "DAVIS" / FRAMES]
    inner += [root / "480p"] if root.name == "JPEGImages" else []
    inner += [root] if root.name == "480p" and root.parent.name == "JPEGImages" else []
    return next((folder for folder in inner if folder.is_dir()), None)


class DavisSource:
    """The 60 training videos, and the 30 validation videos as the unseen ones."""

    name = "davis"

    def __init__(self, root: Path | str | None = None) -> None:
        self.root = default_root() if root is None else Path(root).expanduser()
        frames = find_frames(self.root)
        if frames is None:
            what = "does not exist" if not self.root.exists() else f"has no {FRAMES.as_posix()} folder"
            raise CBMError(f"no DAVIS videos: {self.root} {what}. {HELP}")
        self.frames = frames

    def files(self, name: str) -> tuple[Path, ...]:
        """The frames of a video, none if it is missing."""
        folder = self.frames / name
        return media_files(folder) if folder.is_dir() else ()

    def missing(self, split: Split) -> tuple[str, ...]:
        """Videos of the official list that this copy lacks."""
        check_split(split)
        return tuple(name for name in LISTS[split] if not (self.frames / name).is_dir())

    def names(self, split: Split) -> tuple[str, ...]:
        """The videos of the official list that are here, in its order. Warns when some are missing."""
        missing = self.missing(split)
        present = tuple(name for name in LISTS[split] if name not in missing)
        if not present:
            raise CBMError(f"none of the {len(missing)} {split} videos of DAVIS is in {self.frames}. {HELP}")
        if missing:
            warnings.warn(self._incomplete(split, missing), stacklevel=2)
        return present

    def clip(self, name: str) -> Clip:
        check_name(self.name, name, TRAIN + VAL)
        files = self.files(name)
        if not files:
            split: Split = "train" if name in TRAIN else "unseen"
            missing = self.missing(split)
            state = self._incomplete(split, missing) if name in missing else f"{self.frames / name} has no images"
            raise CBMError(f"the DAVIS video {name!r} cannot be used: {state}. {HELP}")
        return Clip(name, files)

    def _incomplete(self, split: Split, missing: tuple[str, ...]) -> str:
        shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        return f"{len(missing)} of the {len(LISTS[split])} {split} videos are missing from {self.frames} ({shown})"

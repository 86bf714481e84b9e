"""`cbm doctor`: what this machine has, how fast it renders, and how to fix what is wrong."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import time
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import psutil
from rich.console import Console
from rich.table import Table
from tyro.conf import arg

from cbm.errors import TRAIN_HINT, CBMError
from cbm.system.cores import cores

PACKAGES = ("mujoco", "dm_control", "gymnasium", "numpy", "av", "pillow")
TRAINING_PACKAGES = ("torch", "safetensors", "tensorboard", "scikit-learn", "matplotlib")


@dataclass(frozen=True)
class Finding:
    """One line of the report. `needed` ones that are not `ok` mean that training cannot run."""

    what: str
    found: str
    ok: bool = True
    needed: bool = True
    fix: str = ""


def doctor(as_json: Annotated[bool, arg(name="json")] = False) -> int:
    """Check versions, rendering, videos, cores and GPU, and say how to fix what is wrong.

    Args:
        as_json: print the findings as one JSON object.
    """
    console = Console()
    with console.status("checking ...") if not as_json else nullcontext():
        findings = examine()
    able = all(finding.ok for finding in findings if finding.needed)
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


def examine() -> list[Finding]:
    """Check everything. A check that fails becomes a finding, not a traceback."""
    findings: list[Finding] = []
    parts = {"python and packages": _packages, "machine": _machine, "rendering": _rendering, "videos": _videos}
    for what, look in parts.items():
        try:
            findings += look()
        except CBMError as error:
            findings.append(Finding(what, str(error), ok=False, fix=str(error).rpartition("type: ")[2]))
        except Exception as error:
            findings.append(Finding(what, f"{type(error).__name__}: {error}", ok=False, fix="see the message"))
    return findings


def _packages() -> list[Finding]:
    findings = [Finding("python", platform.python_version())]
    for names, fix in ((PACKAGES, "pip install cbm-rl"), (TRAINING_PACKAGES, TRAIN_HINT)):
        for name in names:
            try:
                findings.append(Finding(name, importlib.metadata.version(name)))
            except importlib.metadata.PackageNotFoundError:
                findings.append(Finding(name, "not installed", ok=False, fix=fix))
    if any(finding.what == "mujoco" and finding.found.startswith("4.") for finding in findings):
        findings.append(Finding("mujoco 4", "dm_control does not work with it", ok=False, fix='pip install "mujoco<4"'))
    return findings


def _machine() -> list[Finding]:
    memory = psutil.virtual_memory()
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    findings = [
        Finding("system", f"{platform.system()} {platform.machine()}"),
        Finding("cores", f"{cores()} usable of {os.cpu_count()}"),
        Finding("memory", f"{memory.available / 2**30:.1f} GiB free of {memory.total / 2**30:.1f} GiB"),
        Finding("disk", f"{shutil.disk_usage(Path.cwd()).free / 2**30:.1f} GiB free here"),
        Finding(
            "C++ compiler",
            compiler or "none (training works without it)",
            ok=compiler is not None,
            needed=False,
            fix="" if compiler else "sudo apt-get install -y g++",
        ),
    ]
    try:
        import torch
    except ImportError:
        unknown = [Finding(what, "unknown without PyTorch", False, False, TRAIN_HINT) for what in ("GPU", "bfloat16")]
        return findings + unknown
    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none (training runs on the CPU)"
    return [*findings, Finding("GPU", gpu, needed=False), _bfloat16()]


def _bfloat16() -> Finding:
    """How convolutions in bfloat16 compare with those in 32 bits, forward and backward, on this processor."""
    import torch

    from cbm.learning.nets import Encoder

    obs = torch.randint(256, (64, 9, 64, 64), dtype=torch.uint8)
    encoders = [Encoder(obs.shape[1:], strides=(2, 2, 1, 1), mixed_precision=mixed) for mixed in (False, True)]

    def seconds(encoder: Encoder) -> float:
        start = time.perf_counter()
        encoder(obs).sum().backward()
        return time.perf_counter() - start

    turns = [[seconds(encoder) for encoder in encoders] for _ in range(8)]
    single, half = map(min, zip(*turns, strict=True))  # the fastest of each: other programs may be running
    faster = f"convolutions {single / half:.1f} times as fast as in 32 bits (--mixed-precision)"
    return Finding("bfloat16", faster, needed=False)


def _rendering() -> list[Finding]:
    from cbm.envs.make import make_env
    from cbm.envs.rendering import gl

    findings = [Finding("OpenGL", f"{gl.BACKEND} (available: {', '.join(gl.available())})")]
    for distraction in ("none", "easy"):
        with closing(make_env("cartpole-swingup", distraction)) as env:
            env.reset(seed=0)
            action = env.action_space.sample() * 0
            env.step(action)
            steps, start = 40, time.perf_counter()
            for _ in range(steps):
                env.step(action)
            rate = steps / (time.perf_counter() - start)
        findings.append(Finding(f"frames/s, {distraction}", f"{rate:.0f} (cartpole-swingup, 84x84, physics included)"))
    return findings


def _videos() -> list[Finding]:
    from cbm.envs.videos import list_sources
    from cbm.envs.videos.cache import cache_dir

    findings = [
        Finding(
            f"videos, {source.name}",
            f"{source.train} training, {source.unseen} unseen ({source.where})",
            ok=source.train > 0,
            needed=source.name == "builtin",
            fix="" if source.train > 0 else f"cbm videos download {source.name}",
        )
        for source in list_sources()
    ]
    return [*findings, Finding("cache", f"{cache_dir()} (set CBM_CACHE to move it)")]

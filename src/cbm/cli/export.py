"""The verb `cbm export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from tyro.conf import Positional, arg


def export(
    run: Positional[str],
    output: Annotated[Path | None, arg(aliases=["-o"])] = None,
    format: Literal["onnx", "pt2"] | None = None,
) -> int:
    """Write the policy of a run's newest checkpoint as one file: uint8 frames in, action out (docs/deploy.md).

    Args:
        run: run directory, or zoo:NAME.
        output: the file, .onnx or .pt2. None: policy.onnx.
        format: onnx, or pt2 for torch.export. None: what the file name ends in.
    """
    from cbm.runs.export import CHECKED
    from cbm.runs.export import export as write

    path = Path(f"policy.{format or 'onnx'}") if output is None else output
    console = Console(stderr=True)
    with console.status("exporting ...") as status:
        done = write(run, path, format, report=lambda what: status.update(f"{what} ..."))
    print(
        f"{done.path}: {done.config.agent_name} on {done.config.env.name} at step {done.env_step}. On {CHECKED} "
        f"observations its actions differ from the agent's by at most {done.difference:.0e}."
    )
    if done.rounded:
        print("This run computes convolutions in bfloat16. The file computes in 32 bits, and was compared in 32 bits.")
    return 0

"""A notebook as a page of the site: text, code and what the code printed; pictures become files next to the page."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PICTURE = "image/png"


def page(path: Path) -> tuple[str, dict[str, bytes]]:
    """The page's text, and the pictures that it shows by their names, which begin with the name of the notebook."""
    pictures: dict[str, bytes] = {}
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if PICTURE in data:
                name = f"{path.stem}/{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode("".join(data[PICTURE]))
                parts.append(f"![{cell['metadata']['alt']}]({name}){width(output)}")
            else:
                text = "".join([*printed(output)]).rstrip("\n")
                parts.append(f"``` {{ .text .no-copy .output }}\n{text}\n```")
    return "\n\n".join(parts) + "\n", pictures


def printed(output: dict[str, Any]) -> Iterator[str]:
    """The text of an output, as the notebook shows it."""
    yield from output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"]


def width(output: dict[str, Any]) -> str:
    """The width in pixels that the cell asked for."""
    pixels = output.get("metadata", {}).get(PICTURE, {}).get("width")
    return f"{{ width={pixels} }}" if pixels else ""

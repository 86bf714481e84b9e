"""The page about the metrics, collected from the section "Metrics" of every method's page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

MARK = "<!-- every metric -->"


def fill(text: str, methods: Path) -> str:
    """The page's text, with one table of all metrics in the place of the mark."""
    if MARK not in text:
        raise ValueError(f"the page about the metrics has no {MARK}")
    meanings: dict[str, dict[str, list[str]]] = {}
    for path in sorted(methods.glob("*.md")):
        title = path.read_text().partition("\n")[0].removeprefix("# ").partition(":")[0]
        for names, meaning in rows(path.read_text()):
            pages = meanings.setdefault(names, {}).setdefault(meaning, [])
            pages.append(f"[{title}](../methods/{path.name})")
    lines = ["| metric | meaning | logged by |", "|---|---|---|"]
    for names in sorted(meanings):
        for meaning, pages in meanings[names].items():
            lines.append(f"| {names.replace(', ', '<br>')} | {meaning} | {', '.join(pages)} |")
    return text.replace(MARK, "\n".join(lines))


def rows(page: str) -> Iterator[tuple[str, str]]:
    """Name and meaning of each metric in a page's section "Metrics"; what is healthy, a third column, is added."""
    section = page.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    for line in section.splitlines():
        if line.startswith("| `"):
            names, *rest = (part.strip() for part in re.split(r"(?<!\\)\|", line.strip().strip("|")))
            meaning = rest[0] + (f". Healthy: {rest[1]}" if len(rest) > 1 and rest[1] else "")
            yield names, relink(meaning)


def relink(text: str) -> str:
    """Links of a page in methods/ as links of a page in reference/."""
    return re.sub(r"\]\((?!https?:|#|\.\./)", "](../methods/", text)

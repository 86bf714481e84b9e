"""Pages are written for people who read them in the repository, too. Here they become pages of the site.

Links to files that are not part of the site (source code, benchmark results, folders) lead to pages with what is in
them. The lists and tables of GitHub's Markdown get the blank lines and the indentation that Python-Markdown wants.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TUTORIAL = DOCS / "tutorial.ipynb"  # a page, tutorial.md
FOLDER = "repository"  # of the site, for files of the repository
# Files beside docs/ that are pages of the site under another name.
RENAMED = {
    "README.md": "index.md",
    "CHANGELOG.md": "about/changelog.md",
    "CONTRIBUTING.md": "about/contributing.md",
    "SECURITY.md": "about/security.md",
}
SHOWN = {".png", ".jpg", ".svg", ".webp", ".mp4", ".md"}  # links to these inside docs/ are left as they are
LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".yml": "yaml", ".csv": "text"}
LINK = re.compile(r"(?P<open>\]\(|(?:src|href)=\")(?P<target>[^)\s\"#]+)(?P<anchor>#[^)\s\"]*)?(?=[)\"])")
FENCE = re.compile(r"\s*(```+|~~~+)")
ITEM = re.compile(r"(?P<indent> *)(?P<marker>[-*+]|\d+\.) +(?=\S)")
RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$")


def site_name(path: Path) -> str | None:
    """The name in the site of a file or folder of the repository; None where there is no such file."""
    if not path.exists() or not path.is_relative_to(ROOT):
        return None
    name = path.relative_to(ROOT).as_posix()
    if name in RENAMED:
        return RENAMED[name]
    if path == TUTORIAL:
        return "tutorial.md"
    if path.is_relative_to(DOCS) and path.suffix in SHOWN:
        return path.relative_to(DOCS).as_posix()
    return f"{FOLDER}/{name}.md"


def relink(text: str, origin: Path, here: str, seen: Callable[[Path], None] = lambda path: None) -> str:
    """The links of a text from the folder `origin`, for the page `here`. Those that lead nowhere stay as they are."""

    def replace(match: re.Match[str]) -> str:
        target, anchor = match["target"], match["anchor"] or ""
        if re.match(r"[a-z]+:|//", target):
            return match[0]
        path = (origin / target).resolve()
        name = site_name(path)
        if name is None:
            return match[0]
        if name.startswith(FOLDER + "/"):
            seen(path)
        return match["open"] + posixpath.relpath(name, posixpath.dirname(here) or ".") + anchor

    return "".join(part if is_code else LINK.sub(replace, part) for is_code, part in pieces(text))


def pieces(text: str) -> Iterator[tuple[bool, str]]:
    """A text line by line; each line with whether it is code."""
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            yield True, line
            fence = "" if fence else mark[1]
        else:
            yield bool(fence), line


def for_python_markdown(text: str) -> str:
    """GitHub's Markdown as Python-Markdown reads it: a blank line before lists and tables, four spaces in lists."""
    lines = list(pieces(text))
    result: list[str] = []
    stack: list[int] = []  # where the text of each open list item begins
    for index, (is_code, line) in enumerate(lines):
        before = result[-1].strip() if result else ""
        if not line.strip():
            result.append(line)
            continue
        indent = len(line) - len(line.lstrip(" "))
        item = None if is_code else ITEM.match(line)
        inside = bool(stack)
        if not is_code or FENCE.match(line):
            while stack and indent < stack[-1] and (item or not before or FENCE.match(line)):
                stack.pop()
        depth = len(stack)
        cut = min(indent, stack[-1] if stack else 0)
        if (
            item
            and before
            and not stack
            and not starts_item(result[-1])
            and item["marker"] not in ("-", "*", "+", "1.")
        ):
            item = None  # a paragraph whose line happens to begin with a number
        table = not is_code and index + 1 < len(lines) and "|" in line and RULE.match(lines[index + 1][1])
        opens = item and not stack and not starts_item(result[-1] if result else "")
        closes = inside and not stack and not item
        if before and (opens or closes or (table and "|" not in before)):
            result.append("\n")
        result.append("    " * depth + line[cut:] if depth else line)
        if item:
            stack.append(item.end())
    return "".join(result)


def starts_item(line: str) -> bool:
    """Also its further lines, which are indented."""
    return bool(ITEM.match(line)) or line.startswith(" ")


def file_page(path: Path) -> str:
    """A page that shows a file, or what is in a folder. The search leaves it out."""
    name = path.relative_to(ROOT).as_posix()
    head = f"---\nsearch:\n  exclude: true\nhide:\n  - toc\n---\n\n# `{name}`\n\n"
    if path.is_dir():
        files = sorted(inner for inner in path.rglob("*") if inner.is_file() and "__pycache__" not in inner.parts)
        rows = [f"| `{inner.relative_to(path).as_posix()}` | {size(inner)} |" for inner in files]
        return (
            f"{head}{len(files)} files in this folder of the repository:\n\n| file | size |\n|---|---|\n"
            + "\n".join(rows)
        )
    text = path.read_text().rstrip("\n")
    fence = "`" * (1 + max([2, *map(len, re.findall(r"`+", text))]))
    return f"{head}{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text}\n{fence}\n"


def size(path: Path) -> str:
    return f"{path.stat().st_size / 1000:,.1f} kB"

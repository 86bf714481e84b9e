"""What MkDocs calls while it builds the site: pages made by programs, and links into the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import api
import commands
import metrics
import notebook_page
import repository
from mkdocs.structure.files import File, Files
from repository import DOCS, RENAMED, ROOT, TUTORIAL

FILLED = {"reference/metrics.md": lambda text: metrics.fill(text, DOCS / "methods"), "reference/api.md": api.fill}
made: set[str] = set()  # names of pages whose text is ready; their links are those of the site


def on_files(files: Files, config: Any) -> Files:
    made.clear()
    add(files, config, "reference/commands.md", commands.page())
    for uri, fill in FILLED.items():
        text = fill(files.src_uris[uri].content_string)
        files.remove(files.src_uris[uri])
        add(files, config, uri, text)
    linked: set[Path] = set()
    for name, uri in RENAMED.items():
        if uri not in files.src_uris:
            add(files, config, uri, repository.relink((ROOT / name).read_text(), ROOT, uri, linked.add))
    text, pictures = notebook_page.page(TUTORIAL)
    page = repository.relink(text, DOCS, "tutorial.md", linked.add) + "\n[Download this notebook](tutorial.ipynb)\n"
    add(files, config, "tutorial.md", page)
    for name, picture in pictures.items():
        files.append(File.generated(config, name, content=picture))
    for file in list(files.documentation_pages()):
        if file.src_uri not in made:
            origin = (DOCS / file.src_uri).parent
            repository.relink(file.content_string, origin, file.src_uri, linked.add)
    for path in sorted(linked):
        add(files, config, str(repository.site_name(path)), repository.file_page(path))
    return files


def add(files: Files, config: Any, uri: str, text: str) -> None:
    files.append(File.generated(config, uri, content=text))
    made.add(uri)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    uri = page.file.src_uri
    if uri not in made:
        markdown = repository.relink(markdown, (DOCS / uri).parent, uri)
    return markdown if uri.startswith(repository.FOLDER + "/") else repository.for_python_markdown(markdown)

"""The documentation site: it builds without a warning, is complete, and works in a browser without a server."""

from __future__ import annotations

import pkgutil
import re
import shutil
import sys
from html import unescape
from pathlib import Path

import nbformat
import pytest

from cbm.cli import VERBS, main
from cbm.envs.adapt import PixelTask
from site_build import ROOT, build
from tutorial import TUTORIAL

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
SUBCOMMANDS = {"study": ("list", "show", "run", "report", "archive"), "zoo": ("list", "show", "add", "push", "pull")}


def text_of(site: Path, page: str) -> str:
    """What a reader sees of a page."""
    html = (site / page).read_text()
    return unescape(re.sub(r"<[^>]+>", "", html[html.index("<article") : html.index("</article>")]))


def pages(site: Path) -> list[str]:
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if path.name != "404.html")


def test_every_page_is_there(site):
    built = set(pages(site))
    files = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    written = {path for path in files if "raw" not in path.parts and path.name != "report.md"}  # of `make results`
    names = {path.with_name("index.md" if path.name == "README.md" else path.name) for path in written}
    assert {path.with_suffix(".html").as_posix() for path in names} <= built
    assert {
        "reference/commands.html",
        "about/changelog.html",
        "about/contributing.html",
        "about/security.html",
        "tutorial.html",
    } <= built


def test_nothing_is_fetched_from_elsewhere(site):
    """Links may lead out; scripts, styles, fonts and pictures may not."""
    for page in pages(site):
        html = (site / page).read_text()
        assert not re.findall(r"<(?:script|img|iframe|source|video)[^>]*src=\"(?:https?:)?//[^\"]*", html), page
        assert not re.findall(r"<link[^>]*href=\"(?:https?:)?//[^\"]*", html), page


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_of_every_command_is_on_its_page(verb, site, capsys):
    text = text_of(site, "reference/commands.html")
    for words in [[verb], *([verb, name] for name in SUBCOMMANDS.get(verb, ()))]:
        with pytest.raises(SystemExit) as end:
            main([*words, "--help"])
        assert end.value.code == 0
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*\b(?!\.\w)", capsys.readouterr().out)) - {"--help"}
        assert f"cbm {' '.join(words)}" in text
        assert not {option for option in options if option not in text}


def test_settings_metrics_and_names_are_on_their_pages(site):
    assert {"env.distraction", "agent.batch_episodes", "objective.prototypes"} <= set(
        text_of(site, "settings.html").split()
    )
    metrics = text_of(site, "reference/metrics.html")
    for method in (ROOT / "docs" / "methods").glob("*.md"):
        section = method.read_text().partition("## Metrics")[2]
        names = re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)
        assert method.name == "README.md" or names
        assert not {name for name in names if name not in metrics}, method
    api = text_of(site, "reference/api.html")
    for name in ("make_env", "load_agent", "CBMConfig", "sinkhorn_iterations", "make_config", "Distraction"):
        assert name in api


def test_links_into_the_repository_show_what_is_there(site):
    shown = text_of(site, "repository/src/cbm/objectives/cbm.py.html")
    assert "class CBM(Objective):" in shown
    linked = set(re.findall(r"href=\"([^\"#]+)", (site / "background/index.html").read_text()))
    assert "../repository/src/cbm/objectives/cbm.py.html" in linked


def names_of_code(text: str) -> set[str]:
    """What a page says is a file of the repository, or a name that Python knows."""
    files = re.findall(r"`((?:src|tests|docs)/[\w./+-]*\w|cbm/[\w/]+\.py)`", text)
    names = re.findall(r"`(cbm(?:\.[A-Za-z_]\w*)+)`", text)
    for module, imported in re.findall(r"^from (cbm[\w.]*) import ([\w, ]+)$", text, re.MULTILINE):
        names += [f"{module}.{name}" for name in re.split(r",\s*", imported)]
    return {*files, *names} - {"cbm.json", "cbm.agents", "cbm.objectives", "cbm.distractions"}  # also entry points


def is_there(name: str) -> bool:
    if "/" in name:
        return (ROOT / name).exists() or (ROOT / "src" / name).exists()
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


PROSE = [*ROOT.glob("*.md"), *(path for path in (ROOT / "docs").rglob("*.md") if "raw" not in path.parts), TUTORIAL]


def text_in(path: Path) -> str:
    if path != TUTORIAL:
        return path.read_text()
    return "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_and_names_in_the_text_exist(path):
    assert not {name for name in names_of_code(text_in(path)) if not is_there(name)}


def test_what_is_wrong_stops_the_build(tmp_path):
    """A dead link, an anchor that is gone, a file that is gone, a page that is in no menu."""
    root = tmp_path / "copy"
    shutil.copytree(ROOT / "docs", root / "docs", ignore=shutil.ignore_patterns("raw", "__pycache__"))
    (root / "docs" / "results" / "raw").mkdir()
    for name in ("mkdocs.yml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        shutil.copy(ROOT / name, root / name)
    for name in ("src", "benchmarks", "tests"):
        (root / name).symlink_to(ROOT / name)
    (root / "docs" / "orphan.md").write_text("# In no menu\n")
    with (root / "docs" / "faq.md").open("a") as page:
        page.write("\n[a](nowhere.md) [b](training.md#nowhere) [c](../src/cbm/nowhere.py) [d](../NOWHERE.md)\n")
    done = build(root, tmp_path / "site")
    assert done.returncode == 1
    for wrong in ("orphan.md", "'nowhere.md'", "#nowhere", "../src/cbm/nowhere.py", "../NOWHERE.md"):
        assert wrong in done.stderr


def test_a_name_that_is_gone_stops_the_build(tmp_path):
    """Our settings, one page."""
    settings = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[0].replace("hooks: [docs/hooks/build.py]", "")
    (tmp_path / "mkdocs.yml").write_text(settings.replace("paths: [src]", f"paths: [{ROOT / 'src'}]"))
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "index.md"
    for name, status in (("cbm.make_env", 0), ("cbm.no_such_name", 1)):
        page.write_text(f"# Names\n\n::: {name}\n")
        done = build(tmp_path, tmp_path / "site")
        assert done.returncode == status, done.stderr
    assert "cbm.no_such_name" in done.stderr


def test_home(site, browse):
    page = browse()
    assert page.title() == "CBM-RL"
    assert page.locator("h1").text_content().startswith("Reinforcement learning from pixels")
    assert page.locator("article img").first.evaluate("image => image.complete && image.naturalWidth > 100")
    assert page.locator(".doors a").count() == 6
    page.locator(".doors a", has_text="Methods").click()
    page.wait_for_url("**/methods/index.html")
    assert page.locator("h1").text_content().startswith("Methods")


def test_search_finds_something_without_a_server(browse):
    page = browse("faq.html")
    page.get_by_placeholder("Search").click()
    page.keyboard.type("sinkhorn")
    results = page.locator(".md-search-result__item")
    results.first.wait_for()
    titles = " ".join(results.locator("h1, h2").all_text_contents())
    assert "Prototypes and Sinkhorn" in titles
    assert "src/cbm" not in titles  # pages that show files are left out
    page.locator(".md-search-result__link", has_text="Prototypes and Sinkhorn").first.click()
    page.wait_for_url("**/background/clustering.html*")


def test_a_method_page(browse):
    page = browse("methods/cbm.html")
    assert page.locator("h1").text_content().startswith("CBM")
    sections = page.locator("article h2").all_text_contents()
    assert [section.split(" ")[0].rstrip("¶") for section in sections[:3]] == ["What", "Equations", "Settings"]
    assert page.locator("article table").count() >= 4
    assert page.locator(".md-tabs__item--active").text_content().strip() == "Methods"


def test_dark_colours(browse):
    def brightness(page):
        color = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", color)[:3]))

    page = browse("methods/cbm.html", color_scheme="dark")
    assert brightness(page) < 200
    page = browse("methods/cbm.html", color_scheme="light")
    assert brightness(page) > 700
    page.locator("label[title='Switch to dark colours']").click()
    assert brightness(page) < 200


WIDEST = ("index", "training", "settings", "speed", "results/index", "methods/cbm", "methods/index", "background/index")
WIDEST += (
    "tutorial",
    "reference/commands",
    "reference/api",
    "reference/metrics",
    "guides/environment",
    "about/changelog",
)


def test_no_page_is_wider_than_a_phone(site, browse):
    """Those with the widest tables, pictures and lines of code."""
    page = browse(**PHONE)
    wide = {}
    for name in WIDEST:
        page.goto(f"{site.as_uri()}/{name}.html")
        wide[name] = page.evaluate("document.documentElement.scrollWidth")
    assert wide == dict.fromkeys(WIDEST, PHONE["viewport"]["width"])
    page.goto(f"{site.as_uri()}/training.html")
    page.locator(".md-header__button[for=__drawer]").click()
    page.locator(".md-nav--primary").get_by_text("Evaluate and film").wait_for()


def test_the_script_of_the_figures_works(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "background"))
    import figures

    for path in figures.draw(["sinkhorn", "epsilon"], tmp_path):
        assert path.stat().st_size > 5_000
    committed = {path.stem for path in (ROOT / "docs" / "images" / "background").glob("*.png")}
    assert committed == set(figures.FIGURES)
    sys.modules.pop("figures")


@pytest.mark.filterwarnings("ignore:.*symmetric and normalized space")
def test_the_environment_of_the_guide_is_one(tmp_path, monkeypatch):
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    guide = (ROOT / "docs" / "guides" / "environment.md").read_text()
    (tmp_path / "my_env.py").write_text(guide.partition("```python\n")[2].partition("```")[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    env = PixelTask(gymnasium.make("my_env:Dot-v0"), size=24, frame_stack=3, action_repeat=1)
    assert env.reset(seed=0)[0].shape == (9, 24, 24)
    check_env(gymnasium.make("my_env:Dot-v0").unwrapped, skip_render_check=True)
    total, over = 0.0, False
    while not over:
        _, reward, _, over, _ = env.step(env.action_space.sample())
        total += reward
    assert 0 < total < 20


@pytest.fixture
def repository(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "hooks"))
    import repository

    return repository


def test_the_lists_of_github_are_lists_of_the_site(repository):
    from markdown import markdown

    text = """Two things:
- one,
  which goes on
- two
```
- not a list
```
1. first:
   ```
   code
   ```
   after it
2. second
   - inner

Numbers may end a line, such as
255. That begins no list.
| a | b |
|---|---|
| 1 | 2 |
"""
    html = markdown(repository.for_python_markdown(text), extensions=["tables", "pymdownx.superfences"])
    assert html.count("<ul>") == 2
    assert html.count("<ol>") == 1
    assert html.count("<li>") == 5
    assert "<p>Two things:</p>" in html
    assert html.count("<code>") + html.count("highlight") >= 2
    assert "255. That begins no list." in html
    assert "<td>2</td>" in html


def test_links_are_those_of_the_site(repository):
    text = (
        "[a](../src/cbm/errors.py) [b](methods/cbm.md#settings) [c](../CHANGELOG.md) [d](https://x.org) [e](gone.md)\n"
    )
    seen = []
    done = repository.relink(text, ROOT / "docs", "training.md", seen.append)
    assert done == (
        "[a](repository/src/cbm/errors.py.md) [b](methods/cbm.md#settings) [c](about/changelog.md) "
        "[d](https://x.org) [e](gone.md)\n"
    )
    assert [path.name for path in seen] == ["errors.py"]
    code = "```\n[a](../src/cbm/errors.py)\n```\n"
    assert repository.relink(code, ROOT / "docs", "training.md") == code


def test_links_of_the_readme_lead_somewhere(repository):
    """It is no page of the site, so the build does not look at them."""
    targets = [match["target"] for match in repository.LINK.finditer((ROOT / "README.md").read_text())]
    local = [target for target in targets if not target.startswith("http")]
    assert len(local) > 5
    assert not [target for target in local if not (ROOT / target).exists()]


@pytest.fixture(scope="session")
def known_options() -> dict[str, set[str]]:
    """Those of every verb, with those of its subcommands."""
    sys.path.insert(0, str(ROOT / "docs" / "hooks"))
    import commands

    sys.path.pop(0)
    known = {}
    for verb in VERBS:
        parser = commands.parser_of(verb)
        parsers = [parser, *(inner for _, inner in commands.subcommands(parser))]
        known[verb] = {word for each in parsers for action in commands.options(each) for word in action.option_strings}
        known[verb] |= {"--help"}
    return known


def wrong_options(text: str, known: dict[str, set[str]], settings: str) -> list[str]:
    """Options in the commands of a text that their verb does not have, and settings that do not exist."""
    wrong = []
    for verb, rest in re.findall(r"(?<![\w./-])cbm ([a-z]+)((?: +[^\n`#]*)?)", text.replace("\\\n", " ")):
        for option in re.findall(r"(?<![\w-])--?[a-z][\w.-]*", rest) if verb in VERBS else ():
            there = f"`{option[2:].replace('-', '_')}`" in settings if "." in option else option in known[verb]
            wrong += [] if there else [f"cbm {verb} {option}"]
    return wrong


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_in_the_text_exist(path, known_options):
    settings = (ROOT / "docs" / "settings.md").read_text()
    assert not wrong_options(text_in(path), known_options, settings)


def test_commands_that_do_not_exist_are_found(known_options):
    text = (
        "`cbm eval RUN --episode 3`\n```\ncbm train --agent.lr 1 \\\n  --agent.no_such 2 --task x   # --not-this\n```\n"
    )
    found = wrong_options(text, known_options, "| `agent.lr` |")
    assert found == ["cbm eval --episode", "cbm train --agent.no_such"]

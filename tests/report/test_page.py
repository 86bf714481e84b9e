"""The page in a real browser."""

from __future__ import annotations

import json

import pytest

from cbm.cli import main
from synthetic import write_run
from waiting import until

NASTY = "</script><script>alert('run')</script><img src=x onerror=alert(1)>\u2028{{script}}".replace("/", "∕")


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """A page of eight runs in all states, with one of everything."""
    root = tmp_path_factory.mktemp("runs")
    for agent in ("drqv2+cbm", "drqv2"):
        for seed in (0, 1):
            write_run(root / f"{agent}-s{seed}", agent, "cartpole-swingup", seed, analysed=seed == 0)
    write_run(root / "walker", "drqv2", "walker-walk", 0)
    write_run(root / "clean", "drqv2", "walker-walk", 0, distraction="none", splits=("train",))
    failed = write_run(root / NASTY, "drqv2", "walker-walk", 7, reached=30_000)
    (failed / "ended.json").write_text(json.dumps({"how": "failed", "reason": "loss/critic is <b>nan</b>"}))
    killed = write_run(root / "killed", "drqv2+cbm", "walker-walk", 8, reached=50_000)
    with (killed / "evals.jsonl").open("a") as file:
        file.write('{"env_step": 60000, "train": {"mea')
    (root / "empty").mkdir()
    (root / "foreign").mkdir()
    (root / "foreign" / "config.json").write_text('{"model": "</script><script>alert(2)</script>"}')
    path = tmp_path_factory.mktemp("out") / "report.html"
    assert main(["report", str(root), "-o", str(path), "--title", "A & B </title><script>alert(3)</script>"]) == 0
    return path


def choose_only(page, name, value):
    page.locator(f"[data-filter={name}] summary").click()
    page.get_by_role("button", name=f"only {value}", exact=True).click()
    page.keyboard.press("Escape")


def titles(page, section="#curves"):
    return page.locator(f"{section} .panel h3").all_text_contents()


def steps_shown(page, panel=0):
    return [int(value) for value in page.locator("#curves svg.plot").nth(panel).get_attribute("data-x").split()]


def test_everything_is_there_and_names_are_text(page_file, open_page):
    page = open_page(page_file)
    assert page.title().startswith("A & B </title><script>alert(3)</script>")
    assert "A & B </title><script>" in page.locator("h1").text_content()
    names = page.locator("#runs tbody [data-run]").all_text_contents()
    assert len(names) == 8
    assert any(NASTY in name for name in names)
    assert page.locator("#runs").get_by_text("loss/critic is <b>nan</b>").is_visible()
    assert page.locator("#runs .badge.stopped").count() == 1
    assert "without a word" in page.locator("#runs tr", has_text="killed").first.text_content()
    left_out = page.locator("#left-out li").all_text_contents()
    assert [line.rpartition("/")[2] for line in left_out] == [
        "empty: is empty",
        "foreign: skipped: its config.json is not that of a cbm run (agent_name, seed, env.task, training.total_steps "
        "missing or wrong)",
        "evals.jsonl: its last line was cut short and is left out",
    ]
    for section in ("final", "inside", "embedding", "films", "pictures", "compare"):
        assert page.locator(f"#{section}").is_visible()
    assert page.locator("script").count() == page.locator("script:not([src])").count()


def test_panels_by_task_distraction_and_videos(page_file, open_page):
    page = open_page(page_file)
    assert titles(page) == [
        "cartpole-swingup, easy, training videos",
        "cartpole-swingup, easy, unseen videos",
        "walker-walk, easy, training videos",
        "walker-walk, easy, unseen videos",
        "walker-walk, no distraction",
    ]
    lines = page.locator("#curves .panel").first.locator("g.line")
    assert [line.get_attribute("data-name") for line in lines.all()] == ["drqv2", "drqv2+cbm"]
    page.locator("#curves").get_by_label("Seeds").select_option("seeds")
    names = [line.get_attribute("data-name") for line in lines.all()]
    assert names == ["drqv2, seed 0", "drqv2, seed 1", "drqv2+cbm, seed 0", "drqv2+cbm, seed 1"]


def test_filters(page_file, open_page):
    page = open_page(page_file)
    choose_only(page, "task", "cartpole-swingup")
    assert {title.split(",")[0] for title in titles(page)} == {"cartpole-swingup"}
    assert page.locator("#runs tbody [data-run]").count() == 4
    choose_only(page, "split", "unseen")
    assert titles(page) == ["cartpole-swingup, easy, unseen videos"]
    page.locator("#curves .legend").get_by_role("button", name="drqv2", exact=True).click()
    assert page.locator("#curves g.line").count() == 1
    choose_only(page, "seed", "1")
    assert page.locator("#runs tbody [data-run]").all_text_contents() == ["▸ drqv2+cbm-s1"]
    page.locator("[data-filter=seed] summary").click()
    page.locator("[data-filter=seed]").get_by_role("button", name="none", exact=True).click()
    assert page.locator("#curves .note").is_visible()
    page.locator("[data-filter=seed]").get_by_role("button", name="all", exact=True).click()
    assert page.locator("#runs tbody [data-run]").count() == 2
    choose_only(page, "distraction", "none")  # a clean run has no unseen videos
    assert page.locator("#films").is_hidden()


def test_zoom_by_mouse_wheel_and_keys(page_file, open_page):
    page = open_page(page_file)
    whole = [0, 100_000]
    assert steps_shown(page) == whole
    plot = page.locator("#curves svg.plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    left, right, middle = box["x"] + 48, box["x"] + box["width"] - 20, box["y"] + 100
    page.mouse.move(left + (right - left) * 0.2, middle)
    page.mouse.down()
    page.mouse.move(left + (right - left) * 0.6, middle + 4, steps=4)
    page.mouse.up()
    page.get_by_role("button", name="Reset zoom").wait_for()
    until(page, "[...document.querySelectorAll('#curves svg.plot')].every((plot) => plot.dataset.x !== '0 100000')")
    for panel in range(5):  # all of them
        low, high = steps_shown(page, panel)
        assert abs(low - 20_000) < 1500
        assert abs(high - 60_000) < 1500
    page.get_by_role("button", name="Reset zoom").click()
    assert steps_shown(page) == whole
    page.mouse.wheel(0, -200)  # the page scrolls; nothing is zoomed before the panel has been clicked
    plot.focus()
    page.wait_for_timeout(100)
    page.mouse.move(box["x"] + 150, plot.bounding_box()["y"] + 100)
    assert steps_shown(page) == whole
    page.mouse.wheel(0, -300)
    until(page, "document.querySelector('#curves svg.plot').dataset.x !== '0 100000'")
    low, high = steps_shown(page)
    assert high - low < 70_000
    page.keyboard.press("0")
    assert steps_shown(page) == whole
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    until(page, "document.querySelector('#curves svg.plot').dataset.x.endsWith(' 99000')")
    assert steps_shown(page) == [29_000, 99_000]  # 15K..85K, moved by a fifth
    plot.dblclick()
    assert steps_shown(page) == whole


def test_the_readout_gives_mean_interval_and_count(page_file, open_page):
    page = open_page(page_file)
    plot = page.locator("#curves svg.plot").first
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 21, box["y"] + 80)
    tip = page.locator("#curves .tip").first
    assert tip.locator("b").text_content() == "100K steps"
    data = json.loads(page.locator("#data").text_content())
    ends = [run["returns"]["train"]["mean"][-1] for run in data["runs"] if run["name"].startswith("drqv2+cbm-s")]
    row = tip.locator("div", has_text="drqv2+cbm").locator("em").text_content()
    assert row == f"{sum(ends) / 2:.0f} [{min(ends):.0f}, {max(ends):.0f}] n=2"


def test_statistics_are_those_of_numpy(page_file, open_page):
    """The page's own numbers, read from its CSV, against numpy and scipy."""
    import numpy as np
    from scipy.stats import trim_mean

    page = open_page(page_file)
    data = json.loads(page.locator("#data").text_content())
    with page.expect_download() as download:
        page.locator("#final").get_by_role("button", name="CSV").click()
    rows = [line.split(",") for line in download.value.path().read_text().splitlines()]
    cells = {tuple(row[:4]): row[4:] for row in rows[1:]}
    runs = [run for run in data["runs"] if (run["task"], run["method"]) == ("cartpole-swingup", "drqv2")]
    values = np.array([run["returns"]["unseen"]["mean"][-1] for run in runs])
    mean, std, iqm, count, paper, _ = cells["cartpole-swingup", "easy", "unseen", "drqv2"]
    np.testing.assert_allclose([float(mean), float(std)], [values.mean(), values.std(ddof=1)], rtol=1e-9)
    assert float(iqm) == pytest.approx(trim_mean(values, 0.25))
    assert (count, paper) == ("2", "")
    assert cells["cartpole-swingup", "easy", "unseen", "drqv2+cbm"][-2:] == ["485", "99"]
    text = page.locator("#final tr", has_text="unseen").first.text_content()
    assert "paper 485 ± 99" in text


def test_runs_that_are_not_complete_do_not_lower_the_final_returns(page_file, open_page):
    page = open_page(page_file)
    row = page.locator("#final tbody tr", has_text="walker-walk, easy").first.locator("td")
    assert "1 more not complete" in row.nth(1).text_content()
    assert row.nth(2).text_content().count("*") == 1  # the killed run is all there is of drqv2+cbm


def test_measures_of_analyses_and_training(page_file, open_page):
    page = open_page(page_file)
    section = page.locator("#inside")
    assert "k-means" in section.locator("p").first.text_content()  # drqv2 has no prototypes
    select = section.get_by_label("Measure")
    select.select_option("background_accuracy")
    assert section.locator(".rule-name").all_text_contents() == ["chance"]
    select.select_option("loss/cluster")
    assert {line.get_attribute("data-name") for line in section.locator("g.line").all()} == {"drqv2+cbm"}


def test_a_film_plays(page_file, open_page):
    page = open_page(page_file)
    page.locator("#films").scroll_into_view_if_needed()
    film = page.locator("#films video").first
    until(page, "document.querySelector('#films video').readyState >= 2")
    assert film.evaluate("film => film.currentTime") == 0
    page.get_by_role("button", name="Play all").click()
    until(page, "document.querySelector('#films video').currentTime > 0.2")
    assert film.evaluate("film => [film.videoWidth, film.videoHeight, film.error]") == [672, 368, None]
    page.get_by_role("button", name="Pause all").click()
    assert film.evaluate("film => film.paused")


def test_a_film_shows_a_still_until_it_is_played(page_file, open_page):
    """A picture of its own size in the page itself, so that it is there before the film is, and on phones."""
    page = open_page(page_file)
    page.locator("#films").scroll_into_view_if_needed()
    until(page, "document.querySelector('#films video').poster")
    read = """film => new Promise((done) => {
        const still = new Image();
        still.onload = () => {
            const canvas = document.createElement("canvas");
            [canvas.width, canvas.height] = [still.naturalWidth, still.naturalHeight];
            const pen = canvas.getContext("2d");
            pen.drawImage(still, 0, 0);
            const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
            const brightest = data.reduce((most, value, i) => (i % 4 < 3 ? Math.max(most, value) : most), 0);
            done([canvas.width, canvas.height, new Set(data).size, brightest]);
        };
        still.onerror = () => done([0, 0, 0, 0]);
        still.src = film.poster;
    })"""
    width, height, colours, brightest = page.locator("#films video").first.evaluate(read)
    assert (width, height) == (360, 197)  # of 672 x 368
    assert colours > 50
    assert brightest > 60  # not black
    assert page.locator("#films video").first.get_attribute("poster").startswith("data:image/webp;base64,")


def test_pictures_open(page_file, open_page):
    page = open_page(page_file)
    page.locator("#pictures").scroll_into_view_if_needed()
    until(page, "document.querySelector('#pictures img')?.naturalWidth > 0")
    page.locator("#pictures .picture").first.click()
    assert page.locator("#viewer img").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#viewer").is_hidden()


def test_the_embedding_shows_the_frame_under_the_cursor(page_file, open_page):
    page = open_page(page_file)
    section = page.locator("#embedding")
    section.scroll_into_view_if_needed()
    section.get_by_text("Point at a dot to see its frame.").first.wait_for()
    scatter = section.locator(".scatter").first
    scatter.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    words, frame = section.locator(".under p").first, section.locator("canvas.frame").first
    assert "background skyline-00" in words.text_content()
    corner = """node => {
      const copy = new OffscreenCanvas(128, 128).getContext("2d", { willReadFrequently: true });
      copy.drawImage(node, 0, 0);
      return [...copy.getImageData(20, 20, 1, 1).data].slice(0, 3);
    }"""
    assert frame.evaluate(corner) == [4, 0, 200]  # the fifth frame of the sheet says its number by its colour
    box = scatter.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    number = int(frame.get_attribute("data-frame") or -1)
    if number >= 0:
        assert frame.evaluate(corner) == [number % 256, number // 256 * 60, 200]
    section.get_by_label("Colour").select_option("background")
    assert "skyline-03" in section.locator(".legend").first.text_content()


def test_what_differs_between_two_runs(page_file, open_page):
    page = open_page(page_file)
    section = page.locator("#compare")

    def choose(label, run):
        options = section.get_by_label(label).locator("option")
        index = [text.startswith(f"{run}:") for text in options.all_text_contents()].index(True)
        section.get_by_label(label).select_option(index=index)

    choose("First", "drqv2+cbm-s0")
    choose("Second", "drqv2-s1")
    rows = {tuple(row.locator("th, td").all_text_contents()) for row in section.locator("tbody tr").all()}
    assert rows == {
        ("agent_name", "drqv2+cbm", "drqv2"),
        ("objective.prototypes", "128", "not set"),
        ("objective.temperature", "0.1", "not set"),
        ("objective", "not set", "null"),
        ("seed", "0", "1"),
    }
    section.get_by_label("equal settings too").check()
    assert section.locator("tbody tr").count() > 12


def test_a_run_opens_to_its_configuration(page_file, open_page):
    page = open_page(page_file)
    page.locator("#runs [data-run]", has_text="walker").first.click()
    details = page.locator("#runs .details")
    assert "agent.lr" in details.text_content()
    assert "cbm train --seed" in details.text_content()


def test_a_phone_shows_it_without_sideways_scrolling(page_file, open_page):
    page = open_page(page_file, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    page.locator("#runs [data-run]").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.locator("[data-filter=method] summary").click()
    popup = page.locator("[data-filter=method] .popup").bounding_box()
    assert popup["x"] >= 0
    assert popup["x"] + popup["width"] <= 360
    page.keyboard.press("Escape")
    plot = page.locator("#curves svg.plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    session = page.context.new_cdp_session(page)
    middle, height = box["x"] + 180, box["y"] + 100

    def touch(kind, *apart):
        points = [{"x": middle - d, "y": height, "id": 0} for d in apart] + [
            {"x": middle + d, "y": height, "id": 1} for d in apart
        ]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 20)
    touch("touchMove", 40)
    touch("touchMove", 80)
    touch("touchEnd")
    until(page, "document.querySelector('#curves svg.plot').dataset.x !== '0 100000'")
    low, high = steps_shown(page)
    assert 15_000 < high - low < 40_000  # four times as far apart


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(scheme, page_file, open_page):
    page = open_page(page_file, color_scheme=scheme)

    def is_dark():
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return max(int(part) for part in colour.strip("rgb()").split(",")) < 80

    assert is_dark() == (scheme == "dark")
    switch = page.locator("#theme")
    switch.click()
    assert "light" in switch.text_content()
    assert not is_dark()
    switch.click()
    assert is_dark()
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    assert is_dark()  # it remembers


def test_text_can_be_read_in_both_schemes(page_file, open_page):
    """Contrast of words and lines against what they stand on, by WCAG: 4.5 for text, 3 for lines."""
    measure = """() => {
      const probe = document.body.appendChild(document.createElement("i"));
      const light = (name) => {
        probe.style.color = `var(${name})`;
        const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
        const [r, g, b] = parts.map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const names = ["ink", "quiet", "accent", "good", "warn", "bad", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"];
      const grounds = ["--surface", "--paper"].map(light);
      const worst = (name) => Math.min(...grounds.map((ground) => ratio(light(`--${name}`), ground)));
      const found = names.map((name) => [name, worst(name)]);
      probe.remove();
      return Object.fromEntries(found);
    }"""
    for scheme in ("light", "dark"):
        for name, ratio in open_page(page_file, color_scheme=scheme).evaluate(measure).items():
            assert ratio >= (3.0 if name.startswith("c") else 4.5), (scheme, name, ratio)


def test_the_keyboard_reaches_everything(page_file, open_page):
    page = open_page(page_file)
    reached = set()
    for _ in range(400):
        page.keyboard.press("Tab")
        where = page.evaluate(
            """() => {
              const node = document.activeElement;
              return [node.tagName.toLowerCase(), node.closest("section, .bar, .top")?.id ?? ""];
            }"""
        )
        if where[0] == "body":
            break
        reached.add((where[1], where[0]))
    wanted = {("bar", "summary"), ("bar", "a"), ("", "button"), ("curves", "svg"), ("curves", "button")}
    wanted |= {
        ("embedding", "svg"),
        ("films", "video"),
        ("pictures", "button"),
        ("runs", "button"),
        ("compare", "select"),
    }
    assert wanted <= reached

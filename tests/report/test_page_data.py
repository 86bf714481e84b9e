"""What goes into a page, and what `cbm report` says."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from PIL import Image

from cbm.cli import main
from cbm.envs.rendering.film import write_film
from cbm.report.data import POINTS, run_data
from cbm.report.media import embed, poster, read_embedding, shrink_film
from cbm.report.page import show_each, to_json
from cbm.runs.labels import label_runs
from cbm.runs.read import load_runs
from synthetic import sample_media, write_run


def labels_of(root):
    loaded = load_runs([root])
    return {run.name: label for run, label in zip(loaded.runs, label_runs(loaded.runs), strict=True)}


def test_runs_that_differ_in_their_seed_alone_are_one_method(tmp_path):
    write_run(tmp_path / "a", seed=0)
    write_run(tmp_path / "b", seed=1, settings={"training.threads": 7, "training.total_steps": 5_000_000})
    write_run(tmp_path / "c", task="walker-walk", settings={"env.action_repeat": 2})
    assert {label.method for label in labels_of(tmp_path).values()} == {"drqv2+cbm"}


def test_runs_that_differ_in_more_are_called_by_it(tmp_path):
    write_run(tmp_path / "a")
    write_run(tmp_path / "b", seed=1, settings={"objective.prototypes": 32})
    write_run(tmp_path / "c", agent="drqv2")
    labels = labels_of(tmp_path)
    assert {name: label.method for name, label in labels.items()} == {
        "a": "drqv2+cbm (prototypes 128)",
        "b": "drqv2+cbm (prototypes 32)",
        "c": "drqv2",
    }


def test_what_most_runs_have_goes_unsaid(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"usual-{seed}", seed=seed)
    write_run(tmp_path / "x", settings={"objective.prototypes": 32})
    write_run(tmp_path / "y", settings={"objective.prototypes": 8, "agent.lr": 0.5})
    methods = {name: label.method for name, label in labels_of(tmp_path).items()}
    assert {methods[f"usual-{seed}"] for seed in range(3)} == {"drqv2+cbm"}
    assert methods["x"] == "drqv2+cbm (prototypes 32)"
    assert methods["y"] == "drqv2+cbm (lr 0.5, prototypes 8)"


def test_presets_and_changed_distractions_are_told_apart(tmp_path):
    write_run(tmp_path / "a", settings={"env.num_videos": 8, "env.dynamic": True})
    write_run(tmp_path / "b", settings={"env.scale": 0.2})
    (tmp_path / "b" / "config.json").write_text((tmp_path / "b" / "config.json").read_text().replace("laptop", "paper"))
    labels = labels_of(tmp_path)
    assert labels["a"] == ("drqv2+cbm (laptop)", "easy, 8 videos, dynamic")
    assert labels["b"] == ("drqv2+cbm (paper)", "easy, scale 0.2")


def test_long_metrics_are_thinned_to_means_at_steps_that_runs_have_in_common(tmp_path):
    path = write_run(tmp_path / "run", total=500_000)
    lines = [{"env_step": step, "updates": step, "loss/critic": float(step)} for step in range(500, 400_001, 500)]
    (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (run,) = load_runs([path]).runs
    (series,) = run_data(run)["series"]
    assert series["steps"] == list(range(5000, 400_001, 5000))
    assert len(series["steps"]) <= POINTS
    np.testing.assert_allclose(series["values"]["loss/critic"], [step - 2250 for step in series["steps"]], rtol=1e-4)


def test_values_that_are_no_numbers_leave_gaps(tmp_path):
    path = write_run(tmp_path / "run")
    lines = (
        '{"env_step": 10000, "ch_index": NaN, "clusters": "kmeans"}\n{"env_step": 20000, "ch_index": 7.0, "k": true}\n'
    )
    (path / "analysis.jsonl").write_text(lines)
    data = run_data(load_runs([path]).runs[0])
    assert data["series"][0] == {"steps": [10000, 20000], "values": {"ch_index": [None, 7]}}
    assert data["clusters"] == "kmeans"


def test_json_cannot_end_its_script():
    text = "</script><!--\u2028\u2029\ud800é"
    written = to_json({"name": text})
    assert not re.search("[<\u2028\u2029\ud800]", written)
    assert json.loads(written)["name"] == text.replace("\ud800", "?")


def test_an_embedding_is_read_whatever_columns_it_has(tmp_path):
    path = tmp_path / "tsne.csv"
    path.write_text("kind,x,y,value,background,frame\nobservation,1.23456789,2,nan,sea,0\nprototype,3,4,,,\nbroken,x\n")
    assert json.loads(read_embedding(path.read_bytes())) == {
        "x": [1.235, 3],
        "y": [2, 4],
        "prototype": [0, 1],
        "backgrounds": ["", "sea"],
        "background": [1, 0],
        "frame": [0, None],
    }
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="no points"):
        read_embedding(path.read_bytes())


def test_a_film_is_made_smaller_and_stays_a_film(tmp_path):
    import av

    rng = np.random.default_rng(0)
    write_film(tmp_path / "film.mp4", rng.integers(0, 255, (20, 400, 600, 3), np.uint8), 20)
    whole = (tmp_path / "film.mp4").read_bytes()
    small = shrink_film(whole)
    assert len(small) < len(whole) / 4
    (tmp_path / "small.mp4").write_bytes(small)
    with av.open(str(tmp_path / "small.mp4")) as film:
        stream = film.streams.video[0]
        assert (stream.width, stream.height, stream.average_rate) == (300, 200, 20)
        assert sum(1 for _ in film.decode(stream)) == 20
    with pytest.raises(ValueError, match="not a film"):
        shrink_film(b"no film at all")


@pytest.mark.parametrize(
    "content",
    [
        b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>',
        b"#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n#EXT-X-ENDLIST\n",  # a playlist, which FFmpeg would follow
    ],
)
def test_only_an_mp4_is_a_film(content):
    assert poster(content) is None
    with pytest.raises(ValueError, match="not a film"):
        shrink_film(content)


def test_what_does_not_fit_is_made_smaller_and_then_left_out_the_best_run_last(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"s{seed}", seed=seed, analysed=True)
    shown = show_each(load_runs([tmp_path]).runs, [], run_data)
    runs, media = [run for run, _ in shown], [medium for _, found in shown for medium in found]
    texts, about = embed(media, runs, 100_000_000, [])
    assert set(about) == {medium.key for medium in media}
    assert {own["embed"] for own in about.values()} == set(texts)
    films = {medium.key for medium in media if medium.kind == "film"}
    for key, own in about.items():
        assert set(own) == ({"embed", "poster"} if key in films else {"embed"})  # a still is all that was added
    texts, about = embed(media, runs, 120_000, [])
    assert sum(map(len, texts.values())) <= 120_000
    assert any("left_out" in own for own in about.values())
    best = max(runs, key=lambda run: run["returns"]["unseen"]["mean"][-1])
    kept_films = [key for key, own in about.items() if key in films and "embed" in own]
    assert kept_films
    assert next(medium for medium in media if medium.key == kept_films[0]).path.is_relative_to(best["path"])
    sheet = next(medium for medium in media if medium.kind == "frames")
    _, about = embed([sheet], runs, 2_000_000, [])
    assert about[sheet.key] == {"type": "image/webp", "width": 40, "height": 40, "embed": "m0"}


def test_media_that_cannot_be_read_are_named(tmp_path, capsys):
    path = write_run(tmp_path / "run", analysed=True)
    half = (path / "figures" / "gallery.png").read_bytes()[:5000]
    (path / "figures" / "gallery.png").write_bytes(half)
    (path / "figures" / "tsne.csv").write_text("")
    (path / "figures" / "tsne_frames.json").write_text('{"width": "many"}')
    out = tmp_path / "out" / "r.html"
    assert main(["report", str(path), "-o", str(out)]) == 0
    told = capsys.readouterr().err
    assert "gallery.png: cannot be shown" in told
    assert "tsne.csv: cannot be shown (has no points" in told
    assert "tsne_frames.json: does not say where the frames are" in told
    assert [entry.name for entry in out.parent.iterdir()] == ["r.html"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name at least one run directory"),
        (["nowhere"], "nowhere: does not exist"),
        (["empty"], "empty: is empty"),
        (["empty", "-o", "page.pdf"], "must end in .html"),
        (["run", "-o", "folder.html"], "-o folder.html is a folder. Type: -o folder.html/report.html"),
        (["run", "-o", "run/config.json/x.html"], "cannot write run/config.json/x.html (run/config.json is a file)"),
        (["run", "--megabytes", "0"], "--megabytes must be 1 to"),
    ],
)
def test_bad_input_is_named_with_what_to_type(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder.html").mkdir()
    write_run(tmp_path / "run")
    assert main(["report", *arguments]) == 1
    assert message in capsys.readouterr().err


def test_a_page_is_made_without_pytorch(tmp_path):
    import subprocess
    import sys

    write_run(tmp_path / "run", analysed=True)
    script = "import sys; from cbm.cli import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    command = [sys.executable, "-c", script, "report", str(tmp_path / "run"), "-o", str(tmp_path / "r.html")]
    assert subprocess.run(command).returncode == 0


def test_samples_are_as_large_as_real_files():
    """The benchmark with 200 runs means something only then."""
    sizes = {path.name: path.stat().st_size for path in sample_media(0).rglob("*") if path.is_file()}
    assert sizes["best-000100000.mp4"] > 40_000
    assert sizes["gallery.png"] > 200_000
    with Image.open(sample_media(0) / "figures" / "tsne_frames.png") as sheet:
        assert sheet.size == (32 * 48, 24 * 48)

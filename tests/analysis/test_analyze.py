"""The figures of `cbm analyze`, and what it does with folders that it cannot analyse."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cbm.analysis.figures import embedding, gallery, generalization, overtime, saliency
from cbm.analysis.probing.clusters import cluster, prototype_space
from cbm.analysis.probing.measures import in_batches, measure
from cbm.analysis.probing.subject import Subject
from cbm.cli import main
from cbm.runs.directory import RunDir
from cbm.runs.load import load_agent, load_checkpoint
from cbm.runs.read import Run, Status, load_runs
from made import make_probe, tiny_agent
from toy import finished_run


def table(path):
    return list(csv.DictReader(path.open()))


def make_run(path, agent="drqv2+cbm", seed=0, **changes):
    config = {
        "agent_name": agent,
        "seed": seed,
        "env": {"task": "cartpole-swingup", "distraction": "easy"},
        "training": {"total_steps": 100},
    }
    return replace(Run(path, path.name, config, {}, (), (), (), (), Status("complete")), **changes)


def make_subject(path, name="drqv2+cbm", seed=0, **changes):
    """An untrained agent before a probe of noise: enough for every figure."""
    agent = tiny_agent(name, **({"prototypes": 9} if name.endswith("cbm") else {}))
    probe = make_probe(moments=10)
    pictures = np.random.default_rng(seed).integers(0, 255, (len(probe), 3, 24, 24), np.uint8)
    pictures[:, :, 8:16, 8:16] = (probe.moment % 7 * 30)[:, None, None, None]  # the same before every background
    probe = replace(probe, obs=pictures)
    z, space = in_batches(agent.encode, probe.obs), prototype_space(agent)
    run = make_run(path, name, seed, **changes)
    findings, value = measure(agent, probe), agent.value(probe.obs).numpy()[:, 0]
    return Subject(run, agent, 100, {}, probe, z, value, space, cluster(z, space), findings)


def assert_three_files(written, folder, name):
    assert {path.name for path in written} >= {f"{name}.png", f"{name}.svg", f"{name}.csv"}
    assert Image.open(folder / f"{name}.png").width > 200
    assert "<svg" in (folder / f"{name}.svg").read_text()


def test_tsne_places_observations_and_prototypes(tmp_path):
    subject = make_subject(tmp_path)
    assert_three_files(embedding.draw_tsne(subject, tmp_path), tmp_path, "tsne")
    rows = table(tmp_path / "tsne.csv")
    assert [row["kind"] for row in rows] == ["observation"] * 120 + ["prototype"] * 9
    assert list(rows[0])[:7] == ["kind", "x", "y", "value", "background", "step", "frame"]
    assert {row["background"] for row in rows[:120]} == {"fog", "sea", "wood"}
    layout = json.loads((tmp_path / "tsne_frames.json").read_text())
    assert layout == {"width": 48, "height": 48, "columns": 20, "count": 120}
    assert Image.open(tmp_path / "tsne_frames.png").size == (20 * 48, 6 * 48)


def test_neighbours_in_latent_space_are_neighbours_in_the_picture(tmp_path):
    subject = make_subject(tmp_path, "drqv2")
    two = torch.zeros(len(subject.z), 5)
    two[::2] = 10.0
    chosen, xy, prototypes = embedding.embed(replace(subject, z=two + 0.1 * torch.randn(two.shape)))
    assert prototypes.shape == (0, 2)
    centres = [xy[chosen % 2 == side].mean(axis=0) for side in (0, 1)]
    nearer = np.linalg.norm(xy - centres[0], axis=1) < np.linalg.norm(xy - centres[1], axis=1)
    assert (nearer == (chosen % 2 == 0)).all()


def test_of_a_moment_all_pictures_are_chosen_or_none():
    moment = np.tile(np.arange(50), 4)
    chosen = embedding.choose(moment, 80)
    assert len(chosen) == 80
    assert np.unique(moment[chosen], return_counts=True)[1].tolist() == [4] * 20


def test_the_sheet_shows_frames_row_by_row(tmp_path):
    frames = np.stack([np.full((8, 8, 3), 10 * i, np.uint8) for i in range(5)])
    embedding.write_sheet(frames, tmp_path / "sheet.png", side=4, columns=3)
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    assert sheet.shape == (8, 12, 3)
    assert [sheet[y, x, 0] for y, x in ((0, 0), (0, 4), (0, 8), (4, 0), (4, 4))] == [0, 10, 20, 30, 40]


def test_the_gallery_finds_the_nearest_observations_of_the_replay(tmp_path):
    run = Path(shutil.copytree(finished_run(), tmp_path / "run"))
    subject = make_subject(run)
    state = load_checkpoint(RunDir(run))[2]
    found = replace(subject, replay=state["replay"], agent=load_agent(run), run=load_runs([run]).runs[0])
    found = replace(found, space=prototype_space(found.agent))
    obs, source = gallery.observations(found)
    assert (source, len(obs)) == ("replay", 441)  # 40 episodes of 11 frames, and the first of the next
    rows, obs, _ = gallery.nearest(found)
    assert [len(row) for row in rows] == [3] * 4
    z = found.agent.encode(obs)
    for prototype, row in zip(found.agent.objective.prototypes.detach(), rows, strict=False):
        cosine = torch.cosine_similarity(z, prototype[None]).numpy()
        assert sorted(cosine)[-3:] == pytest.approx(sorted(similarity for _, similarity in row), rel=1e-4)
    assert_three_files(gallery.draw_gallery(found, tmp_path), tmp_path, "gallery")
    assert_three_files(gallery.draw_gallery(found, tmp_path, everything=True), tmp_path, "gallery_all")
    assert len(table(tmp_path / "gallery.csv")) == 12
    assert len(table(tmp_path / "gallery_all.csv")) == 3 * 8

    shutil.rmtree(run / "replay")
    assert gallery.observations(found)[1] == "probe"


def test_over_training_every_line_is_drawn_and_the_newest_checkpoint_too(tmp_path):
    lines = tuple(
        {"env_step": step, "ch_index": 2.0 + step, "state_r2": 0.1, "clusters": "prototypes"} for step in (0, 50)
    )
    cbm, base = make_subject(tmp_path / "cbm", analysis=lines), make_subject(tmp_path / "base", "drqv2", 1)
    assert_three_files(overtime.draw_ch_index([cbm, base], tmp_path), tmp_path, "ch_index")
    rows = table(tmp_path / "ch_index.csv")
    assert [(row["run"], row["env_step"], row["clusters"]) for row in rows] == [
        ("cbm", "0", "prototypes"),
        ("cbm", "50", "prototypes"),
        ("cbm", "100", "prototypes"),
        ("base", "100", "kmeans"),
    ]
    svg = (tmp_path / "ch_index.svg").read_text()
    assert "k-means" in svg
    assert_three_files(overtime.draw_probes([cbm, base], tmp_path), tmp_path, "probes")
    assert len(table(tmp_path / "probes.csv")) == 4
    assert "how far the background moves z" in (tmp_path / "probes.svg").read_text()


def test_without_videos_the_probes_have_no_empty_panels(tmp_path):
    subject = make_subject(tmp_path / "cbm")
    for key in ("background_accuracy", "background_chance", "distraction_ratio"):
        subject.findings[key] = None
    overtime.draw_probes([subject], tmp_path)
    svg = (tmp_path / "probes.svg").read_text()
    assert "physical state from z" in svg
    assert "background" not in svg


def test_assignments_show_predicted_and_target(tmp_path):
    line = {"cbm/p_entropy": 1.5, "cbm/q_entropy": 1.0, "cbm/prototypes_used": 7.0, "cbm/agreement": 0.4}
    subject = make_subject(tmp_path, metrics=({"env_step": 10, **line}, {"env_step": 20, "episode": 3}))
    assert_three_files(overtime.draw_assignments(subject, tmp_path), tmp_path, "assignments")
    rows = table(tmp_path / "assignments.csv")
    assert [row["q_entropy"] for row in rows if row["part"] == "training"] == ["1"]
    shares = [float(row["share"]) for row in rows if row["part"] == "now"]
    assert len(shares) == 9
    assert sum(shares) == pytest.approx(1.0, abs=1e-4)


def patch_encoder(rows, columns):
    """Sees the mean of a patch, and nothing else."""

    def encode(obs):
        return torch.from_numpy(np.asarray(obs, np.float32)[:, :, rows, columns].mean(axis=(2, 3)))

    return encode


def test_saliency_finds_the_pixels_that_an_encoder_reads():
    rng = np.random.default_rng(0)
    obs = rng.integers(0, 255, (9, 40, 48), np.uint8)
    found = saliency.saliency(patch_encoder(slice(4, 12), slice(30, 38)), obs)
    assert found.shape == (40, 48)
    assert found.sum() == pytest.approx(1.0, rel=1e-5)
    row, column = np.unravel_index(found.argmax(), found.shape)
    assert 2 <= row < 14
    assert 28 <= column < 40
    assert found[0:20, 22:48].sum() > 0.95
    assert found[24:, :16].sum() < 1e-3


def test_an_encoder_that_sees_nothing_has_no_saliency():
    assert not saliency.saliency(lambda obs: torch.ones(len(obs), 2), np.zeros((3, 24, 24), np.uint8)).any()


def test_saliency_off_the_video_is_counted(tmp_path):
    subject = make_subject(tmp_path)
    moment = int(subject.probe.moment[0])
    still = saliency.untouched(subject.probe, moment)
    assert still[8:16, 8:16].all()
    assert still[12, 5:19].all()  # three pixels around it
    assert not still[:, :4].any()
    assert not still[:, 20:].any()
    subject.agent.encode = patch_encoder(slice(8, 16), slice(8, 16))
    written = saliency.draw_saliency([subject, make_subject(tmp_path, "drqv2")], tmp_path)
    assert_three_files(written, tmp_path, "saliency")
    rows = table(tmp_path / "saliency.csv")
    assert len(rows) == 8
    assert len({row["background"] for row in rows}) == 3
    first = rows[0]
    assert float(first["share_in_outline"]) > 0.9 > 0.4 > float(first["area_of_outline"])


def test_generalization_puts_the_paper_beside_ours(tmp_path):
    def tested(agent, seed, unseen):
        run = make_run(tmp_path / f"{agent}{seed}", agent, seed)
        return generalization.Generalization(run, 90_000, {"train": [100.0, 140.0], "unseen": unseen}, 17)

    runs = [tested("drqv2+cbm", 0, [80.0, 120.0]), tested("drqv2+cbm", 1, [200.0]), tested("drqv2", 0, [10.0, 30.0])]
    assert_three_files(generalization.draw_generalization(runs, tmp_path), tmp_path, "generalization")
    rows = {(row["source"], row["agent"], row["split"]): row for row in table(tmp_path / "generalization.csv")}
    cbm, base = rows["ours", "drqv2+cbm", "unseen"], rows["ours", "drqv2", "unseen"]
    assert (cbm["mean"], cbm["std_over"], cbm["seeds"]) == ("150", "seeds", "2")
    assert float(cbm["std"]) == pytest.approx(np.std([100, 200], ddof=1), rel=1e-4)
    assert (base["mean"], base["std"], base["std_over"]) == ("20", "10", "episodes")
    assert rows["paper", "drqv2+cbm", "unseen"]["mean"] == "485"


def test_returns_of_the_last_evaluation_serve_without_playing(tmp_path):
    line = {
        "env_step": 50,
        "train": {"mean": 3.0, "returns": [2.0, 4.0]},
        "unseen": {"mean": 1.0, "backgrounds": ["a"]},
    }
    found = generalization.play_unseen(make_run(tmp_path, evals=(line,)), episodes=0)
    assert found.returns == {"train": [2.0, 4.0], "unseen": [1.0]}
    assert (found.env_step, found.different_videos) == (50, 1)


def test_the_command_draws_what_it_can_and_names_the_rest(tmp_path, capsys):
    run = Path(shutil.copytree(finished_run(), tmp_path / "runs" / "whole"))
    bare = Path(shutil.copytree(finished_run(), tmp_path / "runs" / "bare"))
    shutil.rmtree(bare / "checkpoint")
    foreign = Path(shutil.copytree(finished_run(), tmp_path / "runs" / "other"))
    config = json.loads((foreign / "config.json").read_text())
    (foreign / "config.json").write_text(json.dumps(config | {"agent_name": "dreamer"}))
    (tmp_path / "runs" / "empty").mkdir()
    assert main(["analyze", str(tmp_path / "runs"), "--only", "ch_index", "assignments"]) == 0
    out, told = capsys.readouterr()
    assert "whole: CH index" in out
    assert "bare: skipped:" in told
    assert "has no checkpoint yet" in told
    assert "other: skipped: unknown agent 'dreamer'" in told
    assert "empty: is empty" in told
    assert sorted(path.name for path in (run / "figures").iterdir()) == [
        f"{name}.{kind}" for name in ("assignments", "ch_index") for kind in ("csv", "png", "svg")
    ]
    assert not (bare / "figures").exists()
    rows = table(run / "figures" / "ch_index.csv")
    assert [row["env_step"] for row in rows] == ["0", "400", "800"]
    assert set(load_runs([run]).runs[0].figures) == {"assignments", "ch_index"}


def test_two_runs_are_put_beside_each_other(tmp_path):
    for name in ("a", "b"):
        shutil.copytree(finished_run(), tmp_path / name)
    assert (
        main(["analyze", str(tmp_path / "a"), str(tmp_path / "b"), "--only", "saliency", "-o", str(tmp_path / "c")])
        == 0
    )
    assert len(table(tmp_path / "c" / "saliency.csv")) == 8
    assert len(table(tmp_path / "a" / "figures" / "saliency.csv")) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nothing was analysed"),
        (["nowhere", "--only", "tsna"], "Did you mean 'tsne'?"),
        (["nowhere", "--episodes", "-1"], "--episodes must be 0 to"),
    ],
)
def test_bad_input_is_named(arguments, message, capsys):
    assert main(["analyze", *arguments]) == 1
    assert message in capsys.readouterr().err

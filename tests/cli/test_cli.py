"""The command line: every verb of the suite, and every way to type it wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import av
import pytest
from PIL import Image

from cbm.agents import agent_names
from cbm.cli import VERBS, main
from cbm.config import make_config
from cbm.schema.tree import table
from toy import cbm, tiny_options


def test_without_a_verb_it_lists_them(capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    assert all(f"cbm {verb}" in out for verb in VERBS)


def test_a_mistyped_verb_names_the_nearest(capsys):
    assert main(["docter"]) == 2
    assert "Did you mean `cbm doctor`?" in capsys.readouterr().err


def test_a_name_that_is_not_utf8_is_refused_at_once(tmp_path, capsys):
    name = str(tmp_path / "run\udcff")
    assert main(["train", "--out", name]) == 2
    assert repr(name) in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_utf8_is_no_traceback(tmp_path):
    folder = os.fsencode(tmp_path) + b"/odd\xff"
    os.mkdir(folder)
    for words in (["preview", "--task", "cartpole-swingup", "-o", "sheet.png"], ["train", *tiny_options()]):
        done = cbm(*words, cwd=folder, errors="replace")
        text, _ = done.communicate(timeout=120)
        assert "Traceback" not in text
        assert done.returncode in (0, 1)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(verb, capsys):
    with pytest.raises(SystemExit) as stop:
        main([verb, "--help"])
    assert stop.value.code == 0
    assert VERBS[verb].help[:20] in " ".join(capsys.readouterr().out.split())


def test_the_help_of_train_shows_every_setting_of_the_chosen_agent(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--agent", "tpc", "--preset", "laptop", "--help"])
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    config = make_config("tpc", preset="laptop")
    for row in table(config):
        if row.name.partition(".")[0] in ("agent", "env", "training"):
            assert f"--{row.name.replace('_', '-')} {row.allowed}" in shown
            assert row.about in shown
    assert "--objective." not in shown
    assert all(name in shown for name in agent_names())


def test_the_installed_command_runs_and_does_not_load_pytorch():
    script = "import sys; from cbm.cli import main; main(['videos']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "builtin" in done.stdout


def test_doctor_says_that_training_can_run(capsys):
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    found = {finding["what"]: finding for finding in report["findings"]}
    assert report["can_train"]
    assert found["mujoco"]["found"].startswith("3.")
    assert int(found["frames/s, easy"]["found"].split()[0]) > 5
    assert "60 training, 30 unseen" in found["videos, builtin"]["found"]
    assert "times as fast as in 32 bits" in found["bfloat16"]["found"]


def test_doctor_without_the_training_packages_says_what_to_type(capsys, monkeypatch):
    import importlib.metadata

    def version(name, real=importlib.metadata.version):
        if name == "torch":
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert 'pip install "cbm-rl[train]"' in out
    assert "training cannot run here yet" in out


def test_preview_draws_a_contact_sheet(tmp_path, capsys):
    path = tmp_path / "new" / "sheet.png"
    assert main(["preview", "--task", "cartpole-swingup", "--episodes", "2", "--columns", "3", "-o", str(path)]) == 0
    assert str(path) in capsys.readouterr().out
    sheet = Image.open(path)
    assert sheet.size == (3 * 168, 18 + 2 * (168 + 18))
    assert len(sheet.getcolors(10**6)) > 500


def test_preview_of_a_dynamic_setting_is_also_a_film(tmp_path):
    path = tmp_path / "moving.png"
    options = ["--task", "finger-spin", "--distraction", "background", "--dynamic", "--episodes", "2"]
    assert main(["preview", *options, "-o", str(path)]) == 0
    with av.open(str(path.with_suffix(".mp4"))) as film:
        frames = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
    assert len(frames) == 121
    assert frames[0].shape == (84 * 4, 2 * 84 * 4, 3)
    assert (frames[0] != frames[60]).mean() > 0.2
    assert path.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "cartpole"], "unknown task 'cartpole'"),
        (["--task", "cartpole-swingup", "--distraction", "medim"], "Did you mean 'medium'"),
        (["--task", "cartpole-swingup", "-o", "x.gif"], "must end in .png, .jpg or .mp4"),
        (["--task", "cartpole-swingup", "--num-videos", "99"], "num_videos must be 1 to 60"),
        (["--task", "cartpole-swingup", "--episodes", "0"], "--episodes must be 1 to"),
    ],
)
def test_preview_refuses_bad_input_without_a_traceback(arguments, message, capsys):
    assert main(["preview", *arguments]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert "Traceback" not in err


def test_an_unknown_option_is_named(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["preview", "--task", "cartpole-swingup", "--dynmic"])
    assert stop.value.code == 2
    out = capsys.readouterr()
    assert "--dynmic" in out.err + out.out
    assert "--dynamic" in out.err + out.out


def test_videos_can_be_looked_at(tmp_path, capsys):
    assert main(["videos", "list"]) == 0
    assert "60" in capsys.readouterr().out
    for name in ("a", "b", "c", "d"):
        (tmp_path / "mine" / name).mkdir(parents=True)
        Image.new("RGB", (32, 32), "red").save(tmp_path / "mine" / name / "0.png")
    path = tmp_path / "sheet.png"
    assert main(["videos", "show", str(tmp_path / "mine"), "-o", str(path)]) == 0
    assert Image.open(path).width > 100


def test_only_davis_can_be_downloaded(capsys):
    assert main(["videos", "download", "kinetics"]) == 1
    assert "Choose from: davis" in capsys.readouterr().err


def test_bench_rows_have_one_shape(capsys, monkeypatch):
    from cbm.bench import Row, env

    monkeypatch.setattr(env, "rows", lambda quick, report: [Row("a", "b", 1.0, 4.0, 4.0, ">= 4", 4.0)])
    assert main(["bench", "env", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert {"what", "task", "ours", "reference", "ratio", "bar", "holds"} <= set(row)
    assert row["holds"] is True


def test_bars_are_judged_by_their_own_sign():
    from cbm.bench import Row, alternate, speedup

    assert speedup("x", "t", 1.0, 3.9, ">= 4").holds is False
    assert speedup("x", "t", 1.0, 4.0, ">= 4").holds is True
    assert Row("x", "t", 51, 0, None, "<= 50", 51).holds is False
    assert Row("x", "t", 0, 0, None, "== 0", 0).holds is True
    calls = []
    alternate(lambda: calls.append("a"), lambda: calls.append("b"), rounds=2, warmup=1)
    assert calls == ["a", "b"] * 3

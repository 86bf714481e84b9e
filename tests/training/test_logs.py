"""The log files, the lock, the stop signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from cbm.errors import CBMError
from cbm.runs.directory import RunDir, RunInUse
from cbm.runs.load import find_run
from cbm.system.jsonl import read_lines
from cbm.training import progress
from cbm.training.logs import Logs, Means, NotFinite, start_wandb
from cbm.training.progress import ProgressDisplay
from cbm.training.stop import Stop


def test_tensorboard_shows_each_step_once_after_a_crash(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = RunDir(tmp_path)
    logs = Logs(run, 0, None)
    for step in (10, 20, 30):
        logs.write(logs.metrics, {"env_step": step, "loss": 1.0})
        if step == 20:
            state = logs.state()
    logs.close()
    logs = Logs(run, 20, state)  # a crash after 30, a checkpoint at 20
    for step in (30, 40):
        logs.write(logs.metrics, {"env_step": step, "loss": 2.0})
    logs.close()
    board = EventAccumulator(str(run.tb)).Reload()
    assert [(event.step, event.value) for event in board.Scalars("loss")] == [(10, 1), (20, 1), (30, 2), (40, 2)]
    assert [line["env_step"] for line in read_lines(run.metrics)] == [10, 20, 30, 40]


def test_means_over_the_updates_that_had_the_metric() -> None:
    means = Means()
    means.add({"critic": torch.tensor(1.0), "actor": torch.tensor(5.0)}, 8)
    means.add({"critic": torch.tensor(3.0)}, 16)
    assert means.take() == {"critic": 2.0, "actor": 5.0}
    assert means.take() == {}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_named_with_its_step(value: float) -> None:
    with pytest.raises(NotFinite, match="loss/dynamics is not finite at environment step 4,096"):
        Means().add({"loss/critic": torch.tensor(1.0), "loss/dynamics": torch.tensor(value)}, 4096)


class OnGpu(torch.Tensor):
    """Says that it lies on a GPU, and counts how often somebody waits for its values."""

    waits = 0
    device = torch.device("cuda")

    def tolist(self) -> list[float]:
        OnGpu.waits += 1
        return self.as_subclass(torch.Tensor).tolist()


def test_metrics_on_a_gpu_are_read_when_they_are_logged() -> None:
    means = Means()
    for step, loss in ((8, 1.0), (16, 3.0)):
        means.add({"loss/critic": torch.tensor(loss).as_subclass(OnGpu)}, step)
    assert means
    assert OnGpu.waits == 0
    assert means.take() == {"loss/critic": 2.0}
    assert not means
    means.add({"loss/critic": torch.tensor(float("nan")).as_subclass(OnGpu)}, 24)
    means.add({"loss/critic": torch.tensor(1.0).as_subclass(OnGpu)}, 32)
    with pytest.raises(NotFinite, match="loss/critic is not finite at environment step 24"):
        means.read()
    means = Means()
    OnGpu.waits = 0
    for step in range(means.patience):
        assert OnGpu.waits == 0
        means.add({"loss/critic": torch.tensor(0.0).as_subclass(OnGpu)}, step)
    assert OnGpu.waits == means.patience  # a run that logs seldom does not fill the GPU


def test_wandb_missing_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)  # what an import of an absent package meets
    with pytest.raises(CBMError, match=r'pip install "cbm-rl\[wandb\]"'):
        start_wandb(RunDir(tmp_path), {})


_HOLD = """
import sys, time
from pathlib import Path
from cbm.runs.directory import RunDir
with RunDir(Path(sys.argv[1])).locked():
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_process_is_refused_and_a_killed_one_frees_the_run(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    with subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(RunInUse, match=f"in use by process {holder.pid}"), run.locked():
            pass
        holder.kill()
        holder.wait()
    with run.locked():
        assert (tmp_path / ".lock").read_text() == str(os.getpid())


def test_a_directory_that_holds_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CBMError, match="is not a run directory"):
        find_run(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert find_run(tmp_path).root == tmp_path


def test_the_first_signal_asks_and_the_second_ctrl_c_quits() -> None:
    with Stop() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop
        assert stop.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_progress_tells_all_counters_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = iter([0.0, 1600.0])
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(times)))
    with ProgressDisplay(total=56_000) as show:
        show.update(0, 0, 0, None)
        show.update(20_000, 2_500, 2_000, 123.45)
    assert capsys.readouterr().out.splitlines() == [
        "env 0, agent 0, updates 0 (0.0/s), of 56,000",
        "env 20,000, agent 2,500, updates 2,000 (1.2/s), return 123.5, 0:48:00 left, of 56,000",
    ]


def test_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressDisplay(total=100) as show:
        for step in range(0, 101, 10):
            show.update(step, step, 0, None)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2  # the first look, and the end; between them less than half a minute passed
    assert lines[-1].startswith("env 100,")

"""The five faults, each really done, on a Ray cluster of three nodes on this machine; and who may compute what."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cbm.errors import CBMError
from cbm.studies.define import Plan
from cbm.studies.drive import drive
from cbm.studies.launch import Resources, make_launcher
from cbm.studies.store import Store, last_line
from same_run import assert_same_run
from toy_study import finish, small_plan, start, wait_until

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without CPUs, where drivers live, and two nodes with one each."""
    from ray.cluster_utils import Cluster

    here = str(Path(__file__).parents[1] / "helpers")  # where the toy task is
    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "RAY_worker_niceness", "RAY_ADDRESS")}
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    os.environ.update({"RAY_worker_niceness": "0"})
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    yield made
    made.shutdown()
    for name, value in before.items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The same two runs, by processes on this machine that nobody disturbs."""
    plan, store = small_plan(tmp_path_factory.mktemp("undisturbed"))
    result = drive(plan, store, make_launcher("local", Resources(store.root, jobs=2)))
    assert result.count("done") == 2
    return store


def begin(folder: Path, cluster: Any) -> subprocess.Popen[str]:
    return start(folder, "--launcher", "ray", "--address", cluster.address)


def at(store: Store, plan: Plan, step: int) -> bool:
    """Whether every run is computed at this moment, and has come so far."""
    lines = [last_line(store.run_dir(run).metrics) for run in plan.runs]
    alive = [store.run_dir(run).owner() for run in plan.runs]
    return all(alive) and all(line is not None and line["env_step"] >= step for line in lines)


def outcomes(store: Store, plan: Plan) -> list[list[str]]:
    files = [store.root / "attempts" / f"{run.name}.jsonl" for run in plan.runs]
    return [[json.loads(line)["outcome"] for line in file.open()] if file.exists() else [] for file in files]


def assert_as_undisturbed(store: Store, plan: Plan, undisturbed: Store) -> None:
    for run in plan.runs:
        assert_same_run(store.run_dir(run).root, undisturbed.run_dir(run).root)


def test_a_worker_killed_goes_on_to_the_same_bits(cluster: Any, undisturbed: Store, tmp_path: Path) -> None:
    plan, store = small_plan(tmp_path)
    driver = begin(tmp_path, cluster)
    wait_until(lambda: at(store, plan, 250), driver)
    os.kill(int(store.run_dir(plan.runs[0]).owner() or 0), signal.SIGKILL)
    output = finish(driver)
    assert "its process was ended by SIGKILL" in output
    assert "2 of 2 runs are done" in output
    assert outcomes(store, plan) == [["failed", "done"], ["done"]]
    assert "resuming from the checkpoint" in store.log(plan.runs[0]).read_text()
    assert_as_undisturbed(store, plan, undisturbed)


@pytest.mark.slow
def test_rays_own_worker_killed_leaves_no_orphan(cluster: Any, undisturbed: Store, tmp_path: Path) -> None:
    import psutil

    plan, store = small_plan(tmp_path)
    driver = begin(tmp_path, cluster)
    wait_until(lambda: at(store, plan, 250), driver)
    process = psutil.Process(int(store.run_dir(plan.runs[0]).owner() or 0))
    process.parent().kill()  # the process of Ray that waits for it
    process.wait(60)
    output = finish(driver)
    assert "its Ray worker died" in output
    assert_as_undisturbed(store, plan, undisturbed)


@pytest.mark.slow
def test_a_node_removed_has_its_run_go_on_elsewhere(cluster: Any, undisturbed: Store, tmp_path: Path) -> None:
    plan, store = small_plan(tmp_path)
    driver = begin(tmp_path, cluster)
    wait_until(lambda: at(store, plan, 250), driver)
    gone = next(iter(cluster.worker_nodes))
    cluster.remove_node(gone, allow_graceful=False)
    try:
        output = finish(driver)
    finally:
        cluster.add_node(num_cpus=1)
    assert "2 of 2 runs are done" in output
    assert sorted(len(ends) for ends in outcomes(store, plan)) == [1, 2]
    assert_as_undisturbed(store, plan, undisturbed)


@pytest.mark.slow
def test_a_driver_killed_and_started_again_finds_what_is_there(
    cluster: Any, undisturbed: Store, tmp_path: Path
) -> None:
    plan, store = small_plan(tmp_path, seeds=3)
    driver = begin(tmp_path, cluster)
    wait_until(lambda: any(store.is_done(run) for run in plan.runs), driver)  # one finished, one running, one missing
    driver.kill()
    driver.communicate()
    done = [run for run in plan.runs if store.is_done(run)]
    before = {run.name: (store.run_dir(run).evals.stat().st_mtime_ns) for run in done}
    output = finish(begin(tmp_path, cluster))
    assert "3 of 3 runs are done" in output
    assert {run.name: store.run_dir(run).evals.stat().st_mtime_ns for run in done} == before
    for run in plan.runs[:2]:
        assert_same_run(store.run_dir(run).root, undisturbed.run_dir(run).root)


@pytest.mark.slow
def test_ctrl_c_saves_every_run(cluster: Any, undisturbed: Store, tmp_path: Path) -> None:
    plan, store = small_plan(tmp_path)
    driver = begin(tmp_path, cluster)
    wait_until(lambda: at(store, plan, 250), driver)
    driver.send_signal(signal.SIGINT)
    assert "Nothing is lost; run the same command to resume" in finish(driver, code=130)
    ends = [json.loads(store.run_dir(run).ended.read_text())["how"] for run in plan.runs]
    assert ends == ["stopped", "stopped"]
    finish(begin(tmp_path, cluster))
    assert_as_undisturbed(store, plan, undisturbed)


@pytest.mark.slow
def test_a_full_disk_sets_one_run_aside_and_the_others_go_on(cluster: Any, undisturbed: Store, tmp_path: Path) -> None:
    plan, store = small_plan(tmp_path)
    full = store.run_dir(plan.runs[0]).root
    full.mkdir(parents=True)
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", full], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        output = finish(begin(tmp_path, cluster), code=1)
        assert "1 of 2 runs are done" in output
        assert f"set aside after 3 failures: {plan.runs[0].label}: DiskFull: the disk of {full} is full" in output
        assert outcomes(store, plan) == [["failed"] * 3, ["done"]]
        assert_same_run(store.run_dir(plan.runs[1]).root, undisturbed.run_dir(plan.runs[1]).root)
        subprocess.run(["mount", "-o", "remount,size=64m", full], check=True)
        finish(start(tmp_path, "--launcher", "ray", "--address", cluster.address, "--retry"))
        assert_as_undisturbed(store, plan, undisturbed)
    finally:
        subprocess.run(["umount", "-l", full], check=True)


@pytest.mark.slow
def test_two_drivers_on_one_study(cluster: Any, undisturbed: Store, tmp_path: Path) -> None:
    plan, store = small_plan(tmp_path)
    first = begin(tmp_path, cluster)
    wait_until(lambda: at(store, plan, 50), first)
    assert "another `cbm study run` is running" in finish(begin(tmp_path, cluster), code=1)
    finish(first)
    assert outcomes(store, plan) == [["done"], ["done"]]
    assert_as_undisturbed(store, plan, undisturbed)


def test_ray_started_here_runs_everything_as_its_tasks(undisturbed: Store, tmp_path: Path) -> None:
    import psutil

    plan, store = small_plan(tmp_path)
    driver = start(tmp_path, "--launcher", "ray", "--jobs", "1")
    wait_until(lambda: store.run_dir(plan.runs[0]).owner(), driver)
    process = psutil.Process(int(store.run_dir(plan.runs[0]).owner() or 0))
    assert process.parent().name().startswith("ray::")
    finish(driver)
    assert outcomes(store, plan) == [["done"]] * 2
    assert_as_undisturbed(store, plan, undisturbed)


def lives(process: Any) -> bool:
    import psutil

    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)  # nobody may be there to bury it
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_ray_started_here_ends_with_its_driver(undisturbed: Store, tmp_path: Path, how: signal.Signals) -> None:
    import psutil

    plan, store = small_plan(tmp_path)
    driver = start(tmp_path, "--launcher", "ray", "--jobs", "1")
    wait_until(lambda: store.run_dir(plan.runs[1]).owner(), driver)
    family = psutil.Process(driver.pid).children(recursive=True)
    names = {process.pid: process.name() for process in family}
    assert "raylet" in names.values()
    driver.send_signal(how)
    driver.communicate(timeout=120)
    assert driver.returncode == (128 + how if how == signal.SIGTERM else -how)
    if how == signal.SIGKILL:  # Ray's agents go on trying to tell somebody for a minute or two, without computing
        family = [process for process in family if "Agent" not in names[process.pid]]
    deadline = time.monotonic() + 60
    while alive := [process for process in family if lives(process)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.1)
    finish(start(tmp_path, "--launcher", "local"))
    assert_as_undisturbed(store, plan, undisturbed)


def test_a_ray_that_does_not_start_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, store = small_plan(tmp_path)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / ("far" * 40)))  # too long for the sockets in it
    driver = start(tmp_path, "--launcher", "ray", "--jobs", "1")
    assert "Ray does not start on this machine" in finish(driver, code=1)
    monkeypatch.delenv("RAY_TMPDIR")
    assert drive(plan, store, make_launcher("local", Resources(store.root))).count("done") == 2


def test_a_run_has_at_least_one_core(tmp_path: Path) -> None:
    with pytest.raises(CBMError, match="--cpus must be at least 1"):
        make_launcher("ray", Resources(tmp_path, cpus=0))()


def test_what_cannot_be_is_said_before_anything_runs(cluster: Any, tmp_path: Path) -> None:
    """In a process of its own: this one must not be connected to the cluster."""
    script = f"""
import os
from pathlib import Path
from cbm.errors import CBMError
from cbm.studies.launch import Resources
from cbm.studies.launch.ray import Ray
root = Path({str(tmp_path)!r})
(root / ".lock").write_text(str(os.getpid()))

def try_it(**options):
    try:
        with Ray(Resources(**({{"root": root, "address": {cluster.address!r}}} | options))) as ray:
            print(ray.slots, "slots")
    except CBMError as error:
        print(error)

try_it()
try_it(jobs=7)
try_it(cpus=5)
try_it(gpus=0.5)
try_it(address="127.0.0.1:1")
(root / ".lock").write_text("somebody else")
try_it()
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    lines = result.stdout.splitlines()
    assert lines[:2] == ["2 slots", "7 slots"], result.stdout + result.stderr
    assert lines[2].startswith("no node has 5 CPUs and 0 GPUs")
    assert lines[3].startswith("no node has 1 CPUs and 0.5 GPUs")
    assert lines[4].startswith("no Ray cluster answers at 127.0.0.1:1")
    assert f"does not see {tmp_path}" in lines[5]


def test_room_on_a_node() -> None:
    from cbm.studies.launch.ray import room

    root = Path()
    assert room({"CPU": 8.0}, Resources(root, cpus=3)) == 2
    assert room({"CPU": 8.0, "GPU": 1.0}, Resources(root, cpus=1, gpus=0.25)) == 4
    assert room({"CPU": 8.0}, Resources(root, cpus=1, gpus=0.25)) == 0
    assert room({"CPU": 8.0, "GPU": 3.0}, Resources(root, cpus=1, gpus=0.1)) == 8

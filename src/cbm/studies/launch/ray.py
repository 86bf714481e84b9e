"""Runs on a Ray cluster: one task each, with the CPUs and GPUs that it asks for, on any node that has them.

Every node must see the folder of studies under the same path: a run that lost its node is resumed elsewhere from its
checkpoint and its replay, which could not be fetched from a machine that is gone. This is checked on every node before
the first run starts.
"""

from __future__ import annotations

import logging
import os
import platform
import socket
import time
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from cbm.errors import CLUSTER_HINT, CBMError
from cbm.studies.launch import Job, Resources, begin, ended
from cbm.studies.store import Ended
from cbm.system.child import outside
from cbm.system.cores import cores

try:
    import ray
    from ray.cluster_utils import Cluster
    from ray.exceptions import NodeDiedError, RayError, TaskCancelledError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ModuleNotFoundError as error:
    raise CBMError(
        f"--launcher ray needs Ray: {CLUSTER_HINT}. On one machine --launcher local does the same."
    ) from error

_PACKAGES = ("cbm-rl", "torch", "mujoco", "numpy")
_PAUSE = 0.02  # seconds between two looks at a process


class Ray:
    """A cluster, found at an address or started here."""

    def __init__(self, resources: Resources) -> None:
        if resources.cpus < 1 or resources.gpus < 0 or resources.jobs < 0:
            raise CBMError("--cpus must be at least 1, --gpus and --jobs at least 0.")
        self.threads = resources.cpus
        self._resources = resources
        self._running: dict[Any, Job] = {}
        self._own: Cluster | None = None
        self._task: Any = ray.remote(num_cpus=resources.cpus, num_gpus=resources.gpus, max_retries=0)(_attempt)

    def __enter__(self) -> Self:
        address = self._resources.address
        if address is not None:
            _knock(address)
        try:
            self._join(address)
            if not self.slots:
                raise CBMError(
                    f"no node has {self._resources.cpus} CPUs and {self._resources.gpus:g} GPUs, which a run "
                    "asks for. Ask for less with --cpus and --gpus, or look at `ray status`."
                )
        except BaseException:
            self.__exit__()
            raise
        return self

    def _join(self, address: str | None) -> None:
        try:
            with outside():  # Ray would put the current folder on the path of its workers
                if address is None:
                    self._own = _start(self._resources)
                ray.init(self._own.address if self._own else address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, RuntimeError, ValueError) as error:
            raise CBMError(_nobody(address, error)) from error
        if address is not None:
            check_nodes(self._resources.root)

    def __exit__(self, *error: object) -> None:
        ray.shutdown()  # a task that is still running loses its driver, saves and ends
        if self._own is not None:
            self._own.shutdown()

    @property
    def slots(self) -> int:
        """`--jobs`, or as many as the nodes that are up have room for."""
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        return self._resources.jobs or sum(room(has, self._resources) for has in alive)

    def start(self, job: Job) -> None:
        self._running[self._task.remote(job, os.getpid())] = job

    def wait(self, seconds: float) -> list[tuple[str, Ended]]:
        if not self._running:
            time.sleep(seconds)
            return []
        ready, _ = ray.wait(list(self._running), num_returns=1, timeout=seconds)
        return [(self._running.pop(reference).run.name, _outcome(reference)) for reference in ready]

    def stop(self) -> None:
        for reference in self._running:
            ray.cancel(reference, force=False)


def _start(resources: Resources) -> Cluster:
    """A cluster on this machine, without the autoscaler and the log monitor that `ray.init` would also start.

    Each of those is a Python process that imports Ray, on cores that the runs could use.
    """
    os.environ.setdefault("PYTHONSAFEPATH", "1")
    os.environ.setdefault("RAY_worker_niceness", "0")  # by default Ray gives way to everything else; `local` does not
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # the user did not ask for reports to Ray's makers
    logging.getLogger("ray").setLevel(logging.ERROR)
    lean = {"include_dashboard": False, "no_monitor": True, "include_log_monitor": False}
    gpus = 0
    if resources.gpus:
        import torch

        gpus = torch.cuda.device_count()
    return Cluster(initialize_head=True, head_node_args={"num_cpus": cores(), "num_gpus": gpus, **lean})


def _knock(address: str) -> None:
    """An error if nothing answers at `address`. Ray itself would keep trying for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon:
        if address != "auto":
            raise CBMError(f"--address {address}: write HOST:PORT of the head node, such as 10.0.0.1:6379, or auto.")
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        raise CBMError(_nobody(address, error)) from error


def _nobody(address: str | None, error: Exception) -> str:
    if address is None:
        return f"Ray does not start on this machine: {error}. Use --launcher local, which does not need it."
    return (
        f"no Ray cluster answers at {address}: {error}. Start one with `ray start --head`, and look at it with "
        "`ray status`; see docs/cluster.md."
    )


def room(has: dict[str, float], wants: Resources) -> int:
    """How many runs a node with these resources can hold at once."""
    by_cpu = int(has.get("CPU", 0) // wants.cpus)
    return by_cpu if not wants.gpus else min(by_cpu, int(has.get("GPU", 0) / wants.gpus + 1e-9))


def check_nodes(root: Path) -> None:
    """An error unless every node sees the folder of studies and has the same versions as the driver."""
    look = ray.remote(num_cpus=0, max_retries=2)(_look)
    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    answers = {
        address: look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False), name="look").remote(
            str(root.resolve()), os.getpid()
        )
        for node, address in nodes.items()
    }
    ours = _versions()
    for address, reference in answers.items():
        try:
            sees, theirs = ray.get(reference, timeout=120)
        except RayError as error:
            raise CBMError(f"the node {address} does not answer: {str(error).splitlines()[0]}") from error
        if not sees:
            raise CBMError(_unseen(root, address))
        if theirs != ours:
            different = ", ".join(
                f"{name} {theirs[name]} instead of {ours[name]}" for name in ours if theirs[name] != ours[name]
            )
            raise CBMError(f"the node {address} has {different}. Install the same there: see docs/cluster.md.")


def _unseen(root: Path, address: str) -> str:
    return (
        f"the node {address} does not see {root.resolve()}. Every node must see the folder of studies under this path, "
        "for example through NFS; see docs/cluster.md. Choose a folder that all of them see with --root."
    )


def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in _PACKAGES}


def _sees(root: str, driver: int) -> bool:
    """Whether this machine can read the process id that the driver wrote into its lock."""
    try:
        return (Path(root) / ".lock").read_text() == str(driver)
    except OSError:
        return False


def _look(root: str, driver: int) -> tuple[bool, dict[str, str]]:
    return _sees(root, driver), _versions()


def _attempt(job: Job, driver: int) -> Ended:
    """In a Ray worker: one process of a run, from its start to its end."""
    if not _sees(job.root, driver):  # a node that joined after the check
        return Ended("failed", _unseen(Path(job.root), platform.node()), platform.node())
    process = begin(job)
    try:
        while process.poll() is None:
            time.sleep(_PAUSE)
    except BaseException:  # cancelled: the run saves before this task ends
        process.terminate()
        process.wait()
        raise
    return ended(process.returncode, job)


def _outcome(reference: Any) -> Ended:
    try:
        return ray.get(reference)
    except TaskCancelledError:
        return Ended("stopped")
    except NodeDiedError:
        return Ended("lost", "its node is gone")
    except RayError as error:
        return Ended("failed", f"its Ray worker died: {type(error).__name__}: {str(error).strip().splitlines()[0]}")

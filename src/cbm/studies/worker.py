"""The process of one run: `python -m cbm.studies.worker`, with the job as a line of JSON on its standard input.

The input stays open as long as the parent process lives. When it closes, the run saves and stops: no orphan keeps
computing, no matter what killed its parent.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import sys
import threading
import time
from io import FileIO
from pathlib import Path

from cbm.errors import CBMError
from cbm.runs.directory import RunDir, RunInUse
from cbm.runs.trust import module_of, trust
from cbm.studies.define import PlannedRun
from cbm.studies.store import Store
from cbm.system.files import write_whole

_PATIENCE = 180.0  # seconds; a process whose parent died may still be saving on another machine


def main() -> int:
    atexit.register(gc.freeze)  # exit without Python's last garbage collection, as in cbm.cli
    try:
        line = FileIO(0, closefd=False).readline()  # without a buffer: a thread waiting in it would block the exit
        if not line.endswith(b"\n"):
            raise CBMError("this process is started by `cbm study run`; to train, use `cbm train`.")
        job = json.loads(line)
        threading.Thread(target=_stop_with_parent, daemon=True).start()
        return work(PlannedRun(**job["run"]), Store(Path(job["root"])))
    except CBMError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1


def work(run: PlannedRun, store: Store) -> int:
    """Train or resume, then play the final episodes. Returns 0, or 128 plus the signal that ended it early."""
    from cbm.config import from_json
    from cbm.evaluation.evaluate import evaluate
    from cbm.training import loop

    trust(module_of(run.config["env"]["env_id"]))  # trusted because the user's own study names it
    directory, deadline = store.run_dir(run).root, time.monotonic() + _PATIENCE
    while True:
        try:
            if RunDir(directory).config.exists():
                outcome = loop.resume(directory)
            else:
                outcome = loop.train(from_json(run.config), directory)
            break
        except RunInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)
    if outcome.signal is not None:
        return 128 + outcome.signal
    final = store.final(run)
    if run.final_episodes and not final.exists():
        found = evaluate(directory, run.final_episodes, "unseen", run.config["training"]["eval_workers"])
        write_whole(final, (json.dumps(found, indent=2) + "\n").encode(), directory)
    return 0


def _stop_with_parent() -> None:
    while os.read(0, 1 << 16):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())

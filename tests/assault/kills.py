"""`kill -9` at random moments, also of evaluation and analysis: the resumed run is the uninterrupted one to the bit."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

from attempt import Process, attempt

from same_run import assert_same_run
from toy import tiny_options

AGENTS = ("drqv2+cbm", "drq", "proto", "tpc", "svea", "drq+cbm")


def options(agent: str, workers: int) -> list[str]:
    changes = {"training__total_steps": 300, "training__eval_every": 100, "training__checkpoint_every": 60}
    if agent in ("drqv2+cbm", "drq"):
        changes |= {"training__overlap": "true"}
    if agent == "tpc":
        changes |= {"agent__length": 10, "agent__batch_size": 4, "agent__imagined": 2, "agent__conv_layers": 2}
    if agent == "svea":
        changes |= {"agent__first_updates": 0}
    if agent == "proto":
        changes |= {"agent__proto__prototypes": 8, "agent__proto__queue": 64}
    return tiny_options(agent, training__eval_workers=workers, training__analyze_every=100, **changes)


class Victims:
    """One uninterrupted run of each agent, to hold the others against."""

    def __init__(self, folder: Path, agents: tuple[str, ...] = AGENTS) -> None:
        self.folder, self.agents, self.seconds = folder, agents, {}
        for agent in agents:
            outcome = attempt(["train", *options(agent, 0), "--out", folder / agent], folder, 600)
            assert outcome.status == 0, outcome.text
            self.seconds[agent] = outcome.seconds

    def kill(self, number: int, kills: int = 4) -> tuple[int, str | None]:
        """A run that is killed several times and resumed: how often it was hit, and what is wrong with it."""
        dice = random.Random(number)
        agent = self.agents[number % len(self.agents)]
        run = self.folder / f"killed-{number}"
        words: list[object] = ["train", *options(agent, int(number % 5 == 0)), "--out", run]
        hit = 0
        try:
            for _ in range(kills):
                process = Process(words, self.folder)
                time.sleep(dice.uniform(0, 0.6 * self.seconds[agent]))
                process.kill()
                hit += process.wait().status == -9
                if (run / "config.json").exists():
                    words = ["train", "--resume", run, "--trust", "toy"]
            outcome = attempt(words, self.folder, 600)
            if outcome.complaint is not None or outcome.status:
                return hit, f"{agent}: {outcome.complaint or outcome.text}"
            assert_same_run(run, self.folder / agent)
        except AssertionError as error:
            return hit, f"{agent}: not the same run: {error}"
        finally:
            shutil.rmtree(run, ignore_errors=True)
        return hit, None

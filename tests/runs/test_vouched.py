"""What a checkpoint vouches for: on resume, a change in replay, records or configuration is an error that names it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cbm.config import effect_of
from cbm.errors import CBMError
from cbm.replay import Replay
from cbm.runs.checkpoint import load_newest
from cbm.schema.tree import Effect
from cbm.training import loop
from toy import finished_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished_run(), tmp_path / "run"))


def saved(run: Path) -> dict[str, Any]:
    found = load_newest(run / "checkpoint")
    assert found is not None
    return found[1]


def in_replay(run: Path, name: str, change: Callable[[np.memmap, int], None]) -> None:
    """Change one of the frames, or its step, that the newest checkpoint can sample."""
    array = np.load(run / "replay" / f"{name}.npy", mmap_mode="r+")
    change(array, saved(run)["replay"]["head"] // 2)
    array.flush()


def zero_frames(run: Path) -> None:
    in_replay(run, "frames", lambda frames, i: frames.__setitem__(slice(i, i + 3), 0))


def flip_a_bit(run: Path) -> None:
    in_replay(run, "frames", lambda frames, i: frames.__setitem__((i, 1, 2, 3), frames[i, 1, 2, 3] ^ 1))


def change_the_newest_frame(run: Path) -> None:
    in_replay(run, "frames", lambda frames, i: frames.__setitem__((saved(run)["replay"]["head"] - 1, 0), 9))


def change_a_reward(run: Path) -> None:
    in_replay(run, "steps", lambda steps, i: steps["reward"].__setitem__(i, steps["reward"][i] + 1e-3))


def change_an_action(run: Path) -> None:
    in_replay(run, "steps", lambda steps, i: steps["action"].__setitem__(i, -steps["action"][i]))


def put_in_another_replay(run: Path) -> None:
    old = Replay(run / "replay", writable=False)
    shutil.rmtree(run / "replay")
    other = Replay.create(run / "replay", (3 * old.stack, *old.frame_shape[1:]), old.action_dim, old.capacity)
    frames = np.random.default_rng(1).integers(0, 256, (3 * old.stack, *old.frame_shape[1:]), dtype=np.uint8)
    other.add_first(frames)
    for _ in range(saved(run)["replay"]["head"]):
        other.add(np.zeros(old.action_dim), 0.5, frames, False, False)


def in_config(run: Path, **changes: Any) -> None:
    config = json.loads((run / "config.json").read_text())
    for name, value in changes.items():
        *groups, leaf = name.split("__")
        at = config
        for group in groups:
            at = at[group]
        assert leaf in at
        at[leaf] = value
    (run / "config.json").write_text(json.dumps(config))


def change_a_line(name: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        text = (run / name).read_text()
        (run / name).write_text(text.replace('"env_step": ', '"env_step": 9', 1))

    return change


def cut_a_line(run: Path) -> None:
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:-1]))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (zero_frames, r"replay/frames\.npy has changed since the checkpoint: something in its frames"),
        (flip_a_bit, r"replay/frames\.npy has changed"),
        (change_the_newest_frame, r"replay/frames\.npy has changed"),
        (change_a_reward, r"replay/steps\.npy has changed"),
        (change_an_action, r"replay/steps\.npy has changed"),
        (put_in_another_replay, r"replay/frames\.npy has changed .* belongs to another run"),
        (
            lambda run: in_config(run, agent__lr=2e-3),
            r"config\.json has changed .*: agent\.lr was 0\.0005 and is 0\.002",
        ),
        (lambda run: in_config(run, seed=1), r"config\.json has changed since the checkpoint: seed was 0 and is 1"),
        (lambda run: in_config(run, training__eval_every=200), r"training\.eval_every was 400 and is 200"),
        (change_a_line("metrics.jsonl"), r"metrics\.jsonl has changed since the checkpoint"),
        (change_a_line("evals.jsonl"), r"evals\.jsonl has changed since the checkpoint"),
        (change_a_line("analysis.jsonl"), r"analysis\.jsonl has changed since the checkpoint"),
        (cut_a_line, r"metrics\.jsonl .* is shorter"),
    ],
)
def test_what_has_changed_is_named(run: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(run)
    with pytest.raises(CBMError, match=message) as error:
        loop.resume(run, total_steps=810, quiet=True)
    assert any(way in str(error.value) for way in ("still work", "Change it back"))


def test_what_belongs_to_the_machine_may_change(run: Path) -> None:
    in_config(
        run, training__threads=2, training__eval_workers=1, training__checkpoint_minutes=1.0, training__film=False
    )
    assert loop.resume(run, total_steps=810, quiet=True).at.env_step == 810
    assert effect_of("training.eval_workers") < effect_of("training.device") <= Effect.EXTENT


def test_a_run_cannot_end_before_where_it_is(run: Path) -> None:
    before = (run / "config.json").read_bytes()
    with pytest.raises(CBMError, match="has done 800 environment steps: it cannot end at 500"):
        loop.resume(run, total_steps=500, quiet=True)
    assert (run / "config.json").read_bytes() == before


def test_a_ring_that_went_round_is_vouched_for_from_its_oldest_frame(tmp_path: Path) -> None:
    """Every frame that can be sampled is checked, at every moment, however many were added after the checkpoint."""
    replay = Replay.create(tmp_path / "replay", (3, 4, 4), 1, capacity=40, margin=16)
    generator = np.random.default_rng(0)

    def frame() -> np.ndarray:
        return generator.integers(0, 256, (3, 4, 4), dtype=np.uint8)

    replay.add_first(frame())
    for step in range(150):
        replay.add(np.zeros(1), float(step), frame(), False, False)
        state = replay.state()
        if step % 7:
            continue
        while replay.room(state) > 0:  # the most that may be added
            replay.add(np.zeros(1), -1.0, frame(), False, False)
        replay.flush()
        Replay.open(tmp_path / "replay", state).close()
        for index in (state["tail"], state["head"] - 1):
            array = np.load(tmp_path / "replay" / "frames.npy", mmap_mode="r+")
            array[index % replay.slots] ^= 1
            with pytest.raises(CBMError, match=r"frames\.npy"):
                Replay.open(tmp_path / "replay", state)
            array[index % replay.slots] ^= 1
        replay = Replay.open(tmp_path / "replay", state)

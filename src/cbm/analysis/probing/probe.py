"""The probe: a few hundred physical states, each seen in front of several backgrounds, to test an encoder on.

Episodes are played with their own seeds, half of them with random actions and half by the agent, so that the states
include both those that are easy to reach and those that the agent reaches. Each is then played again, action by action,
in front of the other backgrounds: physics, camera and colours stay the same to the last bit, and only the video behind
them changes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from cbm.config.seeds import seed_for
from cbm.envs.distractions import Distraction
from cbm.evaluation.play import EpisodeSpec, play
from cbm.types import Acts, Agent

EPISODES = 6  # with random actions, and as many by the agent
MOMENTS = 32  # at most per episode, evenly spread
BACKGROUNDS = 4  # at most; `easy` has this many videos


@dataclass(frozen=True)
class Probe:
    """N observations and what is known about them: episode by episode, background by background, in order of time."""

    obs: np.ndarray  # uint8 (N, C, H, W)
    state: np.ndarray  # from the simulator, float64 (N, S); S = 0 if the environment gives none
    background: np.ndarray  # the video, (N,) of str
    moment: np.ndarray  # (N,) observations of one physical moment have the same number
    episode: np.ndarray  # (N,)
    step: np.ndarray  # (N,) agent steps since the episode began
    to_go: np.ndarray  # (N,) rewards from here to the end of the episode
    by_agent: np.ndarray  # (N,) bool: reached by the agent, or by random actions

    def __len__(self) -> int:
        return len(self.obs)

    @property
    def backgrounds(self) -> list[str]:
        return sorted(set(self.background.tolist()))

    def take(self, index: np.ndarray) -> Probe:
        """Some of the observations."""
        return Probe(**{field.name: getattr(self, field.name)[index] for field in fields(self)})

    @classmethod
    def join(cls, parts: list[Probe]) -> Probe:
        return cls(
            **{field.name: np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)}
        )


@dataclass(frozen=True)
class Showing:
    """One episode of the probe, to be played in front of every background: a job for `evaluation.Workers`."""

    run_seed: int
    number: int
    random: bool  # played with random actions, or by the agent
    moments: int = MOMENTS
    split: ClassVar[str] = "train"
    env: ClassVar[None] = None

    def run(self, agent: Agent, env: gym.Env, env_step: int) -> Probe:
        video = background_of(env)
        names = () if video is None else video.names
        shown = names[:BACKGROUNDS] or ("none",)
        job, recorder, parts = EpisodeSpec(self.split, seed_for(self.run_seed, "probe", self.number)), Recorder(env), []
        actor: Acts = RandomActions(recorder.action_space, job.seed) if self.random else agent
        first = self.number % len(shown)
        try:
            for turn, name in enumerate(shown[first:] + shown[:first]):
                if video is not None:
                    video.names = (name,)
                # The first background is the one that the actor saw. With the others its actions are repeated,
                # and only the frames that are needed are drawn.
                recorder.needed = None if turn == 0 else recorder.frames_of(recorder.kept(self.moments))
                play(actor, recorder, job, env_step)
                actor = Script(recorder.actions)
                parts.append(recorder.part(self.number, self.moments, by_agent=not self.random))
        finally:
            recorder.draw(True)
            if video is not None:
                video.names = names
        return Probe.join(parts)


def showings(run_seed: int, random: bool, episodes: int = EPISODES, moments: int = MOMENTS) -> list[Showing]:
    """One half of the probe."""
    return [Showing(run_seed, index if random else episodes + index, random, moments) for index in range(episodes)]


def background_of(env: gym.Env) -> Distraction | None:
    """The distraction that shows videos, if there is one."""
    distractions = getattr(env.unwrapped, "distractions", ())
    return next((each for each in distractions if each.shows_videos), None)


class RandomActions:
    """Uniformly random actions, instead of an agent."""

    def __init__(self, space: gym.Space, seed: int) -> None:
        self._shape, self._rng = space.shape, np.random.default_rng(seed)

    def act(self, obs: np.ndarray, env_step: int = 0, explore: bool = False) -> np.ndarray:
        return self._rng.uniform(-1.0, 1.0, self._shape).astype(np.float32)


class Script:
    """Actions that are already known, instead of an agent."""

    def __init__(self, actions: list[np.ndarray]) -> None:
        self._rest = list(actions)

    def act(self, obs: np.ndarray, env_step: int = 0, explore: bool = False) -> np.ndarray:
        return self._rest.pop(0)


class Recorder(gym.Wrapper):
    """Keeps what an episode showed. With `needed`, an environment that can skip drawing frames draws only those."""

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.needed: set[int] | None = None
        self._stack = (env.observation_space.shape or (3,))[0] // 3

    def draw(self, wanted: bool) -> None:
        if hasattr(self.unwrapped, "drawing"):
            self.unwrapped.drawing = wanted

    def kept(self, moments: int) -> np.ndarray:
        """Evenly spread moments of the episode that was just played, without its last, which has no next one."""
        length = len(self.actions)
        return np.unique(np.linspace(0, length - 1, min(length, moments)).round().astype(int))

    def frames_of(self, moments: np.ndarray) -> set[int]:
        """The frames that the observations of these moments are stacked from."""
        return {int(frame) for moment in moments for frame in range(moment - self._stack + 1, moment + 1)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.draw(True)
        obs, info = self.env.reset(seed=seed, options=options)
        self.actions: list[np.ndarray] = []
        self._rewards: list[float] = []
        self._seen = [(np.array(obs), _state(info), str(info.get("background", "none")))]
        return obs, info

    def step(self, action: np.ndarray) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.draw(self.needed is None or len(self._seen) in self.needed)
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.actions.append(np.array(action))
        self._rewards.append(float(reward))
        self._seen.append((np.array(obs), _state(info), str(info.get("background", "none"))))
        return obs, reward, terminated, truncated, info

    def part(self, episode: int, moments: int, by_agent: bool) -> Probe:
        """What is kept of the episode that was just played."""
        kept = self.kept(moments)
        to_go = np.cumsum(self._rewards[::-1])[::-1]
        return Probe(
            obs=np.stack([self._seen[i][0] for i in kept]),
            state=np.stack([self._seen[i][1] for i in kept]),
            background=np.array([self._seen[i][2] for i in kept], dtype=object),
            moment=episode * 1_000_000 + kept,
            episode=np.full(len(kept), episode),
            step=kept,
            to_go=to_go[kept],
            by_agent=np.full(len(kept), by_agent),
        )


def _state(info: dict[str, Any]) -> np.ndarray:
    state = info.get("state")
    return np.empty(0) if state is None else np.array(state, np.float64).ravel()

"""Camera: another point of view, on a patch of a sphere around the agent, and a tilted head."""

from __future__ import annotations

import mujoco
import numpy as np

from cbm.envs.distractions.base import Distraction, Scene

WORLD_UP = np.array([0.0, 0.0, 1.0])


class Camera(Distraction):
    """The pose of the task's camera, within a range that grows with the scale s.

    In spherical coordinates (radius r, azimuth h, polar angle v) about the origin, or about the robot's centre of
    mass for a camera that tracks it: h and v within +-(pi/2)s of the original, r within [1 - s/2, 1 + 3s/2] of it,
    roll within +-(pi/2)s. Dynamic: position and roll have a velocity that does a random walk.
    """

    options = frozenset({"scale", "dynamic"})

    def reset(self, scene: Scene) -> None:
        s = self.config.scale
        mujoco.mj_camlight(scene.model, scene.data)  # the original pose, whatever was written over it
        self._tracks = scene.model.cam_mode[scene.camera_id] == mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM
        self._shortest_rotation = scene.domain == "reacher"  # it looks straight down, where "up" means nothing
        position, rotation = _pose(scene)
        # The point that the original camera looks at lies on its viewing axis, as far away as the robot.
        self._lookat_distance = float((_center_of_mass(scene) - position) @ -rotation[:, 2])

        r, h, v = to_spherical(position - self._center(scene))
        self.low = np.array([r * (1 - 0.5 * s), h - np.pi / 2 * s, v - np.pi / 2 * s])
        self.high = np.array([r * (1 + 1.5 * s), h + np.pi / 2 * s, v + np.pi / 2 * s])
        if scene.domain != "reacher":  # stay above the ground and on this side of the robot
            self.low[1:] = np.maximum(self.low[1:], [-np.pi, 0.0])
            self.high[1:] = np.minimum(self.high[1:], [0.0, np.pi / 2])
        self.max_roll = np.pi / 2 * s
        self.spherical = self.rng.uniform(self.low, self.high)
        self.roll = float(self.rng.uniform(-self.max_roll, self.max_roll))

        # Speeds were chosen for a camera four metres away.
        self._velocity, self._roll_velocity = np.zeros(3), 0.0
        self._velocity_std, self._max_velocity = 0.1 * s * r / 4, 0.4 * s * r / 4
        self._roll_std, self._max_roll_velocity = np.pi / 300 * s, np.pi / 50 * s

    def step(self) -> None:
        if not self.config.dynamic:
            return
        self._velocity += self.rng.normal(scale=self._velocity_std, size=3)
        speed = float(np.linalg.norm(self._velocity))
        if speed > self._max_velocity:
            self._velocity *= self._max_velocity / speed
        self.spherical = self._clip(to_spherical(to_cartesian(self.spherical) + self._velocity))

        self._roll_velocity += self.rng.normal(scale=self._roll_std)
        self._roll_velocity = float(np.clip(self._roll_velocity, -self._max_roll_velocity, self._max_roll_velocity))
        self.roll = float(np.clip(self.roll + self._roll_velocity, -self.max_roll, self.max_roll))

    def apply(self, scene: Scene) -> None:
        mujoco.mj_camlight(scene.model, scene.data)
        position, rotation = _pose(scene)
        lookat = position - self._lookat_distance * rotation[:, 2]
        new_position = self._center(scene) + to_cartesian(self.spherical)
        if self._shortest_rotation:
            new_rotation = turn_to(rotation, lookat - new_position)
        else:
            new_rotation = look_along(lookat - new_position)
        scene.data.cam_xpos[scene.camera_id] = new_position
        scene.data.cam_xmat[scene.camera_id] = (new_rotation @ roll_matrix(self.roll)).reshape(-1)

    def _clip(self, spherical: np.ndarray) -> np.ndarray:
        # The azimuth is an angle: bring it next to the middle of its range before it is compared with the ends.
        middle = (self.low[1] + self.high[1]) / 2
        spherical[1] = middle + (spherical[1] - middle + np.pi) % (2 * np.pi) - np.pi
        return np.clip(spherical, self.low, self.high)

    def _center(self, scene: Scene) -> np.ndarray:
        return _center_of_mass(scene) if self._tracks else np.zeros(3)


def _pose(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Position (3,) and rotation (3, 3) of the camera; it looks along its own -z, x is right and y is up."""
    position = scene.data.cam_xpos[scene.camera_id].copy()
    return position, scene.data.cam_xmat[scene.camera_id].reshape(3, 3).copy()


def _center_of_mass(scene: Scene) -> np.ndarray:
    return scene.data.subtree_com[1].copy()  # body 0 is the world, body 1 the robot's root


def to_spherical(xyz: np.ndarray) -> np.ndarray:
    """(x, y, z) -> (r, azimuth from +x, polar angle from +z)."""
    x, y, z = xyz
    return np.array([np.linalg.norm(xyz), np.arctan2(y, x), np.arctan2(np.hypot(x, y), z)])


def to_cartesian(spherical: np.ndarray) -> np.ndarray:
    r, h, v = spherical
    return r * np.array([np.sin(v) * np.cos(h), np.sin(v) * np.sin(h), np.cos(v)])


def look_along(direction: np.ndarray) -> np.ndarray:
    """The rotation of a camera that looks along `direction` with the horizon level."""
    backward = -direction / np.linalg.norm(direction)
    right = np.cross(WORLD_UP, backward)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(backward, right), backward], axis=1)


def turn_to(rotation: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """`rotation` turned by the smallest angle that makes the camera look along `direction`."""
    old, new = -rotation[:, 2], direction / np.linalg.norm(direction)
    axis, cosine = np.cross(old, new), float(old @ new)
    skew = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return (np.eye(3) + skew + skew @ skew / (1 + cosine)) @ rotation


def roll_matrix(angle: float) -> np.ndarray:
    """A rotation about the camera's own viewing axis."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])

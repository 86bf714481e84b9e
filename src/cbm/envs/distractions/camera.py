"""Camera: another point of view, on a patch of a sphere around the agent, and a roll."""

from __future__ import annotations

import math

import mujoco
import numpy as np

from cbm.envs.distractions.base import Distraction, Scene

STEEP = 0.95  # cosine between viewing axis and vertical above which "up" has no meaning
_FIXED = int(mujoco.mjtCamLight.mjCAMLIGHT_FIXED)
_TRACKS_BODY = int(mujoco.mjtCamLight.mjCAMLIGHT_TRACK)
_TRACKS_ROBOT = int(mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM)


class Camera(Distraction):
    """The pose of the task's camera, within a range that grows with the scale s.

    In spherical coordinates (radius r, azimuth h, polar angle v) about the origin, or about the robot's centre of
    mass for a camera that tracks it: h and v within +-(pi/2)s of the original, r within [1 - s/2, 1 + 3s/2] of it,
    roll within +-(pi/2)s. Dynamic: position and roll have a velocity that does a random walk.

    Pose and motion are those of the Distracting Control Suite for the same draws, which come in the same order.
    """

    options = frozenset({"scale", "camera_scale", "dynamic"})

    def reset(self, scene: Scene) -> None:
        s = self.config.scale
        mujoco.mj_camlight(scene.model, scene.data)  # the original pose, whatever was written over it
        mode = scene.model.cam_mode[scene.camera_id]
        self._tracks = mode == _TRACKS_ROBOT
        self._turns = mode not in (_FIXED, _TRACKS_BODY)  # it looks at a different point at every step
        # Not in the Distracting Control Suite: a camera on a part of the robot moves with it in its new pose.
        self._carried = mode == _TRACKS_BODY or (mode == _FIXED and scene.model.cam_bodyid[scene.camera_id] != 0)
        self._start = position, rotation = _pose(scene)
        self._steep = self._carried or abs(rotation[2, 2]) > STEEP  # reacher looks straight down
        self._center = _center_of_mass(scene) if self._tracks or self._carried else np.zeros(3)
        self._target = _looked_at(scene)

        r0, h0, v0 = to_spherical(position - self._center)
        angle = np.pi / 2 * s
        self.low = np.array([r0 * (1 - 0.5 * s), h0 - angle, v0 - angle])
        self.high = np.array([r0 * (1 + 1.5 * s), h0 + angle, v0 + angle])
        if not self._steep:  # above the ground, and on its own side of a robot that it sees from the side
            self.low[2], self.high[2] = max(self.low[2], min(v0, 0.0)), min(self.high[2], max(v0, np.pi / 2))
            if abs(h0 + np.pi / 2) < np.pi / 4:
                self.low[1], self.high[1] = max(self.low[1], -np.pi), min(self.high[1], 0.0)
        self.max_roll = angle

        h, v, r = (self.rng.uniform(self.low[axis], self.high[axis]) for axis in (1, 2, 0))
        self.spherical = np.array([r, h, v])
        self.roll = float(self.rng.uniform(-self.max_roll, self.max_roll))

        # Speeds were chosen for a camera four metres away. The first one is not scaled to the distance, only capped.
        self._std, self._max_speed = 0.1 * s * r0 / 4, 0.4 * s * r0 / 4
        self._roll_std, self._max_roll_speed = np.pi / 300 * s, np.pi / 50 * s
        direction = self.rng.normal(size=3)
        self._velocity = direction / np.linalg.norm(direction) * self.rng.uniform(0.0, 0.4 * s)
        self._roll_velocity = float(self.rng.uniform(-self._max_roll_speed, self._max_roll_speed))
        if self.config.dynamic:
            self.step()
        else:
            self._move_to(to_spherical(to_cartesian(self.spherical)))

    def step(self) -> None:
        if not self.config.dynamic:
            return
        velocity = self._velocity + self.rng.normal(size=3) * self._std
        speed = math.hypot(*velocity)
        if speed > self._max_speed:
            velocity *= self._max_speed / speed
        # Clipping may stop the camera, so its velocity is what it has really moved.
        before = to_cartesian(self.spherical)
        self._move_to(to_spherical(before + velocity))
        self._velocity = to_cartesian(self.spherical) - before

        roll_velocity = _clip(self._roll_velocity + self.rng.normal() * self._roll_std, self._max_roll_speed)
        roll = _clip(self.roll + roll_velocity, self.max_roll)
        self._roll_velocity, self.roll = roll - self.roll, roll

    def apply(self, scene: Scene) -> None:
        mujoco.mj_camlight(scene.model, scene.data)
        center = _center_of_mass(scene) if self._tracks else self._center
        target = _looked_at(scene) if self._turns else self._target
        position = center + to_cartesian(self.spherical)
        rotation = turn_to(self._start[1], target - position) if self._steep else look_along(target - position)
        rotation = rotation @ roll_matrix(self.roll)
        if self._carried:
            now, axes = _pose(scene)
            turned = axes @ self._start[1].T
            position, rotation = now + turned @ (position - self._start[0]), turned @ rotation
        scene.data.cam_xpos[scene.camera_id] = position
        scene.data.cam_xmat[scene.camera_id] = rotation.reshape(-1)

    def _move_to(self, spherical: np.ndarray) -> None:
        """Go there, or as close as the range allows.

        Beyond the pole a camera is on the other side, where its azimuth is out of range: reacher's stays on a bound.
        """
        middle = (self.low[1] + self.high[1]) / 2  # of the equal angles, take the one nearest to the middle
        spherical[1] = middle + (spherical[1] - middle + np.pi) % (2 * np.pi) - np.pi
        self.spherical = np.minimum(np.maximum(spherical, self.low), self.high)


def _pose(scene: Scene) -> tuple[np.ndarray, np.ndarray]:
    """Position (3,) and rotation (3, 3) of the camera; it looks along its own -z, x is right and y is up."""
    position = scene.data.cam_xpos[scene.camera_id].copy()
    return position, scene.data.cam_xmat[scene.camera_id].reshape(3, 3).copy()


def _center_of_mass(scene: Scene) -> np.ndarray:
    return scene.data.subtree_com[1].copy()  # body 0 is the world, body 1 the robot's root


def _looked_at(scene: Scene) -> np.ndarray:
    """The point on the viewing axis of the original camera that is as far away as the robot's centre of mass."""
    position, rotation = _pose(scene)
    return position - np.linalg.norm(position - _center_of_mass(scene)) * rotation[:, 2]


def _clip(value: float, bound: float) -> float:
    return min(max(value, -bound), bound)


# For three numbers at a time, eight times per agent step, `math` is several times faster than NumPy.
def to_spherical(xyz: np.ndarray) -> np.ndarray:
    """(x, y, z) -> (r, azimuth from +x, polar angle from +z)."""
    x, y, z = xyz.tolist()
    return np.array([math.hypot(x, y, z), math.atan2(y, x), math.atan2(math.hypot(x, y), z)])


def to_cartesian(spherical: np.ndarray) -> np.ndarray:
    r, h, v = spherical.tolist()
    return np.array([r * math.sin(v) * math.cos(h), r * math.sin(v) * math.sin(h), r * math.cos(v)])


def look_along(direction: np.ndarray) -> np.ndarray:
    """The rotation of a camera that looks along `direction` with the horizon level."""
    x, y, z = (-direction / math.hypot(*direction)).tolist()  # the camera's own z points backward
    flat = math.hypot(x, y)
    right_x, right_y = -y / flat, x / flat
    return np.array([[right_x, -z * right_y, x], [right_y, z * right_x, y], [0.0, flat, z]])


def turn_to(rotation: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """`rotation` turned by the smallest angle that makes the camera look along `direction`.

    It stops short by 1e-4 rad, a hundredth of a pixel, as the original does to avoid dividing by zero.
    """
    old, new = -rotation[:, 2], direction / np.linalg.norm(direction)
    axis, cosine = np.cross(old, new), float(old @ new)
    sine = float(np.linalg.norm(axis))
    x, y, z = axis / (sine + 1e-4)
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    along = np.outer([x, y, z], [x, y, z])
    return (cosine * np.eye(3) + sine * skew + (1 - cosine) * along) @ rotation


def roll_matrix(angle: float) -> np.ndarray:
    """A rotation about the camera's own viewing axis."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])

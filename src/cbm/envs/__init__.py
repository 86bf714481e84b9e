"""The Distracting Control Suite on current MuJoCo and Gymnasium."""

from __future__ import annotations

from cbm.envs import gl as gl  # first of all: it chooses the OpenGL backend before MuJoCo is imported

from cbm.envs.make import make_env  # isort: skip

__all__ = ["make_env"]

"""How frames are drawn. Importing it settles on an OpenGL backend, so it comes before anything that imports MuJoCo."""

from __future__ import annotations

from cbm.envs.rendering import gl as gl

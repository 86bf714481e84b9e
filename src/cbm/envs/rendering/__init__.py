"""How frames are drawn. Importing it chooses an OpenGL backend, so import it before anything that imports MuJoCo."""

from __future__ import annotations

from cbm.envs.rendering import gl as gl

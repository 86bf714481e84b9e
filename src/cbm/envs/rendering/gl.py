"""Which OpenGL backend draws the frames. It must be chosen before MuJoCo or dm_control is imported."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module

from cbm.errors import CBMError, UnknownChoice

# Off-screen backends that MuJoCo knows, best first, with the shared library that each one needs.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "egl": ("libEGL.so.1", "libEGL.so"),
    "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"),
}
DEBIAN_PACKAGES = "libegl1 libegl-mesa0 libgl1-mesa-dri libosmesa6"
INSTALL_HINT = f"sudo apt-get install -y {DEBIAN_PACKAGES}"


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def available() -> list[str]:
    """The backends whose library can be loaded on this machine."""
    return [name for name, files in LIBRARIES.items() if any(_loads(file) for file in files)]


def choose_backend() -> str:
    """Choose a backend and tell MuJoCo, PyOpenGL and llvmpipe about it; what the user has set is kept."""
    # One renderer per core is fastest if llvmpipe starts no threads. It reads this when it loads.
    os.environ.setdefault("LP_NUM_THREADS", "0")
    wanted = os.environ.get("MUJOCO_GL", "").lower()
    if wanted in ("off", "disable", "disabled", "0", "false", "no"):
        raise CBMError(f"MUJOCO_GL={wanted} turns rendering off, but these environments need it: unset it.")
    if sys.platform != "linux":  # MuJoCo has its own backends there (CGL, WGL); untested
        return wanted or "default"
    if wanted == "glfw":  # needs a screen; users who ask for it have one
        return wanted
    with suppress(Exception):
        import_module("triton")  # comes with PyTorch for GPUs. Loaded after Mesa, whose LLVM differs, it crashes Python
    found = available()
    if not wanted:
        if not found:
            raise CBMError(
                "no OpenGL library for off-screen rendering was found (neither EGL nor OSMesa). "
                f"On Debian or Ubuntu type: {INSTALL_HINT}"
            )
        wanted = found[0]
    elif wanted not in LIBRARIES:
        raise UnknownChoice("MUJOCO_GL backend", wanted, (*LIBRARIES, "glfw"))
    elif wanted not in found:
        raise CBMError(
            f"MUJOCO_GL={wanted}, but its library ({LIBRARIES[wanted][0]}) cannot be loaded. "
            f"On Debian or Ubuntu type: {INSTALL_HINT}"
        )
    os.environ["MUJOCO_GL"] = os.environ["PYOPENGL_PLATFORM"] = wanted
    return wanted


BACKEND = choose_backend()


@contextmanager
def borrowed() -> Iterator[None]:
    """A block that may bind our own GL contexts; afterwards the thread has the context it had before, or none.

    dm_control remembers which context it bound last and does not check whether it is still bound: after a frame of
    ours, its `physics.render` would draw into our buffers. Besides, any thread can use a context that is not bound.
    """
    if BACKEND != "egl":  # dm_control gives OSMesa its own thread
        yield
        return
    from OpenGL import EGL

    context, surface = EGL.eglGetCurrentContext(), EGL.eglGetCurrentSurface(EGL.EGL_DRAW)
    display = EGL.eglGetCurrentDisplay()
    try:
        yield
    finally:
        if context:
            EGL.eglMakeCurrent(display, surface, surface, context)
        elif EGL.eglGetCurrentContext():
            none = EGL.EGL_NO_SURFACE
            EGL.eglMakeCurrent(EGL.eglGetCurrentDisplay(), none, none, EGL.EGL_NO_CONTEXT)

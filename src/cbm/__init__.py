"""CBM-RL: reinforcement learning from pixels under visual distraction.

Importing it is cheap, and tells Gymnasium of the environments `cbm/<task>-v0`. The public names load on first use:
the environments without PyTorch, the agents with it.
"""

from cbm.current_folder import leave_current_folder

leave_current_folder()  # before anything else is imported

from importlib import import_module
from typing import TYPE_CHECKING

import gymnasium as gym

from cbm.tasks import TASKS

if TYPE_CHECKING:
    from cbm.envs import make_env as make_env
    from cbm.load import evaluate as evaluate
    from cbm.load import load_agent as load_agent
    from cbm.objectives import CBM as CBM
    from cbm.objectives import CBMConfig as CBMConfig
    from cbm.training import train as train

__version__ = "0.1.0"

_HOME = {
    "CBM": "cbm.objectives",
    "CBMConfig": "cbm.objectives",
    "evaluate": "cbm.load",
    "load_agent": "cbm.load",
    "make_env": "cbm.envs",
    "train": "cbm.training",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'cbm' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


for _name in TASKS:
    gym.register(f"cbm/{_name}-v0", entry_point="cbm.envs:make_env", kwargs={"task": _name})

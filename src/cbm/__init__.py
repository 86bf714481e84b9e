"""CBM-RL: reinforcement learning from pixels under visual distraction.

Importing it is cheap, and registers the environments `cbm/<task>-v0` with Gymnasium. The public names load on first
use: the environments without PyTorch, the agents with it.
"""

from cbm.system.current_folder import leave_current_folder

leave_current_folder()  # before anything else is imported

import random
from importlib import import_module
from typing import TYPE_CHECKING

import gymnasium as gym

from cbm.envs.tasks import TASKS

if TYPE_CHECKING:
    from cbm.agents import make_agent as make_agent
    from cbm.config import EnvConfig as EnvConfig
    from cbm.config import make_config as make_config
    from cbm.envs.make import make_env as make_env
    from cbm.evaluation.evaluate import evaluate as evaluate
    from cbm.runs.load import load_agent as load_agent
    from cbm.objectives import CBM as CBM
    from cbm.objectives import CBMConfig as CBMConfig
    from cbm.training.callbacks import Callback as Callback
    from cbm.training.loop import resume as resume
    from cbm.training.loop import train as train

__version__ = "0.1.0"

_HOME = {
    "CBM": "cbm.objectives",
    "CBMConfig": "cbm.objectives",
    "Callback": "cbm.training.callbacks",
    "EnvConfig": "cbm.config",
    "evaluate": "cbm.evaluation.evaluate",
    "load_agent": "cbm.runs.load",
    "make_agent": "cbm.agents",
    "make_config": "cbm.config",
    "make_env": "cbm.envs.make",
    "resume": "cbm.training.loop",
    "train": "cbm.training.loop",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'cbm' has no attribute {name!r}")
    before = random.getstate()  # some packages draw from it when they are imported
    try:
        return getattr(import_module(_HOME[name]), name)
    finally:
        random.setstate(before)


def __dir__() -> list[str]:
    return sorted(__all__)


for _name in TASKS:
    gym.register(f"cbm/{_name}-v0", entry_point="cbm.envs.make:make_env", kwargs={"task": _name})

"""The configuration of a run: its settings, presets and file, and what is made of it."""

from cbm.config.run import PRESETS as PRESETS
from cbm.config.run import EnvConfig as EnvConfig
from cbm.config.run import RunConfig as RunConfig
from cbm.config.run import TrainingConfig as TrainingConfig
from cbm.config.run import bound_settings as bound_settings
from cbm.config.run import changed_in_passing as changed_in_passing
from cbm.config.run import check_settings as check_settings
from cbm.config.run import effect_of as effect_of
from cbm.config.run import from_json as from_json
from cbm.config.run import make_config as make_config
from cbm.config.run import read_config as read_config
from cbm.config.run import read_provenance as read_provenance
from cbm.config.run import write_config as write_config
from cbm.schema.tree import to_json as to_json

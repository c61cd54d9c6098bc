"""One source for each option: the command line, TOML files, records and the reference page are made from it.

Nothing here imports torch or NumPy.
"""

from .arguments import Arguments
from .files import Recipe, read_recipe, read_toml, to_toml
from .methods import METHODS
from .presets import PRESETS
from .resolve import (
    LARGE,
    Given,
    asks_to_refine,
    check,
    draws_by_langevin,
    lay,
    read_setting,
    resolve,
    takes,
    to_mapping,
    uses,
)
from .spec import GROUPS, Option, allowed, check_value, flag, kinds, option, table
from .table import EXTRAS, Options
from .written import read_duration, read_size

__all__ = [
    "EXTRAS",
    "GROUPS",
    "LARGE",
    "METHODS",
    "PRESETS",
    "Arguments",
    "Given",
    "Option",
    "Options",
    "Recipe",
    "allowed",
    "asks_to_refine",
    "check",
    "check_value",
    "draws_by_langevin",
    "flag",
    "kinds",
    "lay",
    "option",
    "read_duration",
    "read_recipe",
    "read_setting",
    "read_size",
    "read_toml",
    "resolve",
    "table",
    "takes",
    "to_mapping",
    "to_toml",
    "uses",
]

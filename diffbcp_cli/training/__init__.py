"""Train the network `natural` on a folder of photographs.

`train` is an iterator: each item says what one step did. The caller draws bars and lines; this package reads
photographs, computes, and keeps the folder of the new prior up to date.
"""

from .checkpoints import CHECKPOINT, changed_settings, load_state, resume_point, save_state, with_network_of
from .loop import train
from .photos import Photos, draw_batch, draw_crop, load_photos
from .settings import PRECISIONS, Plan, TrainSettings
from .state import TrainState, fresh_state
from .steps import TrainInfo, learning_rate, take_step
from .validation import FILLED, validate

__all__ = [
    "CHECKPOINT",
    "FILLED",
    "PRECISIONS",
    "Photos",
    "Plan",
    "TrainInfo",
    "TrainSettings",
    "TrainState",
    "changed_settings",
    "draw_batch",
    "draw_crop",
    "fresh_state",
    "learning_rate",
    "load_photos",
    "load_state",
    "resume_point",
    "save_state",
    "take_step",
    "train",
    "validate",
    "with_network_of",
]

"""Train the network `natural` on a folder of photographs.

`train` is an iterator that yields once per step and writes checkpoints. The caller shows progress and writes the
folder of the new prior (`folder.write_model_folder`).
"""

from .data import Photos, draw_batch, draw_crop, load_photos
from .settings import NOISES, PRECISIONS, Plan, TrainSettings, network_for
from .state import (
    CHECKPOINT,
    TrainState,
    changed_settings,
    fresh_state,
    load_state,
    resume_point,
    save_state,
    with_network_of,
)
from .train import CAMERA, FILLED, TrainInfo, learning_rate, take_step, train, validate

__all__ = [
    "CAMERA",
    "CHECKPOINT",
    "FILLED",
    "NOISES",
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
    "network_for",
    "resume_point",
    "save_state",
    "take_step",
    "train",
    "validate",
    "with_network_of",
]

"""A few tiny training steps whose numbers are kept: `python tests/golden_training.py` records them anew.

What is kept: the loss and the gradient norm of every step, the validation, and the checkpoint after the third step.
The rule for another kind of processor is that of golden_runs.py.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import training_data
from golden_runs import kind_of_machine

from diffbcp_cli import training
from diffbcp_cli.priors.networks.natural import NaturalConfig

HOME = Path(__file__).parent / "data" / "golden-training"
PLAN = training.Plan(steps=20)
STEPS, SAVED_AT = 5, 3
SETTINGS = training.TrainSettings(
    network=NaturalConfig(channels=(4, 8), blocks=(1, 1), embedding_channels=8, takes_mask=True),
    batch_size=4,
    crop=16,
    warm_up=2,
    grey_share=0.3,
    seed=7,
)


def make_photos(folder: Path) -> training.Photos:
    """Write the pictures of training_data.py and read them as the training does."""
    training_data.make_photos(folder)
    return training.load_photos(folder, SETTINGS)


def take_steps(state: training.TrainState, photos: training.Photos, out: Path, count: int) -> dict[str, Any]:
    """Take so many steps: their losses and gradient norms, and the validation of the averaged weights."""
    steps = training.train(state, photos, SETTINGS, PLAN, out, save_every=1e9, validate_every=1000)
    infos = [next(steps) for _ in range(count)]
    return {
        "losses": [info.loss for info in infos],
        "gradient_norms": [info.gradient_norm for info in infos],
        "rates": [info.learning_rate for info in infos],
        "psnr": training.validate(state.average, photos.held_out),
    }


def main() -> None:
    """Record the steps and the checkpoint."""
    HOME.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        photos, state = make_photos(Path(folder)), training.fresh_state(SETTINGS)
        first = take_steps(state, photos, Path(folder) / "out", SAVED_AT)
        training.save_state(HOME / training.CHECKPOINT, state, SETTINGS, photos)
        rest = take_steps(state, photos, Path(folder) / "out", STEPS - SAVED_AT)
    numbers = {"machine": kind_of_machine(), "first": first, "rest": rest}
    (HOME / "numbers.json").write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()

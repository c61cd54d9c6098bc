"""The folder of a new prior, in the layout of a Hub repo: weights, configuration, model card, plot."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import torch

from .. import __version__
from ..photos import files
from ..photos.tensors import write_tensors
from .data import Photos
from .settings import Plan, TrainSettings
from .state import TrainState

Others = dict[str, dict[str, float]]
"""The PSNR of other denoisers by task, as in `rivals`."""
_STYLES = ("--", ":")


FILES = ("config.json", "model.safetensors", "README.md", "training.png")


def write_model_folder(
    folder: Path,
    state: TrainState,
    settings: TrainSettings,
    photos: Photos,
    plan: Plan,
    *,
    source: str,
    others: Others | None = None,
) -> list[Path]:
    """Write config.json, model.safetensors (the averaged weights), README.md and training.png.

    source: the name of the folder of photographs, for the model card. others: PSNR by task of other denoisers.
    """
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.cpu().contiguous() for name, value in state.average.state_dict().items()}
    model = folder / "model.safetensors"
    write_tensors(model, weights, {"format": "pt"})
    config = folder / "config.json"
    shape = {"architecture": "natural", **settings.network.options()}
    files.write_bytes(config, (json.dumps(shape, indent=2) + "\n").encode())
    card = folder / "README.md"
    text = model_card(folder.name, state, settings, photos, plan, source=source, others=others)
    files.write_bytes(card, os.fsencode(text))
    plot = folder / "training.png"
    plot_training(plot, state, others or {})
    return [config, model, card, plot]


def model_card(
    folder: str,
    state: TrainState,
    settings: TrainSettings,
    photos: Photos,
    plan: Plan,
    *,
    source: str,
    others: Others | None = None,
) -> str:
    """Return the model card: the template card.md, filled in for this run."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Markdown, not HTML: nothing to escape
    templates = Environment(
        loader=PackageLoader(__package__, "."),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
    )
    templates.filters |= {"percent": "{:.0%}".format, "short": "{:g}".format}
    return templates.get_template("card.md").render(
        folder=folder,
        source=source,
        state=state,
        settings=settings,
        network=settings.network,
        photos=photos,
        parameters=sum(p.numel() for p in state.network.parameters()),
        progress=min(1.0, plan.progress(state.step, state.seconds)),
        psnr=state.validations[-1][1] if state.validations else {},
        others=others or {},
        version=__version__,
        torch=torch.__version__,
        threads=torch.get_num_threads(),
    )


def plot_training(path: Path, state: TrainState, others: Others) -> None:
    """Plot the loss (medians) and the validation PSNR against the steps; others are horizontal lines."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    left.plot(*_smoothed(state.losses))
    left.set(xlabel="step", ylabel="loss", title="training loss")
    tasks = state.validations[-1][1] if state.validations else {}
    for task in tasks:
        points = [(step, psnr[task]) for step, psnr in state.validations if task in psnr]
        label = f"noise {task}/255" if task.isdigit() else task
        (line,) = right.plot([step for step, _ in points], [value for _, value in points], label=label)
        for values, style in zip(others.values(), _STYLES, strict=False):
            if task in values:
                right.axhline(values[task], color=line.get_color(), linestyle=style, linewidth=1)
    for name, style in zip(others, _STYLES, strict=False):
        right.plot([], [], color="grey", linestyle=style, label=name)
    right.set(xlabel="step", ylabel="PSNR (dB)", title="held-out photographs")
    if tasks:
        right.legend()
    with files.replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def _smoothed(losses: list[tuple[int, float]], points: int = 150) -> tuple[list[float], list[float]]:
    """Medians of steps and losses over stretches of equal length, so that single outliers do not show."""
    if not losses:
        return [], []
    stretches = np.array_split(np.array(losses), min(points, len(losses)))
    medians = np.array([np.median(stretch, axis=0) for stretch in stretches])
    return medians[:, 0].tolist(), medians[:, 1].tolist()

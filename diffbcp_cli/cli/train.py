"""`diffbcp train`: a prior of your own from a folder of photographs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn

from ..errors import UsageError
from . import render
from .interrupt import signals

if TYPE_CHECKING:
    import torch

    from ..priors.networks.natural import Natural
    from ..training import Photos, Plan, TrainInfo, TrainSettings, TrainState

FolderArg = Annotated[Path, typer.Argument(help="Photographs to learn from; sub-folders count.")]
OutOpt = Annotated[Path, typer.Option("--output", "-o", help="The folder of the new prior.")]
MinutesOpt = Annotated[float | None, typer.Option(help="Train for so many minutes in all. [default: 120]")]
StepsOpt = Annotated[int | None, typer.Option(help="Train for so many steps instead.")]
ResumeOpt = Annotated[
    bool, typer.Option("--resume", help="Go on from the last checkpoint in the output folder.")
]
SeedOpt = Annotated[int, typer.Option(help="Seed of the first weights, the crops and the noise.")]
BatchOpt = Annotated[int, typer.Option("--batch-size", help="Crops per step.")]
CropOpt = Annotated[int, typer.Option(help="Side of a crop, in pixels.")]
RateOpt = Annotated[float, typer.Option("--lr", help="Peak learning rate.")]
FromOpt = Annotated[
    str | None, typer.Option("--from", help="Begin with the weights of a prior, such as natural.")
]
PrecisionOpt = Annotated[
    str, typer.Option(help="auto, fp32 or bf16; auto is bf16 on a device that computes in it.")
]
DeviceOpt = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 or mps; auto: a GPU if there is one.")]
MaskOpt = Annotated[
    float,
    typer.Option(
        "--mask-share",
        help="Share of crops with missing entries: 0 trains only the denoiser, 1 only the filler.",
    ),
]
NoiseOpt = Annotated[
    str,
    typer.Option(
        help="white, or camera: mosaics, noise that spreads, JPEG, for `denoise` on camera pictures."
    ),
]
LONG = 600.0  # seconds of training after which a minute for BM3D counts little
WEIGHT_DECAY = 0.2  # with which the bundled prior was trained
SaveOpt = Annotated[float, typer.Option("--save-every", help="Minutes between checkpoints.")]


def train(
    folder: FolderArg,
    out: OutOpt,
    minutes: MinutesOpt = None,
    steps: StepsOpt = None,
    resume: ResumeOpt = False,
    seed: SeedOpt = 0,
    batch_size: BatchOpt = 16,
    crop: CropOpt = 64,
    lr: RateOpt = 1e-3,
    save_every: SaveOpt = 3.0,
    begin: FromOpt = None,
    precision: PrecisionOpt = "auto",
    mask_share: MaskOpt = 0.5,
    noise: NoiseOpt = "white",
    device: DeviceOpt = "auto",
) -> None:
    """Train a prior on the photographs in FOLDER."""
    from .. import training
    from ..devices import pick_device

    where = pick_device(device)
    first = _first_network(out, resume, begin)
    settings = training.TrainSettings(
        network=training.network_for(noise, first.config if first else None),
        batch_size=batch_size,
        crop=crop,
        learning_rate=lr,
        seed=seed,
        precision=_precision(precision, where),
        mask_share=mask_share,
        relative=True,
        weight_decay=WEIGHT_DECAY,
    )
    if resume:
        settings = training.with_network_of(out / training.CHECKPOINT, settings)
    plan = training.Plan(steps=steps, minutes=120.0 if minutes is None and steps is None else minutes)
    photos = _photos(folder, settings, out)
    weights = first.state_dict() if first else None
    fresh = training.fresh_state
    state = _resumed(out, settings, photos, plan, where) if resume else fresh(settings, weights, where)
    for path in _to_the_end(state, photos, settings, plan, out, 60 * save_every, folder.resolve().name):
        render.path(path)


def _to_the_end(
    state: TrainState,
    photos: Photos,
    settings: TrainSettings,
    plan: Plan,
    out: Path,
    save_every: float,
    source: str,
) -> list[Path]:
    """Train until the plan is done or a signal comes; return the files of the prior."""
    from .. import training
    from ..training.folder import write_model_folder

    start, written = _check_plan(plan, state, out), list[Path]()
    infos = training.train(state, photos, settings, plan, out, save_every=save_every)
    with _stop_on_interrupt() as stop:
        for info in _show(infos, start=start, began=state.seconds):
            if info.saved or stop:
                others = _others(state, photos) if info.progress >= 1 else None
                written = write_model_folder(out, state, settings, photos, plan, source=source, others=others)
            if stop:
                training.save_state(out / training.CHECKPOINT, state, settings, photos)
                raise KeyboardInterrupt
    return written


def _others(state: TrainState, photos: Photos) -> dict[str, dict[str, float]]:
    """How FFDNet and BM3D do on the held-out photographs, where they are installed; BM3D only after a long run."""
    from ..training.rivals import rivals

    config = state.network.config
    if config.blind:
        return {}
    found = rivals(photos.held_out, multiple=config.multiple, slow=state.seconds >= LONG)
    for name, psnr in found.items():
        render.note(f"{name}  PSNR " + " / ".join(f"{value:.2f}" for value in psnr.values()))
    return found


def _precision(name: str, device: torch.device) -> str:
    import torch

    from ..devices import pick_precision

    if name != "auto":
        return name
    return "bf16" if pick_precision("auto", device, tolerant=True) == torch.bfloat16 else "fp32"


def _check_plan(plan: Plan, state: TrainState, out: Path) -> float:
    """Return the share of the plan that is done; refuse to start if that is all of it."""
    share = plan.progress(state.step, state.seconds)
    if share >= 1:
        raise UsageError(f"{out} has finished this plan", hint="a larger --minutes or --steps")
    return share


def _photos(folder: Path, settings: TrainSettings, out: Path) -> Photos:
    """Load the photographs, and say which were skipped."""
    from .. import training

    photos = training.load_photos(folder, settings, without=out)
    for name, reason in photos.skipped.items():
        render.warn(f"skipped {name}: {reason}")
    render.note(f"{len(photos.train)} photographs to train on, {len(photos.held_out)} held out")
    return photos


def _first_network(out: Path, resume: bool, begin: str | None) -> Natural | None:
    """The network to begin with, None for random weights; refuse what does not go together."""
    from ..priors import load_prior
    from ..priors.networks.natural import Natural

    _refuse_foreign(out, resume)
    if resume and begin is not None:
        raise UsageError("--resume goes on from a checkpoint, --from starts afresh", hint="give one of them")
    if begin is None:
        return None
    network = load_prior(begin, device="cpu").network
    if not isinstance(network, Natural):
        raise UsageError(
            f"{begin} is another network than those that are trained here", hint="--from natural"
        )
    return network


def _refuse_foreign(out: Path, resume: bool) -> None:
    """Refuse to replace another prior, or anything else that has the name of a file of the new one."""
    from .. import training
    from ..photos import files
    from ..training.folder import FILES

    places = [out / name for name in (training.CHECKPOINT, *FILES)]
    files.refuse_places(places)
    files.refuse_links_out(places, out)
    if not resume and places[0].exists():
        raise UsageError(f"{out} already holds a training run", hint="--resume to go on, or another -o")
    for path in places[1:]:
        if path.exists() and not places[0].exists():
            raise UsageError(
                f"{path} is there already, and the new prior would replace it",
                hint="name a new folder: -o my-prior/",
            )


def _resumed(
    out: Path, settings: TrainSettings, photos: Photos, plan: Plan, device: torch.device
) -> TrainState:
    """Return the state to go on from; say from which step, and which settings have changed."""
    from .. import training

    state = training.resume_point(out, settings, photos, plan, device)
    render.note(f"going on from step {state.step}")
    for name, (then, now) in training.changed_settings(out / training.CHECKPOINT, settings).items():
        render.warn(f"{name.replace('_', ' ')} was {then}, is now {now}")
    return state


@contextmanager
def _stop_on_interrupt() -> Iterator[list[int]]:
    """Collect Ctrl-C, SIGTERM and SIGHUP, so that the current step ends first."""
    caught: list[int] = []
    before = {number: signal.signal(number, lambda got, _: caught.append(got)) for number in signals()}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(infos: Iterator[TrainInfo], *, start: float, began: float) -> Iterator[TrainInfo]:
    """Pass the steps on, with a bar and a line at each validation.

    start, began: the share of the plan and the seconds of training that were done before.
    """
    columns = (TextColumn("step {task.fields[step]}"), BarColumn(), TextColumn("{task.fields[text]}"))
    smooth: float | None = None
    with Progress(*columns, console=render.err, transient=True) as bar:
        task = bar.add_task("train", total=1.0, step=0, text="")
        psnr = ""
        for info in infos:
            smooth = info.loss if smooth is None else 0.99 * smooth + 0.01 * info.loss
            pace = (info.seconds - began) / max(info.progress - start, 1e-9)
            left = render.clock(pace * max(0.0, 1 - info.progress))
            if info.psnr:
                psnr = "  PSNR " + " / ".join(f"{value:.2f}" for value in info.psnr.values())
                line = f"step {info.step}  loss {smooth:.4f}{psnr}  lr {info.learning_rate:.1e}  {left} left"
                render.note(f"{render.clock(info.seconds)}  {line}")
            bar.update(
                task, completed=info.progress, step=info.step, text=f"loss {smooth:.4f}{psnr}  {left} left"
            )
            yield info

"""Every option of a run, each in one place: type, default, limits, help, and its value for large pictures.

The command line, TOML files, records, `--print-config` and the reference page are all made from this table.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Literal

from ..errors import UsageError
from .methods import METHODS
from .own import OwnOptions
from .presets import PRESETS
from .spec import COMPUTING, IO, MODEL, PRIOR, SAMPLING, check_value, option
from .written import read_duration, read_results, read_size

EXTRAS = (
    *("mean", "std", "samples", "interval", "plain", "prior", "panel", "page"),
    *("trace", "convergence", "factors", "film", "film-mp4"),
)


@dataclass(frozen=True, kw_only=True)
class Options(OwnOptions):
    """Every option of a run, resolved to a value; the names are those of the command line."""

    method: str = option("diffbcp", SAMPLING, "Restoration method.", choices=METHODS)
    preset: str | None = option(None, SAMPLING, "A set of values; what you type goes first.", choices=PRESETS)
    prior: str = option(
        "natural", PRIOR, "a folder, a Hub id, or none (Bayesian CP).", metavar="NAME", essential=True
    )
    iterations: int = option(
        100,
        SAMPLING,
        "Iterations of the sampler, or steps.",
        shown="52; 100 with split-gibbs",
        least=1,
        large={"complete": 24, "langevin": 18, "patch": 12, "alone": 24, "reshape": 30},
        most=10**7,
    )
    burn_in: int = option(
        40,
        SAMPLING,
        "Iterations left out of the result.",
        shown="20; 40 with split-gibbs",
        least=0,
        large={"complete": 8, "langevin": 8, "patch": 5, "alone": 10, "reshape": 12},
        most=10**7,
    )
    thin: int = option(
        3, SAMPLING, "Keep every n-th iteration after burn-in as a sample.", least=1, most=10**7
    )
    rank: int = option(
        200,
        MODEL,
        "CP components to start with; the largest bond of a tensor train (60) or ring (8).",
        least=1,
        large={"few known": 100, "reshape": 500},
        most=10**5,
    )
    decomposition: Literal["cp", "tt", "tr"] = option(
        "cp", MODEL, "The low-rank model: CP, a tensor train or a tensor ring."
    )
    shrinkage: Literal["cusp", "none"] = option(
        "cusp", MODEL, "Prior of the weights: cumulative shrinkage, or plain normals at a fixed rank."
    )
    block: int = option(
        25,
        MODEL,
        "Components drawn jointly: fewer are faster, more mix better.",
        least=1,
        large={"reshape": 500},
        most=10**5,
    )
    adapt_rank: bool = option(True, MODEL, "Drop components that the data do not need.")
    adapt_floor: float = option(
        1.0, MODEL, "Drop spike components below this share of the noise energy.", least=0, most=1e6
    )
    tensorize: Literal["auto", "patch", "reshape"] = option(
        "auto", MODEL, "How the image becomes a tensor; auto is patch."
    )
    patch_size: int = option(16, MODEL, "Side of a patch, in pixels.", least=2, most=1024)
    stride: int = option(
        8, MODEL, "Distance between neighbouring patches.", shown="half the patch size", least=1, most=1024
    )
    patch_weights: Literal["once", "replicated"] = option(
        "replicated", MODEL, "Count a pixel once, or once in each patch that holds it."
    )
    coupling: float = option(
        15.0,
        PRIOR,
        "Strength c of the prior, rho = sqrt(c / tau); smaller is stronger.",
        least=1e-6,
        large={"patch": 6.0, "reshape": 50.0},
        most=1e6,
    )
    rho_min: float = option(
        0.1, PRIOR, "Smallest rho, on the [-1, 1] scale.", least=1e-6, large={"patch": 0.05}, most=1e6
    )
    rho_max: float = option(10.0, PRIOR, "Largest rho.", least=1e-6, most=1e6)
    solver: Literal["second-order", "ancestral", "paper"] = option(
        "second-order", PRIOR, "Solver of the reverse diffusion."
    )
    calls: int = option(
        2, PRIOR, "Network calls per iteration.", least=1, large={"patch": 1, "reshape": 1}, most=10**4
    )
    finish: int = option(
        16,
        PRIOR,
        "Network calls of the final refinement; 0 skips it.",
        least=0,
        large={"patch": 10},
        most=10**5,
    )
    pnp_step: Literal["exact", "repo"] = option(
        "exact", SAMPLING, "repo: as in the published code, which is too sure of missing pixels."
    )
    inpaint_radius: float = option(
        3.0, SAMPLING, "How far around a missing pixel known ones count, in pixels.", above=0, most=1000
    )
    nlm_strength: float = option(
        1.0, SAMPLING, "Strength of the filter, in units of the noise level.", above=0, most=1000
    )
    sigma: float | None = option(
        None,
        SAMPLING,
        "Noise level on the [0, 1] scale, if known.",
        least=1e-7,
        most=1,
        shown="inferred",
        essential=True,
    )
    noise_model: Literal["auto", "white", "poisson", "correlated"] = option(
        "auto",
        SAMPLING,
        "Noise that is white, grows with the light, or is correlated (JPEG); auto: as it is found.",
        commands=("denoise", "inpaint"),
        essential=("denoise",),
    )
    strength: float = option(
        1.0, SAMPLING, "Remove noise of so many times the level.", least=0.1, most=10, commands=("denoise",)
    )
    seed: int = option(
        0, SAMPLING, "The same seed gives the same bytes.", essential=True, least=-(2**63), most=2**63 - 1
    )
    chains: int = option(
        1, SAMPLING, "Independent chains, pooled; their agreement shows convergence.", least=1, most=10**4
    )
    until_converged: bool = option(False, SAMPLING, "Go on until the chains agree, up to --max-iterations.")
    max_iterations: int = option(1000, SAMPLING, "Where --until-converged gives up.", least=1, most=10**7)
    calibrate: bool = option(
        False,
        SAMPLING,
        "Hold out some known pixels and scale the uncertainty by them; on with langevin.",
        large={"langevin": False},
        commands=("inpaint",),
    )
    time_budget: float | None = option(
        None,
        SAMPLING,
        "Choose iterations that fit: 90s, 2m, 1h30m.",
        read=read_duration,
        metavar="TIME",
        above=0,
        essential=True,
        most=1e9,
    )
    checkpoint_every: float = option(
        60.0,
        COMPUTING,
        "Time between checkpoints for --resume; 0 for none.",
        read=read_duration,
        metavar="TIME",
        shown="60s",
        least=0,
        most=1e9,
    )
    device: str = option(
        "auto", COMPUTING, "cpu, cuda, cuda:1 or mps; auto: a GPU if any.", metavar="NAME", essential=True
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = option(
        "auto", COMPUTING, "Number type of the network."
    )
    prior_scale: Literal["tile", "fit"] = option(
        "tile",
        PRIOR,
        "For sizes other than the network's own: tiles, or a resized copy.",
        large={"reshape": "fit"},
    )
    compile: bool = option(False, COMPUTING, "Run the network through torch.compile.")
    threads: int = option(
        0,
        COMPUTING,
        "Threads per photograph; 0: all cores for a single one, one thread each for several.",
        least=0,
        most=4096,
    )
    memory_budget: int = option(
        4 * 2**30,
        COMPUTING,
        "Memory to work in, per photograph: 2GB, 512MiB; three quarters of a GPU's.",
        read=read_size,
        metavar="SIZE",
        shown="4GiB",
        least=64 * 2**20,
        most=2**60,
    )
    size_defaults: bool = option(
        True, SAMPLING, "Beyond 512 x 512 pixels, options that are not set take values that suit the size."
    )
    sweeps: int = option(
        1,
        MODEL,
        "Sweeps over the low-rank model per iteration.",
        least=1,
        large={"patch": 2, "reshape": 2},
        most=10**4,
    )
    atom_patches: int = option(
        4000,
        MODEL,
        "Patches to learn atoms from before the first sweep of a large picture; 0: none.",
        least=0,
        most=10**7,
    )
    window: int = option(
        0,
        COMPUTING,
        "Restore larger pictures in windows of this side; 0: as the memory allows.",
        least=64,
        or_zero=True,
        most=10**6,
    )
    observed: Literal["auto", "posterior", "keep"] = option(
        "auto",
        IO,
        "Known pixels: keep them, or denoise them (posterior); auto: keep them where damage is in places.",
        metavar="MODE",
        commands=("inpaint",),
        essential=True,
    )
    grain: Literal["auto", "match", "none"] = option(
        "auto",
        IO,
        "Give what was filled the grain of flat places around; auto: where known pixels are kept.",
        commands=("inpaint",),
    )
    save: tuple[str, ...] = option(
        ("mean", "std"),
        IO,
        "More results: samples, interval, plain, prior, panel, page, trace, convergence, film.",
        read=read_results,
        choices=EXTRAS,
        metavar="LIST",
        shown="",
        essential=True,
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = check_value(Options, field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, value)  # a list becomes a tuple
        if self.prior == "none":
            object.__setattr__(self, "sampler", "split-gibbs")  # langevin moves by the score of a prior
        _check_together(self)


def _check_together(options: Options) -> None:
    """Refuse values that do not go together."""
    if METHODS[options.method].needs_prior and options.prior == "none":
        raise UsageError(
            f"--method {options.method} draws from a prior and cannot do without one",
            hint="--prior natural, or --method diffbcp",
        )
    if METHODS[options.method].needs_noise and options.sigma is None and options.prior == "none":
        raise UsageError(
            f"--method {options.method} needs the noise level, and without a prior nothing estimates it",
            hint="--sigma 0.02, or --prior natural",
        )
    if options.burn_in >= options.iterations:
        raise UsageError(
            f"--burn-in {options.burn_in} leaves no draw of --iterations {options.iterations}",
            hint=f"--burn-in {options.iterations * 2 // 5}, or more iterations",
        )
    if options.stride > options.patch_size:
        raise UsageError(f"--stride {options.stride} is larger than --patch-size {options.patch_size}")
    if options.rho_min > options.rho_max:
        raise UsageError(f"--rho-min {options.rho_min} is larger than --rho-max {options.rho_max}")

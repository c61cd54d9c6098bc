"""The options as keyword arguments of Python functions.

Made from table.py by `make docs`; a test keeps it up to date. The parameter `prior` is not among them: it may also be
a loaded prior.
"""

from typing import Literal, TypedDict


class Arguments(TypedDict, total=False):
    """Options by name, for `**options: Unpack[Arguments]`; times and sizes may be written as text."""

    sampler: Literal["langevin", "split-gibbs"]
    estimator: Literal["auto", "mean", "refined"]
    start_level: float
    pir_lambda: float
    pir_zeta: float
    ddrm_eta: float
    ddrm_eta_b: float
    dps_zeta: float
    ode_steps: int
    daps_spread: float
    hlrtf_shrink: int
    hlrtf_gamma: float
    deep_channels: int
    putt_rank: int
    putt_rate: float
    glon_rank: int
    glon_nonlocal: Literal["nlm", "bm3d", "none"]
    method: str
    preset: str | None
    iterations: int
    burn_in: int
    thin: int
    rank: int
    decomposition: Literal["cp", "tt", "tr"]
    shrinkage: Literal["cusp", "none"]
    block: int
    adapt_rank: bool
    adapt_floor: float
    tensorize: Literal["auto", "patch", "reshape"]
    patch_size: int
    stride: int
    patch_weights: Literal["once", "replicated"]
    coupling: float
    rho_min: float
    rho_max: float
    solver: Literal["second-order", "ancestral", "paper"]
    calls: int
    finish: int
    pnp_step: Literal["exact", "repo"]
    inpaint_radius: float
    nlm_strength: float
    sigma: float | None
    noise_model: Literal["auto", "white", "poisson", "correlated"]
    strength: float
    seed: int
    chains: int
    until_converged: bool
    max_iterations: int
    calibrate: bool
    time_budget: float | str | None
    checkpoint_every: float | str
    device: str
    precision: Literal["auto", "fp32", "bf16", "fp16"]
    prior_scale: Literal["tile", "fit"]
    compile: bool
    threads: int
    memory_budget: int | str
    size_defaults: bool
    sweeps: int
    atom_patches: int
    window: int
    observed: Literal["auto", "posterior", "keep"]
    grain: Literal["auto", "match", "none"]
    save: tuple[str, ...] | list[str] | str

"""Options that only some methods take; the table of methods says which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .spec import OWN, SAMPLING, option


@dataclass(frozen=True, kw_only=True)
class OwnOptions:
    """The options of single methods, which are part of `Options`."""

    sampler: Literal["langevin", "split-gibbs"] = option(
        "langevin",
        SAMPLING,
        "How diffbcp draws; split-gibbs is the paper's, with the low-rank model, and its options choose it.",
    )
    estimator: Literal["auto", "mean", "refined"] = option(
        "auto",
        SAMPLING,
        "What the mean is made by: the draws, or the prior that refines them; auto: refined with split-gibbs.",
    )
    start_level: float = option(
        4.0, OWN, "Noise level to start at, on the [-1, 1] scale; DDPM networks know up to 152.", least=0.5
    )
    pir_lambda: float = option(1.0, OWN, "How much the denoised picture counts against the data.", above=0)
    pir_zeta: float = option(1.0, OWN, "Share of the noise that is drawn anew in a step.", least=0, most=1)
    ddrm_eta: float = option(
        0.85, OWN, "Share of the noise that is drawn anew in a step; 1: all of it.", least=0, most=1
    )
    ddrm_eta_b: float = option(
        1.0, OWN, "Weight of the data while they are clearer than the picture.", least=0, most=1
    )
    dps_zeta: float = option(0.5, OWN, "Length of the step towards the data.", least=0)
    ode_steps: int = option(5, OWN, "Network calls for the clean picture of a level.", least=1)
    daps_spread: float = option(
        0.5, OWN, "Spread of a draw about the clean picture, in noise levels; the paper has 1.", above=0
    )
    hlrtf_shrink: int = option(10, OWN, "Width of the picture over the rank of a slice.", least=1, most=10**4)
    hlrtf_gamma: float = option(1e-6, OWN, "Weight of the differences of neighbouring rows.", least=0, most=1)
    deep_channels: int = option(32, OWN, "Channels of the network that is fitted.", least=1, most=1024)
    putt_rank: int = option(30, OWN, "Largest rank of the tensor train.", least=1, most=10**4)
    putt_rate: float = option(1e-3, OWN, "Learning rate of the cores.", above=0, most=1)
    glon_rank: int = option(30, OWN, "Largest rank of the tensor train.", least=1, most=10**4)
    glon_nonlocal: Literal["nlm", "bm3d", "none"] = option(
        "nlm", OWN, "The non-local denoiser; bm3d needs its own package."
    )

"""How strongly the prior should pull, and which average of the draws is the best picture.

    python benchmarks/coupling.py --data photos/ --strength 10 --strength 30 --calls 1 --calls 4

For each photograph (its middle), recipe, coupling strength c and number of network calls, one chain is run
and several estimates are read off it:
  x          mean of the tensor model's images
  z          mean of the prior's images
  both       the two means, weighted by the inverse of their variance at each pixel
  x given atoms, z given x   (with --conditional) means of conditional means in the place of draws
  polished   the mean of X, denoised once more by the prior at a small level (on [-1, 1])
  finished   the mean of X, finished as a run does it (finishing.py)
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import damage, photographs, save, table
from quality import RECIPES

from diffbcp_cli.estimators.calibrate import is_scattered, like_missing
from diffbcp_cli.estimators.noise import most_likely_noise
from diffbcp_cli.estimators.refine import TRIAL_SHARE, TRIAL_WINDOW, choose, choose_fills, finish_by
from diffbcp_cli.jobs.session import open_prior
from diffbcp_cli.lowrank.algebra import khatri_rao
from diffbcp_cli.lowrank.cp import State
from diffbcp_cli.lowrank.likelihood import Observation, image_of, observe
from diffbcp_cli.lowrank.tensorize import tensorize
from diffbcp_cli.methods.split_gibbs import SplitGibbs, make_generator
from diffbcp_cli.options import check, resolve
from diffbcp_cli.priors.base import Prior
from diffbcp_cli.run.kernel import settings_of
from diffbcp_cli.run.moments import Moments
from diffbcp_cli.scoring.metrics import psnr, ssim

POLISH = 0.06


def middle(pixels: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    top, left = (pixels.shape[0] - size) // 2, (pixels.shape[1] - size) // 2
    return np.ascontiguousarray(pixels[top : top + size, left : left + size])


def given_atoms(
    state: State, observation: Observation, z: torch.Tensor | None, rho: float | None
) -> torch.Tensor:
    """E[X | atoms, tau, Z], folded: the coefficients of every patch at their mean.

    b_p = (I + K^T M_p K)^-1 K^T e_p with K the atoms times lambda, M_p = w (tau o + share / rho^2) of the patch and
    e_p = w (tau o y + share z / rho^2).
    """
    atoms = khatri_rao(state.left) * state.weights  # (U, R)
    precision = observation.weight * observation.observed * state.noise_precision  # (U, V)
    target = precision * observation.values
    if z is not None and rho is not None:
        pull = observation.weight * observation.share * rho**-2
        precision, target = precision + pull, target + pull * observation.shape.unfold(z)
    coefficients = torch.empty(target.shape[1], state.rank)
    for patches in torch.arange(len(coefficients)).split(32):
        gram = atoms.T @ (precision.T[patches, :, None] * atoms) + torch.eye(state.rank)
        coefficients[patches] = torch.linalg.solve(gram, target.T[patches] @ atoms)
    return image_of(atoms @ coefficients.T, observation)


def estimates(
    pixels: np.ndarray[Any, Any],
    observed: np.ndarray[Any, Any],
    options: dict[str, Any],
    prior: Prior | None,
    *,
    conditional: bool,
) -> dict[str, np.ndarray[Any, Any]]:
    """Run one chain; return its estimates, (H, W, C) in [0, 1]."""
    cfg = resolve(check(options))
    image = torch.from_numpy(pixels.transpose(2, 0, 1).copy()) * 2 - 1
    known = torch.from_numpy(observed.transpose(2, 0, 1).copy())
    shape = tensorize(tuple(image.shape), "patch")
    rng = np.random.default_rng(cfg.seed)
    trial = like_missing(observed, int(TRIAL_SHARE * observed.sum()), side=TRIAL_WINDOW, rng=rng)
    held = torch.from_numpy(trial.transpose(2, 0, 1).copy())
    observation = observe(image, known & ~held, shape, once=cfg.patch_weights == "once")
    sampler = SplitGibbs(observation, prior, settings_of(cfg))
    x, z, noise, before = Moments(), Moments(), 0.0, image
    means: dict[str, Moments] = {}
    for chain, draw in sampler.run(rng=make_generator(cfg.seed, image.device)):
        if draw.step >= cfg.burn_in:
            x.add(draw.image)
            noise += draw.noise_std / (cfg.iterations - cfg.burn_in)
            if draw.prior_image is not None:
                z.add(draw.prior_image)
            if conditional:
                mean = given_atoms(chain.state, observation, draw.prior_image, draw.rho)
                means.setdefault("x given atoms", Moments()).add(mean)
                if prior is not None and draw.rho is not None:
                    mean = prior.denoise(before[None], draw.rho)[0]
                    means.setdefault("z given x", Moments()).add(mean)
        before = draw.image
        if draw.step + 1 == cfg.iterations:
            break
    found = {"x": x.mean, **{name: m.mean for name, m in means.items()}}
    if prior is not None:
        weight_x, weight_z = (1 / m.std.square().clamp_min(1e-8) for m in (x, z))
        found |= {"z": z.mean, "both": (weight_x * x.mean + weight_z * z.mean) / (weight_x + weight_z)}
        start = x.mean.float()
        choice = choose(prior, image, known, held, start, noise, calls=cfg.finish)
        if prior.traits.takes_mask:
            filled = finish_by(choice, prior, image, known, start)[None]
            rng_of_noise = make_generator(0, image.device)
            level = most_likely_noise(prior, image[None], known[None], filled, noise, rng=rng_of_noise)
            level_std = noise if level is None else level.std
            single = is_scattered(observed)
            choice = choose_fills(choice, prior, image, known, held, start, level_std, scattered=single)
        found["polished"] = prior.denoise(start[None], POLISH)[0]
        found["finished"] = finish_by(choice, prior, image, known, start)
    return {name: (value.permute(1, 2, 0).numpy() + 1) / 2 for name, value in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--image", action="append", default=[])
    parser.add_argument("--recipe", action="append", default=[], choices=RECIPES)
    parser.add_argument("--strength", action="append", type=float, default=[])
    parser.add_argument("--calls", action="append", type=int, default=[])
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--conditional", action="store_true", help="also average conditional means")
    parser.add_argument("--prior", default="natural")
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--noise", type=float, default=0.025)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()

    import tomllib

    base = {"prior": args.prior, **tomllib.loads("\n".join(args.set))}
    prior = open_prior(check(base))
    runs: list[tuple[str, dict[str, Any], Prior | None]] = [("none", {**base, "prior": "none"}, None)]
    runs += [
        (f"c={c:g} calls={n}", {**base, "coupling": c, "calls": n}, prior)
        for c in args.strength or [30.0]
        for n in args.calls or [4]
    ]
    results: list[dict[str, Any]] = []
    for name, whole in photographs(args.data, args.image).items():
        truth = middle(whole, min(args.size, *whole.shape[:2]))
        for mask in args.recipe or RECIPES:
            pixels, observed = damage(truth, mask, args.noise, 0, name)
            for label, options, used in runs:
                found = estimates(pixels, observed, options, used, conditional=args.conditional)
                for kind, mean in found.items():
                    scores = {"psnr": psnr(mean.clip(0, 1), truth), "ssim": ssim(mean.clip(0, 1), truth)}
                    results.append({"image": name, "recipe": mask, "run": label, "estimate": kind, **scores})
                save(args.json, results)
    print(report(results))


def report(results: list[dict[str, Any]]) -> str:
    """Mean PSNR / SSIM over the photographs: a row per run and estimate, a column per recipe."""
    recipes = list(dict.fromkeys(r["recipe"] for r in results))
    kinds = list(dict.fromkeys((r["run"], r["estimate"]) for r in results))
    rows = [["run", "estimate", *recipes]]
    for run, kind in kinds:
        row = [run, kind]
        for mask in recipes:
            mine = [r for r in results if (r["run"], r["estimate"], r["recipe"]) == (run, kind, mask)]
            row.append(f"{np.mean([r['psnr'] for r in mine]):.2f} / {np.mean([r['ssim'] for r in mine]):.3f}")
        rows.append(row)
    return table(rows)


if __name__ == "__main__":
    main()

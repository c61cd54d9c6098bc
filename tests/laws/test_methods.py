"""Laws of every method in the registry: it runs, resumes to the same bits, leaves its inputs alone, and is exact.

A new method is tested by being registered; only the law of its distribution needs an entry in EXACT or ELSEWHERE.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
import torch
from conftest import picture
from PIL import Image
from sampling import Listener
from scipy import stats

from diffbcp_cli import random, tree
from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import UsageError
from diffbcp_cli.jobs.session import Resume, restore
from diffbcp_cli.methods import REGISTRY, builder, split_gibbs, state_classes
from diffbcp_cli.operators.mask import Mask, masked_problem
from diffbcp_cli.options import METHODS, Options, resolve, takes
from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.priors.reverse import ReverseDraw
from diffbcp_cli.problem import Problem
from diffbcp_cli.random import Seeds
from diffbcp_cli.watch import Watch

TESTS = Path(__file__).parents[1]
NOISE = 0.1  # on [-1, 1]
STEPS = 7
VARIANTS = {"diffbcp tt": {"decomposition": "tt"}, "diffbcp tr": {"decomposition": "tr", "rank": 3}}
"""Options that make another sampler of a method; the laws hold for them as for a method."""
PAPER = {"diffbcp": {"sampler": "split-gibbs"}}
"""The sampler of a method that has all of its options, if its default has not."""
every_method = pytest.mark.parametrize("name", REGISTRY)
every_sampler = pytest.mark.parametrize("name", [*REGISTRY, *VARIANTS])


def options_of(name, **more):
    """A short run of a method, or of a variant of one."""
    more, name = {**VARIANTS.get(name, {}), **more}, name.split()[0]
    given = {"method": name, "iterations": STEPS, "burn_in": 3, "device": "cpu", "rank": 4, "patch_size": 8}
    return resolve({key: value for key, value in {**given, **more}.items() if takes(name, key)})


def gaussian(var=0.25):
    return GaussianPrior(torch.zeros(()), torch.tensor(var))


def damaged(height=16, width=20, channels=3, *, complete=False):
    pixels = picture(height, width, channels).astype(np.float32)
    observed = np.random.default_rng(1).random(pixels.shape) < (2.0 if complete else 0.5)
    return pixels, observed


def problem_of(*size, complete=False):
    return masked_problem(*damaged(*size, complete=complete), noise_std=NOISE)


def build(name, problem, **more):
    cfg = options_of(name, **more)
    return builder(cfg.method)(problem, gaussian(), cfg, Seeds(0, ""), Watch())


def count_of(method):
    """The steps of a short run: a path has no more than its length."""
    return STEPS if method.length is None else min(STEPS, method.length)


def steps(method, state, count, rng):
    infos = []
    for _ in range(count):
        state, info = method.step(state, rng=rng)
        infos.append(info)
    return state, infos


BUILT = {name: build(name, problem_of()) for name in [*REGISTRY, *VARIANTS]}
CHAINS = [name for name, method in BUILT.items() if method.kind == "chain"]
LONG = [name for name, method in BUILT.items() if count_of(method) > 4]  # those that can be interrupted
NOT_TO_THE_BIT = {"bm3d": 1e-6}
"""Methods of another package that does not give the same bits twice: how far its results may be apart.

The package bm3d differs by up to 3e-7 between two calls with the same input in one process.
"""


# --- a method runs ---------------------------------------------------------------------------------------


@every_sampler
@pytest.mark.parametrize(("size", "complete"), [((16, 16, 1), False), ((16, 20, 3), True)])
def test_it_draws_small_grey_pictures_and_whole_ones(name, size, complete):
    method = build(name, problem_of(*size, complete=complete))
    assert method.kind in ("chain", "path")
    rng = tiny.rng(0)
    _, infos = steps(method, method.init(rng=rng), count_of(method), rng)
    for info in infos:
        assert info.image.shape == (size[2], size[0], size[1])
        assert bool(info.image.isfinite().all())
        assert info.noise_std is None or info.noise_std > 0
    assert (method.kind == "path") == (method.length is not None)
    if method.kind == "chain" and infos[-1].std is None:  # a conditional mean may stay as it is
        assert not torch.equal(infos[-1].image, infos[-2].image)


@every_sampler
def test_what_the_schedule_asks_of_it_keeps_it_a_method(name):
    method = build(name, problem_of())
    for other in (method.planned(burn_in=1), method.without_warm_up()):
        rng = tiny.rng(0)
        _, infos = steps(other, other.init(rng=rng), min(4, count_of(other)), rng)
        assert bool(infos[-1].image.isfinite().all())
        assert infos[-1].prior_image is not None or method.kind == "path" or not METHODS[name].takes_prior


@every_sampler
def test_less_memory_changes_no_draw(name):
    method = build(name, problem_of())
    smaller = method.with_less_memory()
    if smaller is not None:
        images = []
        for one in (method, smaller):
            rng = tiny.rng(0)
            images.append(steps(one, one.init(rng=rng), min(4, count_of(one)), rng)[1][-1].image)
        torch.testing.assert_close(*images, rtol=0, atol=1e-4)


@every_method
def test_its_options_are_known_without_torch(name):
    code = f"""
import sys
from diffbcp_cli.options import METHODS, Options, resolve, table, to_mapping
entry = METHODS[{name!r}]
assert entry.help and set(entry.options) <= set(table(Options))
used = [to_mapping(resolve({{"method": {name!r}, **more}})) for more in ({{}}, {PAPER.get(name, {})!r})]
assert set(entry.options) <= {{key for options in used for key in options}}
heavy = {{"torch", "numpy", "diffbcp_cli.methods"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@every_method
def test_without_a_prior_it_runs_or_is_refused_in_a_sentence(name):
    if METHODS[name].needs_prior:
        with pytest.raises(UsageError, match=f"--method {name} .* cannot do without"):
            options_of(name, prior="none")
        return
    if METHODS[name].needs_noise:
        with pytest.raises(UsageError, match=f"--method {name} needs the noise level"):
            options_of(name, prior="none")
    found = restore(*damaged(), options_of(name, prior="none", sigma=0.05), prior=None)
    assert np.isfinite(found.mean).all()


# --- a step is a pure function ---------------------------------------------------------------------------


@every_sampler
def test_a_step_leaves_its_inputs_alone(name):
    problem = problem_of()
    method, rng = build(name, problem), tiny.rng(0)
    state = method.init(rng=rng)
    for _ in range(count_of(method)):
        held = tiny.tensors_of(state, problem.y, problem.known, method)
        before = [(tensor._version, tensor.clone()) for tensor in held]
        state, _ = method.step(state, rng=rng)
        for tensor, (version, values) in zip(held, before, strict=True):
            assert tensor._version == version
            assert torch.equal(tensor, values)


@every_sampler
@pytest.mark.parametrize("after", [0, 2, 5])
def test_a_state_that_was_saved_goes_on_to_the_same_bits(name, after):
    """Through the checkpoint's own form; STATE_CLASSES are all that is needed to read it."""
    problem = problem_of()
    method, rng = build(name, problem), tiny.rng(3)
    count = count_of(method)
    after = min(after, count - 1)
    state, _ = steps(method, method.init(rng=rng), after, rng)
    tensors, plain = tree.pack(state)
    text, generator = json.dumps(plain), rng.get_state()
    tensors = {key: value.clone() for key, value in tensors.items()}
    _, expected = steps(method, state, count - after, rng)
    again = tree.unpack(json.loads(text), tensors, classes=state_classes(name.split()[0]))
    later = tiny.rng(0)
    later.set_state(generator)
    _, found = steps(build(name, problem), again, count - after, later)
    for one, other in zip(found, expected, strict=True):
        assert float((one.image - other.image).abs().max()) <= NOT_TO_THE_BIT.get(name, 0.0)
        assert (one.noise_std, dict(one.numbers)) == (other.noise_std, dict(other.numbers))


INTERRUPTED = [(name, more) for name in LONG for more in ({}, {"chains": 2}, {"window": 64})]
INTERRUPTED += [(name, {"calibrate": True}) for name in CHAINS]


@pytest.mark.parametrize(("name", "more"), INTERRUPTED)
def test_an_interrupted_run_goes_on_to_the_same_bits(name, more):
    size = (64, 100, 1) if "window" in more else (24, 24, 3)
    pixels, observed = damaged(*size)
    cfg = options_of(name, finish=2, **more)
    whole = restore(pixels, observed, cfg, prior=gaussian())
    saved = []

    def save(checkpoint):
        """Keep what a file would hold: the run goes on with its own tensors."""
        tensors, plain = checkpoint
        saved.append(({key: value.clone() for key, value in tensors.items()}, json.dumps(plain)))

    watch = Listener(stop_after=3)
    first = restore(pixels, observed, cfg, prior=gaussian(), watch=watch, resume=Resume(save=save))
    assert not first.finished
    start = (saved[-1][0], json.loads(saved[-1][1]))
    again = restore(pixels, observed, cfg, prior=gaussian(), resume=Resume(start))
    assert again.finished
    assert again.traces == whole.traces
    assert again.noise == whole.noise
    np.testing.assert_array_equal(again.mean, whole.mean)
    np.testing.assert_array_equal(again.std, whole.std)


# --- the command line ------------------------------------------------------------------------------------


@pytest.mark.slow
@every_method
def test_a_folder_is_restored_with_records_and_every_picture(name, tmp_path):
    photos, out = tmp_path / "photos", tmp_path / "out"
    photos.mkdir()
    for index, channels in enumerate((1, 3)):
        shades = (picture(16, 16, channels, seed=index) * 255).astype(np.uint8)
        Image.fromarray(shades[..., 0] if channels == 1 else shades).save(photos / f"{index}.png")
    hole = np.zeros((16, 16), np.uint8)
    hole[4:8, 3:11] = 255
    Image.fromarray(hole).save(tmp_path / "mask.png")
    words = ["inpaint", str(photos), "--mask", str(tmp_path / "mask.png"), "-o", str(out), "-q", "-j", "1"]
    short = ["--method", name, "--iterations", "4", "--seed", "3", "--threads", "1"]
    short += ["--burn-in", "2"] if takes(name, "burn_in") else []
    extras = ["--save", "samples,interval,prior,panel,trace,convergence"]
    short += ["--finish", "1"] if takes(name, "finish") else []
    assert run([*words, *short, *extras]) == 0
    for index in range(2):
        record = json.loads((out / f"{index}.json").read_text())
        assert record["options"]["method"] == name
        assert set(METHODS[name].options) <= set(record["options"])
        assert record["noise_source"] in ("prior", "chain")
        assert {f"{index}.mean.png", f"{index}.samples.npz", f"{index}.trace.png"} <= set(record["files"])
        assert ("rank" in record) == ("tensor_noise" in record) == takes(name, "rank")
        again = ["inpaint", "--config", str(out / f"{index}.json"), "-o", str(tmp_path / "again"), "-q"]
        assert run(again) == 0
        name_of_mean = f"{index}.mean.png"
        assert (out / name_of_mean).read_bytes() == (tmp_path / "again" / name_of_mean).read_bytes()


# --- the right distribution ------------------------------------------------------------------------------

FALSE_ALARM = 1e-4  # of one comparison, over all its quantities by Bonferroni; the seeds are fixed
STD, RHO, NOISE_STD, VALUE = 0.5, 0.3, 0.05, 0.7  # of the prior, of the coupling, of the data; the data
SIDE, LENGTH = 256, 60  # pixels a side, each a chain of its own; steps until they are stationary
_GAIN = STD**2 / (STD**2 + RHO**2)
_TOTAL = STD**2 + RHO**2 + NOISE_STD**2
_KNOWN = (STD**2 * VALUE / _TOTAL, STD**2 * (RHO**2 + NOISE_STD**2) / _TOTAL)

EXACT = {
    ("pnp-dm", "exact"): ({"pnp_step": "exact"}, {"known": _KNOWN, "missing": (0.0, STD**2)}),
    ("pnp-dm", "repo"): ({"pnp_step": "repo"}, {"known": _KNOWN, "missing": (0.0, STD**2 / (1 + _GAIN))}),
}
"""Options, and the exact mean and variance of known and of missing entries, if the prior is N(0, STD^2)."""
ELSEWHERE = {
    "diffbcp": "methods/test_geweke.py",
    "bcp-gibbs": "lowrank/test_geweke.py",
    "langevin": "methods/test_langevin.py",
    "diffbcp tt": "lowrank/test_ring_geweke.py",
    "diffbcp tr": "lowrank/test_ring_geweke.py",
}
"""Methods whose distribution has a test of its own."""


def test_every_chain_has_a_law_of_its_distribution():
    covered = {name for name, _ in EXACT} | ELSEWHERE.keys()
    assert {*CHAINS} <= covered <= {*REGISTRY, *VARIANTS}
    assert all((TESTS / path).exists() for path in ELSEWHERE.values())


def stationary(name, given, calls=1):
    """The last draw of a chain on a picture that is known in its left half; known and missing entries."""
    known = torch.zeros(1, SIDE, SIDE, dtype=torch.bool)
    known[..., : SIDE // 2] = True
    problem = Problem(torch.where(known, VALUE, 0.0), Mask(known), NOISE_STD)
    cfg = Options(
        method=name,
        iterations=LENGTH,
        burn_in=0,
        rho_min=RHO,
        rho_max=RHO,
        calls=calls,
        device="cpu",
        **given,
    )
    method, rng = builder(name)(problem, gaussian(STD**2), cfg, Seeds(0, ""), Watch()), tiny.rng(11)
    _, infos = steps(method, method.init(rng=rng), LENGTH, rng)
    image = infos[-1].image.double()
    return {"known": image[known].numpy(), "missing": image[~known].numpy()}


def exact_reverse(prior, x, rho, *, rng, **ignored):
    """The reverse process of a Gaussian prior, without the error of a solver."""
    mean = prior.denoise(x, rho)
    draw = mean + prior.posterior_var(rho).sqrt() * random.normal_like(x, rng=rng)
    return ReverseDraw(draw, mean, mean, 1)


@pytest.mark.statistical
@pytest.mark.parametrize("case", EXACT, ids=" ".join)
def test_a_chain_has_the_exact_gaussian_posterior(case, monkeypatch):
    monkeypatch.setattr(split_gibbs, "sample", exact_reverse)
    given, expected = EXACT[case]
    found = stationary(case[0], given)
    level = FALSE_ALARM / (2 * len(expected))
    for kind, (mean, var) in expected.items():
        values = found[kind]
        score = (values.mean() - mean) / np.sqrt(var / len(values))
        assert abs(score) < stats.norm.isf(level / 2), kind
        ratio = ((values - mean) ** 2).sum() / var  # chi-square
        assert stats.chi2.ppf(level / 2, len(values)) < ratio < stats.chi2.isf(level / 2, len(values)), kind


@pytest.mark.parametrize("case", EXACT, ids=" ".join)
def test_the_solver_of_the_reverse_process_keeps_it_within_a_few_percent(case):
    given, expected = EXACT[case]
    found = stationary(case[0], given, calls=24)
    for kind, (mean, var) in expected.items():
        assert found[kind].mean() == pytest.approx(mean, abs=0.02)
        assert found[kind].std() == pytest.approx(var**0.5, rel=0.05)

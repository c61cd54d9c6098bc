"""On a GPU, which is pretended: nothing that the device refuses, few waits, and a run that goes on where it was."""

from __future__ import annotations

import inspect
import sys
from itertools import islice

import numpy as np
import on_gpu
import pytest
import torch
from on_gpu import CASES
from pretend import KINDS, DeviceError, Gpu
from small_networks import with_weights

from diffbcp_cli import random, transfer, tree
from diffbcp_cli.cli import app
from diffbcp_cli.errors import MemoryLimitError
from diffbcp_cli.estimators import hold_out
from diffbcp_cli.jobs.session import resolved
from diffbcp_cli.lowrank import cp, cp_sweep, grams, quantised, ring_draws, ring_sweep, solve, stream
from diffbcp_cli.methods import cp_step, state_classes, tctv
from diffbcp_cli.operators import mask
from diffbcp_cli.options import takes
from diffbcp_cli.priors import sizes
from diffbcp_cli.priors.base import Traits
from diffbcp_cli.priors.in_memory import InMemory
from diffbcp_cli.priors.load import assemble
from diffbcp_cli.priors.mixed import MixedPrecision, lowered
from diffbcp_cli.priors.networks import ARCHITECTURES, natural
from diffbcp_cli.run.loop import SNAPSHOT_CLASSES
from diffbcp_cli.watch import Watch

WAITS = 6  # for the GPU in one iteration
LAUNCHES_OF_A_BLOCK = 230  # operations on it for one block of components
LAUNCHES_OF_A_CALL = 80  # and for one call of the tiny prior, with what is around it
every_kind = pytest.mark.parametrize("kind", KINDS)


FAST = ("diffbcp", "langevin", "daps", "calibrated samples")


@every_kind
@pytest.mark.parametrize(
    "case", [case if case in FAST else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_a_run_asks_nothing_of_the_device_that_it_refuses(kind, case, monkeypatch):
    chunks = CASES[case].get("chunks")
    if chunks:
        monkeypatch.setattr(cp_step, "IN_CHUNKS", chunks)
    with Gpu(kind) as gpu:
        found = on_gpu.run(kind, CASES[case])
    assert torch.from_numpy(found.mean).isfinite().all()
    assert found.std is None or torch.from_numpy(found.std).isfinite().all()
    assert gpu.waits.total() > 0


@every_kind
def test_a_prior_in_tiles_and_with_a_mask_is_called_without_waiting(kind):
    dtype = torch.bfloat16 if kind == "cuda" else torch.float32
    with Gpu(kind) as gpu, torch.no_grad():
        prior = on_gpu.tiny_prior(kind, dtype)
        tiled = sizes.Tiled(prior.prior, size=24, overlap=8, multiple=4, batch=2)
        x, known = torch.zeros(2, 3, 32, 40, device=kind), torch.ones(2, 3, 32, 40, device=kind) > 0
        for one in (prior, prior.prior, tiled):
            one.denoise(x, 0.3), one.fill(x, known, 0.3)
        gpu.reset()
        for one in (prior, prior.prior, tiled):
            one.denoise(x, 0.3), one.fill(x, known, 0.3)
    assert not gpu.waits, gpu.waits
    assert gpu.types[f"convolution {dtype}"] > 0


@every_kind
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_network_runs_on_the_device(kind, name):
    built, x = with_weights(name)[0], torch.zeros(2, 3, 20, 24)
    with Gpu(kind) as gpu, torch.no_grad():
        prior = assemble(
            built, device=torch.device(kind), dtype=torch.bfloat16 if kind == "cuda" else torch.float32
        )
        answer = prior.denoise(x.to(kind), 0.3)
        gpu.reset()
        prior.denoise(x.to(kind), torch.tensor([0.3, 0.2], device=kind))
        assert gpu.waits.total() <= 2, gpu.waits  # the picture and the levels of this test
        assert answer.cpu().isfinite().all()
    assert not gpu.rough or kind == "cuda"


# --- planted mistakes ------------------------------------------------------------------------------------

MISTAKES = [
    (cp, "initial", "[cosines(size).to(device) for", "[cosines(size) for", "diffbcp", "cuda"),
    (grams, "plan", ".to(weight.device)", "", "diffbcp", "cuda"),
    (grams, "plan", "_plan(weight.cpu(), observed.cpu(),", "_plan(weight, observed,", "shared", "cuda"),
    (stream, "observe_some", "[:count].to(image.device)", "[:count]", "chunks and atoms", "cuda"),
    (cp, "draw_weights", "not has_float64(gram.device)", "False", "diffbcp", "mps"),
    (transfer, "fetch", "for t in tensors]).cpu()", "for t in tensors])", "langevin", "mps"),
    (transfer, "sums", "has_float64(x.device)", "True", "langevin", "mps"),
    (random, "integer", "of_host(rng)", "rng", "langevin", "cuda"),
    (random, "normal", "device=rng.device, ", "", "langevin", "cuda"),
    (ring_sweep, "draw_gauge", "send(rounded, like.device)", "rounded", "tensor train", "cuda"),
    (ring_draws, "draw_bond", "send((1 / theta).to(gram.dtype), gram.device)", "1 / theta", "tensor ring", "cuda"),
    (mask, "masked_problem", "np.float32(GREY)), device)", "np.float32(GREY)))", "langevin", "cuda"),
    (hold_out, "_tensor", ".to(like.device)", "", "langevin, calibrated", "cuda"),
    (quantised, "rounded", "double(core)", "core.double()", "putt", "mps"),
    (tctv, "build", "where_float64(problem)", "problem", "tctv", "mps"),
]  # fmt: skip
"""A line that is wrong on one device: where, what is there, what is planted, the case and the device that show it."""


def planted(module, name, right, wrong):
    """A function of a module with a mistake in it."""
    source = inspect.getsource(getattr(module, name))
    assert source.count(right) >= 1, "the line has changed: plant the mistake anew"
    scope = dict(vars(module))
    exec(compile(f"from __future__ import annotations\n{source.replace(right, wrong)}", name, "exec"), scope)
    return scope[name]


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake", MISTAKES, ids=lambda m: f"{m[0].__name__.split('.')[-1]}.{m[1]}: {m[2][:30]}"
)
def test_a_planted_mistake_is_found(mistake, monkeypatch):
    module, name, right, wrong, case, kind = mistake
    found, real = planted(module, name, right, wrong), getattr(module, name)
    for other in list(sys.modules.values()):
        if getattr(other, "__name__", "").startswith("diffbcp_cli") and getattr(other, name, None) is real:
            monkeypatch.setattr(other, name, found)
    monkeypatch.setattr(cp_step, "IN_CHUNKS", CASES[case].get("chunks", cp_step.IN_CHUNKS))
    with Gpu(kind), pytest.raises((DeviceError, TypeError, RuntimeError)):
        on_gpu.run(kind, CASES[case])


def test_the_weights_of_a_network_in_16_bits_are_cast_once():
    x, answers, launches = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)), [], []
    with Gpu("cuda") as gpu, torch.no_grad():
        network = natural.build(on_gpu.NETWORK, {}).network.to("cuda").requires_grad_(False)
        for one in (network, lowered(network, torch.bfloat16)):
            run = MixedPrecision(one, dtype=torch.bfloat16, channels_last=True)
            gpu.reset()
            answers.append(run(x.to("cuda"), torch.zeros(2, device="cuda")).cpu())
            launches.append(gpu.launches)
        layers = (
            sum(isinstance(m, torch.nn.Conv2d | torch.nn.Linear) for m in network.modules()) // 2
        )  # two networks
        assert all(p.dtype == torch.float32 for p in network.parameters())
    assert torch.equal(*answers)
    assert launches[1] <= launches[0] - layers


# --- a run goes on where it was --------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("method", ["diffbcp", "langevin", "daps"])
def test_a_run_goes_on_from_its_checkpoint_to_the_same_bits(kind, method):
    def begin():
        return on_gpu.chains(kind, method=method, prior=on_gpu.tiny_prior(kind), count=2)

    classes = (*SNAPSHOT_CLASSES, *state_classes(method))
    with Gpu(kind):
        whole, first, second = begin(), begin(), begin()
        list(whole.steps(5))
        list(islice(first.steps(5), 7))
        tensors, plain = tree.pack(first.snapshot(planned={}, seconds=0.0))
        assert all(type(tensor) is torch.Tensor for tensor in tensors.values())  # on the host
        second.resume(tree.unpack(plain, tensors, classes=classes, device=torch.device(kind)))
        list(second.steps(5))
        assert torch.equal(whole.posterior.image.mean.cpu(), second.posterior.image.mean.cpu())


@every_kind
def test_both_generators_of_a_device_go_on(kind):
    with Gpu(kind):
        rng = random.generator(3, kind)
        random.normal((3,), rng=rng), random.permutation(5, rng=rng)
        state = rng.get_state()

        def draws():
            return [random.normal((4,), rng=rng).cpu(), random.gamma(torch.ones(4), rng=rng)]

        first = draws()
        rng.set_state(state[None][0])
        assert all(torch.equal(one, other) for one, other in zip(first, draws(), strict=True))


def test_the_state_of_a_generator_may_be_a_part_of_a_larger_tensor():
    """torch 2.13 reads such a state from the start of its storage and crashes; `Twin` copies it."""
    with Gpu("cuda"):
        one, other = random.generator(3, "cuda"), random.generator(4, "cuda")
        stacked = torch.stack([other.get_state(), one.get_state()])
        other.set_state(stacked[1])
        assert torch.equal(random.normal((4,), rng=one).cpu(), random.normal((4,), rng=other).cpu())


# --- few waits -------------------------------------------------------------------------------------------

BUSY = {
    "dense": {"rank": 24, "block": 6},
    "gather": {"rank": 24, "block": 6, "missing": 0.95},
    "shared": {"rank": 24, "block": 6, "missing": 0.0},
    "chunks": {"rank": 24, "block": 6, "chunks": 4, "atom_patches": 0},
    "tensor train": {"decomposition": "tt", "rank": 24, "block": 6},
    "tensor ring": {"decomposition": "tr", "rank": 3},
    "langevin": {"method": "langevin", "noise_std": None},
    "pnp-dm": {"method": "pnp-dm"},
    "daps": {"method": "daps"},
}


@pytest.mark.parametrize("case", BUSY)
def test_an_iteration_rarely_waits_for_the_gpu(case, monkeypatch):
    given = {"side": 48, "iterations": 60, "adapt_rank": False, **BUSY[case]}
    if "chunks" in given:
        monkeypatch.setattr(cp_step, "IN_CHUNKS", given["chunks"])
    with Gpu("cuda") as gpu:
        steps = on_gpu.chains("cuda", prior=on_gpu.tiny_prior("cuda"), **given).steps(8)
        for _ in range(5):
            next(steps)
        for _ in range(2):
            gpu.reset()
            next(steps)
            assert gpu.waits.total() <= WAITS, dict(gpu.waits)
    if case == "dense":
        assert gpu.launches <= 4 * LAUNCHES_OF_A_BLOCK + 2 * LAUNCHES_OF_A_CALL


@pytest.mark.parametrize("case", ["tensor train", "tensor ring"])
def test_searches_that_are_not_looked_at_draw_the_same_bits(case, monkeypatch):
    """However long a search is planned to be: one that is too short is seen, and the sweep is drawn again."""
    real, begun = solve.on_trust, []

    def draws(plan):
        def on_trust(draw, searches, *, rng):
            begun.append(dict(searches))
            for what in searches:
                searches[what] = plan(searches[what])
            return real(draw, searches, rng=rng)

        for module in (ring_sweep, cp_sweep):
            monkeypatch.setattr(module, "on_trust", on_trust)
        with Gpu("cuda"):
            run = on_gpu.chains("cuda", adapt_rank=False, **BUSY[case])
            return [info.image.cpu() for info in run.steps(4)]

    usual = draws(lambda count: count)
    assert any(count for searches in begun for count in searches.values())
    for plan in (lambda count: 0, lambda count: count + 9):
        for one, other in zip(usual, draws(plan), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("work", on_gpu.QUIET)
def test_nothing_waits_inside_a_sweep_or_a_call(work):
    with Gpu("cuda") as gpu:
        run = on_gpu.QUIET[work]("cuda")
        run()
        gpu.reset()
        run()
    assert not gpu.waits, gpu.waits
    assert gpu.launches > 0


@pytest.mark.slow
@every_kind
@pytest.mark.parametrize("method", ["bcp-gibbs", "langevin", "pnp-dm"])
def test_the_posterior_mean_is_that_of_the_processor(kind, method):
    """Draws of the pretended device have other seeds; a device that adds a bias is found out."""
    with Gpu(kind):
        assert on_gpu.disagreement(kind, method) < on_gpu.MOST_DISAGREEMENT


@pytest.mark.slow
def test_a_device_that_draws_too_little_noise_is_found_out(monkeypatch):
    real = random.normal

    def weak(shape, *, rng, dtype=torch.float32):
        return (
            real(shape, rng=rng, dtype=dtype).abs()
            if rng.device.type == "cuda"
            else real(shape, rng=rng, dtype=dtype)
        )

    monkeypatch.setattr(random, "normal", weak)
    with Gpu("cuda"):
        assert on_gpu.disagreement("cuda", "pnp-dm") > on_gpu.MOST_DISAGREEMENT


def test_a_factorisation_that_fails_is_drawn_again_and_looked_at(monkeypatch):
    """The first sweep on trust has a bad factor, which is seen once at its end; the chain is that of a good one."""
    real, calls = torch.linalg.cholesky_ex, []

    def first_fails(matrix):
        factor, info = real(matrix)
        calls.append(matrix.dtype)
        return factor, info + (len(calls) == bad)

    def image():
        calls.clear()
        with Gpu("cuda"):
            steps = on_gpu.chains("cuda", prior="none", rank=8, block=4).steps(1)
            return next(steps).image.cpu()

    monkeypatch.setattr(solve.torch.linalg, "cholesky_ex", first_fails)
    bad = -1
    good = image()
    count, bad = len(calls), 2
    assert torch.equal(image(), good)
    assert len(calls) == 2 * count


@every_kind
def test_where_float32_fails_float64_is_asked_and_where_there_is_none_the_host(kind):
    rough = torch.tensor([[1.0, 1.0], [1.0, 1.0 + 1e-9]], dtype=torch.float64)
    with Gpu(kind):
        q = (rough + 1e-12 * torch.eye(2)).float().to(kind)[None]
        q = torch.cat([q, torch.eye(2, device=kind)[None]])
        q[0, 1, 1] -= 6e-8  # not positive definite in float32 by rounding alone
        with pytest.raises(solve.NumericalError, match="of a test"):
            solve.draw_from_precision(q, q[:, 0], q[:, 0], what="a test")
        weights = cp.draw_weights(
            torch.full((2, 2), 1e8, device=kind),
            torch.ones(2, device=kind),
            torch.ones(2).double(),
            rng=random.generator(0, kind),
        )
        assert weights.isfinite().all()


# --- full precision --------------------------------------------------------------------------------------


@pytest.mark.parametrize("matmul", [False, True])
@pytest.mark.parametrize("given", [{}, {"decomposition": "tt"}, {"method": "langevin"}], ids=str)
def test_no_float32_product_is_left_to_tf32(given, matmul):
    before, torch.backends.cuda.matmul.allow_tf32 = torch.backends.cuda.matmul.allow_tf32, matmul
    try:
        with Gpu("cuda") as gpu:
            list(on_gpu.chains("cuda", prior=on_gpu.tiny_prior("cuda"), **given).steps(4))
        assert torch.backends.cudnn.allow_tf32
        assert torch.backends.cuda.matmul.allow_tf32 == matmul
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    assert gpu.types["convolution torch.float32"] > 0
    assert not gpu.rough, gpu.rough


def test_options_suit_the_device_unless_they_are_given():
    observed = np.ones((64, 64, 3), bool)

    def found(device, **given):
        options = resolved({"device": device, **given}, observed)
        return options.block, options.memory_budget

    assert found("cpu", method="bcp-gibbs") == (25, 4 * 2**30)
    with Gpu("cuda", free=8 * 2**30):
        assert found("cuda", method="bcp-gibbs") == (100, 12 * 2**30)  # three quarters of 16 GiB
        assert found("cuda", method="bcp-gibbs", block=10, memory_budget=2**30) == (10, 2**30)
        assert found("cuda", method="bcp-gibbs", preset="fast")[0] == 100
        observed = np.ones((600, 600, 3), bool)
        assert found("cuda", method="bcp-gibbs", tensorize="reshape")[0] == 500  # as its size asks for
        assert found("cuda", method="langevin")[0] == 25  # not an option of it
        for given in ({}, {"method": "diffbcp"}):
            usual = resolved({"device": "cuda", **given}, observed)
            assert (usual.sampler, usual.block) == ("langevin", 25)  # a block would choose the other sampler
        assert found("cuda", method="diffbcp", sampler="split-gibbs")[0] == 100
    with Gpu("mps", free=8 * 2**30):
        assert found("mps", method="bcp-gibbs") == (25, 6 * 2**30)


def test_the_estimate_of_a_run_knows_the_memory_of_the_device(photo, mask, tmp_path, capsys):
    words = ["inpaint", str(photo), "--mask", str(mask), "-o", str(tmp_path / "out"), "--dry-run"]
    said = []
    for free in (64 * 2**20, 8 * 2**30):
        with Gpu("cuda", free=free):
            assert app.run([*words, "--device", "cuda"]) == 0
        shown = capsys.readouterr()
        said.append("more than the budget of 0.09 GiB" in shown.out + shown.err)  # three quarters of 128 MiB
    assert said == [True, False]


# --- out of memory ---------------------------------------------------------------------------------------


class Greedy:
    """A network that takes `times` as much memory as its images, for every one of them."""

    def __init__(self, times):
        self.traits, self.times, self.shapes = Traits(), times, []

    def denoise(self, x, sigma):
        x.repeat(1, self.times, 1, 1)
        self.shapes.append(tuple(x.shape))
        return x * 0.5


@every_kind
def test_a_network_without_room_goes_on_in_smaller_batches_and_then_in_smaller_tiles(kind):
    inner, said = Greedy(times=20), []
    prior = InMemory(sizes.Tiled(inner, size=512, overlap=64, multiple=4, extend=False), said.append)
    with Gpu(kind, most=20 * 2 * 3 * 160**2 * 4):
        answer = prior.denoise(torch.ones(2, 3, 200, 200, device=kind), 0.1)
        torch.testing.assert_close(answer.cpu(), torch.full((2, 3, 200, 200), 0.5))
        assert inner.shapes == [(1, 3, 200, 200)] * 2
        answer = prior.denoise(torch.ones(1, 3, 300, 300, device=kind), 0.1)
        torch.testing.assert_close(answer.cpu(), torch.full((1, 3, 300, 300), 0.5))
    what = "batches of 2", "batches of 1", "tiles of 256 pixels"
    assert said == [f"out of memory: the network goes on with {one}" for one in what]


@every_kind
def test_a_network_that_fits_in_no_tile_is_a_sentence(kind):
    prior = InMemory(
        sizes.Tiled(Greedy(50), size=256, overlap=64, multiple=4, extend=False), lambda text: None
    )
    with Gpu(kind, most=10**6), pytest.raises(MemoryLimitError, match="network"):
        prior.denoise(torch.ones(1, 3, 140, 140, device=kind), 0.1)


class Hearing(Watch):
    """Keeps what it is told."""

    def __init__(self):
        self.said = []

    def note(self, text):
        self.said.append(text)


@every_kind
def test_a_picture_whose_tensor_does_not_fit_is_observed_in_chunks(kind):
    """64 x 64 in 8 x 8 patches, every 4 pixels: matrices of 192 x 256, 197 kB each; the picture takes 49 kB."""
    watch = Hearing()
    with Gpu(kind, most=100_000):
        run = on_gpu.chains(kind, side=64, watch=watch, memory_budget=2**26)
        images = [info.image.cpu() for info in run.steps(6)]
    assert len(run.method.image_step.observation.chunks) > 1
    assert watch.said[0] == "out of memory: the picture is observed in chunks"
    assert (images[-1] - torch.from_numpy(on_gpu.damaged(side=64)[0] * 2 - 1).permute(2, 0, 1)).std() < 0.3


@every_kind
def test_a_sweep_that_does_not_fit_goes_on_in_smaller_batches_and_then_in_chunks(kind, monkeypatch):
    real, watch = cp_step.observe, Hearing()

    def while_there_is_room(*args, **more):
        gpu.most, before = None, gpu.most
        try:
            return real(*args, **more)
        finally:
            gpu.most = before

    monkeypatch.setattr(cp_step, "observe", while_there_is_room)
    with Gpu(kind, most=100_000) as gpu:
        run = on_gpu.chains(kind, side=64, watch=watch, memory_budget=2**26)
        assert all(info.image.isfinite().all() for info in run.steps(3))
    assert len(run.method.image_step.observation.chunks) > 1
    assert {*watch.said} == {"out of memory: going on with batches of half the size"}


@every_kind
@pytest.mark.parametrize("room", [2_000, 400_000], ids=["none", "for the picture"])
@pytest.mark.parametrize("method", ["diffbcp", "langevin", "tctv", "dps"])
def test_a_picture_that_does_not_fit_ends_in_a_sentence_and_exit_code_5(
    kind, method, room, photo, mask, tmp_path, capsys
):
    words = ["inpaint", str(photo), "--mask", str(mask), "-o", str(tmp_path / "out"), "--device", kind]
    words += ["--method", method, "--iterations", "4", "--quiet"]
    words += ["--burn-in", "1"] if takes(method, "burn_in") else []
    with Gpu(kind, most=room):
        code = app.run(words)
    said = capsys.readouterr().err
    assert "Traceback" not in said
    if code:
        assert code == 5
        assert "memory" in said
    assert code or room > 2_000 or (kind, method) == ("mps", "tctv")  # which works on the host


# --- the pretended device itself -------------------------------------------------------------------------


def test_the_pretended_gpu_refuses_what_a_real_one_refuses():
    with Gpu("cuda"):
        x, rng = torch.ones(3, 3, device="cuda"), torch.Generator(device="cuda")
        for wrong in (
            lambda: x + torch.ones(3, 3),
            lambda: torch.ones(3, 3) @ x,
            lambda: torch.arange(3)[torch.zeros(2, dtype=torch.long, device="cuda")],
            lambda: torch.randn(3, generator=rng),
            lambda: torch.randn(3, device="cuda", generator=torch.Generator()),
            lambda: torch.zeros(3, 3).add_(x),
        ):
            with pytest.raises(DeviceError):
                wrong()
        with pytest.raises(TypeError, match="numpy"):
            x.numpy()
        assert float((x * torch.tensor(2.0)).sum()) == 18  # a number of the host may take part
        assert x[torch.tensor([0, 1])].shape == (2, 3)  # and indices
    with Gpu("mps"):
        y = torch.ones(3, 3, device="mps")
        for wrong in (y.double, lambda: y.sum(dtype=torch.float64), lambda: torch.linalg.eigh(y)):
            with pytest.raises(DeviceError):
                wrong()


def test_the_pretended_gpu_counts_waits():
    with Gpu("cuda") as gpu:
        x = torch.ones(4, device="cuda")
        gpu.reset()
        x.cpu(), float(x.sum()), bool(x.any()), x[x > 0], x.tolist(), x.nonzero()
        assert gpu.waits.total() == 6
        torch.ones(4).to("cuda")
        assert gpu.waits.total() == 7
        torch.ones(4).pin_memory().to("cuda", non_blocking=True)
        assert (gpu.waits.total(), gpu.asynchronous) == (7, 1)


def test_the_pretended_gpu_computes_what_the_processor_computes():
    x = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    expected = on_gpu.tiny_prior("cpu").denoise(x, 0.3)
    with Gpu("cuda"):
        assert torch.equal(on_gpu.tiny_prior("cuda").denoise(x.to("cuda"), 0.3).cpu(), expected)

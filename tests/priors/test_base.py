"""What makes a prior: its traits, wrappers that pass them on, gradients, and models that state no traits."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from diffbcp_cli import inpaint
from diffbcp_cli.errors import ModelError, UsageError
from diffbcp_cli.priors import LoadedPrior, Traits, as_prior
from diffbcp_cli.priors.base import Watched
from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.priors.network import NetworkPrior
from diffbcp_cli.priors.networks.natural import Natural, NaturalConfig
from diffbcp_cli.priors.precondition import EDM
from diffbcp_cli.priors.reverse import SOLVERS, sample
from diffbcp_cli.priors.sizes import Fitted, Tiled


class Foreign(nn.Module):
    """A model of somebody else: it can denoise, and its weights ask for gradients."""

    def __init__(self):
        super().__init__()
        self.share = nn.Parameter(torch.tensor(0.25))
        self.answers = []

    def denoise(self, noisy, level):
        self.answers.append(noisy * self.share / (self.share + torch.as_tensor(level).square()))
        return self.answers[-1]


def natural(dtype=torch.float64):
    """A tiny network with random weights, in double precision for finite differences."""
    torch.manual_seed(0)
    network = Natural(NaturalConfig((4, 6), (1, 1), embedding_channels=4, takes_mask=True))
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.2)
    traits = Traits(channels=3, takes_mask=True, rotations=4)
    return NetworkPrior(network, EDM(network), traits, multiple=4, dtype=dtype)


WRAPPERS = {
    "bare": lambda prior: prior,
    "tiled": lambda prior: Tiled(prior, size=8, overlap=4, multiple=4, batch=2),
    "fitted": lambda prior: Fitted(prior, size=8),
    "watched": lambda prior: Watched(prior, lambda count: None),
    "loaded": lambda prior: LoadedPrior(prior, prior.network, None, torch.float32),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize("channels", [1, 3])
def test_the_gradient_of_denoise_agrees_with_finite_differences(wrap, channels):
    prior = wrap(natural())
    rng = torch.Generator().manual_seed(1)
    x, direction, weight = (
        torch.randn(1, channels, 13, 10, generator=rng, dtype=torch.float64) for _ in range(3)
    )
    x.requires_grad_()
    (gradient,) = torch.autograd.grad((weight * prior.denoise(x, 0.3)).sum(), x)
    step = 1e-6 * direction
    ahead, behind = ((weight * prior.denoise(x.detach() + s, 0.3)).sum() for s in (step, -step))
    assert float((gradient * direction).sum()) == pytest.approx(float((ahead - behind) / 2e-6), rel=1e-5)


@pytest.mark.parametrize("wrap", ["bare", "tiled", "watched", "loaded"])
def test_the_gradient_of_fill_agrees_with_finite_differences(wrap):
    prior = WRAPPERS[wrap](natural())
    rng = torch.Generator().manual_seed(1)
    x, direction = (torch.randn(1, 3, 13, 10, generator=rng, dtype=torch.float64) for _ in range(2))
    known = torch.rand(1, 3, 13, 10, generator=rng) < 0.5
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(prior.fill(x, known, 0.3).square().sum(), x)
    step = 1e-6 * direction
    ahead, behind = (prior.fill(x.detach() + s, known, 0.3).square().sum() for s in (step, -step))
    assert float((gradient * direction).sum()) == pytest.approx(float((ahead - behind) / 2e-6), rel=1e-5)


@pytest.mark.parametrize("wrap", ["tiled", "fitted"])
def test_a_call_in_inference_mode_leaves_later_ones_differentiable(wrap):
    prior = WRAPPERS[wrap](natural(torch.float32))
    x = torch.zeros(1, 3, 13, 10, requires_grad=True)
    with torch.inference_mode():
        prior.denoise(x, 0.3)
    prior.denoise(x, 0.3).sum().backward()
    assert x.grad.abs().max() > 0


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_no_graph_is_built_for_an_image_that_asks_for_none(wrap):
    assert not wrap(natural()).denoise(torch.zeros(1, 3, 16, 16), 0.1).requires_grad


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_reverse_process_keeps_no_graph_of_a_model_that_would_build_one(solver):
    model = Foreign()
    draw = sample(as_prior(model), torch.ones(1, 3, 8, 8), 0.3, solver=solver, rng=torch.Generator())
    assert not any(image.requires_grad for image in (draw.sample, draw.mean, draw.last_mean))
    assert not any(answer.requires_grad for answer in model.answers)
    assert model.denoise(torch.ones(1, 3, 8, 8), 0.3).requires_grad


@pytest.mark.parametrize("time_budget", [None, 3.0])
def test_a_model_with_denoise_alone_restores_a_photograph_and_keeps_no_graph(time_budget):
    image = np.linspace(0, 1, 32, dtype=np.float32)[:, None] * np.ones((32, 32), np.float32)
    mask = np.random.default_rng(0).random((32, 32)) < 0.5
    model = Foreign()
    options = {"iterations": 12, "burn_in": 6, "rank": 6, "finish": 3, "time_budget": time_budget}
    result = inpaint(image, mask, prior=model, device="cpu", **options)
    assert np.abs(result.mean - image).mean() < 0.1
    assert len(model.answers) > 12
    assert not any(answer.requires_grad for answer in model.answers)


def test_traits_that_a_model_states_are_kept():
    prior = GaussianPrior(torch.zeros(()), torch.ones(()))
    assert as_prior(prior) is prior
    assert as_prior(Foreign()).traits == Traits()


@pytest.mark.parametrize("thing", [3, torch.nn.Identity()])
def test_what_cannot_denoise_is_refused(thing):
    with pytest.raises(UsageError, match=f"{type(thing).__name__} is no prior"):
        as_prior(thing)


@pytest.mark.parametrize("wrap", ["tiled", "watched", "loaded"])
def test_wrappers_pass_on_traits_and_mask(wrap):
    inner = natural(torch.float32)
    prior, x, known = WRAPPERS[wrap](inner), torch.rand(1, 3, 8, 8), torch.rand(1, 3, 8, 8) < 0.5
    assert prior.traits == inner.traits
    torch.testing.assert_close(prior.fill(x, known, 0.2), inner.fill(x, known, 0.2))


def test_a_watched_prior_reports_pixels_before_each_call():
    counts = []
    prior = Watched(natural(torch.float32), counts.append)
    prior.denoise(torch.zeros(2, 3, 8, 12), 0.1)
    prior.fill(torch.zeros(1, 3, 4, 8), torch.ones(1, 3, 4, 8, dtype=torch.bool), 0.1)
    assert counts == [192, 32]


def test_a_wrapper_refuses_a_mask_that_its_prior_does_not_take():
    prior = Watched(GaussianPrior(torch.zeros(()), torch.ones(())), lambda count: None)
    with pytest.raises(ModelError, match="mask"):
        prior.fill(torch.zeros(1, 3, 8, 8), torch.ones(1, 3, 8, 8, dtype=torch.bool), 0.1)

"""Quarter turns of a prior."""

from __future__ import annotations

import tiny
import torch

from diffbcp_cli.priors.base import Traits
from diffbcp_cli.priors.turning import Turning


class Lopsided:
    """A prior that adds a ramp from left to right, so that it matters how a picture is turned."""

    traits = Traits(rotations=4)

    def denoise(self, x, sigma):
        return x + torch.linspace(0, 1, x.shape[-1])


def test_a_prior_of_all_turns_sees_each_of_them_and_answers_in_place():
    prior, x = Turning(Lopsided(), tiny.rng(0)), torch.zeros(2, 3, 6, 6)
    ramps = {tuple((prior.denoise(x, 0.1) - x)[0, 0].diagonal().tolist()) for _ in range(30)}
    corners = {
        tuple((prior.denoise(x, 0.1))[0, 0][[0, 0, -1, -1], [0, -1, 0, -1]].tolist()) for _ in range(40)
    }
    assert len(corners) == 4
    assert len(ramps) == 2

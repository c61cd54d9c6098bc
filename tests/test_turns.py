"""The mean over turns: what depends on the way up cancels."""

from __future__ import annotations

import torch

from diffbcp_cli.diffusion.turns import mean_over_turns


def test_what_depends_on_the_way_up_cancels():
    image = torch.rand(2, 3, 6, 8, generator=torch.Generator().manual_seed(0))

    def leaning(x):
        return x + torch.linspace(-1, 1, x.shape[-1])

    assert not torch.allclose(leaning(image), image)
    assert torch.allclose(mean_over_turns(leaning, image), image, atol=1e-6)


def test_all_images_are_turned_alike():
    image = torch.rand(1, 4, 4, generator=torch.Generator().manual_seed(0))
    mask = image > 0.5
    assert torch.allclose(mean_over_turns(lambda x, m: x * m, image, mask), image * mask)

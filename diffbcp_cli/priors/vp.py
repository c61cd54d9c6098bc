"""VP preconditioning: an epsilon network with a linear beta schedule becomes a denoiser of (x, sigma).

The training process is x_t = x0 + sigma(t) eps, scaled to unit variance, with t in [0, 1] and
sigma(t)^2 = exp(beta_d t^2 / 2 + beta_min t) - 1. Time is continuous: the networks embed it by sines and
cosines, so they take the steps between those they were trained on.
"""

from __future__ import annotations

from torch import Tensor, nn


class VP:
    """D(x, sigma) = x - sigma F(x / sqrt(1 + sigma^2), (steps - 1) t(sigma)).

    beta_start, beta_end: the first and the last beta of the discrete schedule of `steps` steps. A network
    with twice as many channels (learn_sigma) gives the variance in the second half, which is dropped.
    """

    def __init__(
        self, network: nn.Module, *, beta_start: float = 1e-4, beta_end: float = 0.02, steps: int = 1000
    ) -> None:
        self.network = network
        self.beta_min = beta_start * steps
        self.beta_d = (beta_end - beta_start) * steps
        self.steps = steps

    def __call__(self, x: Tensor, sigma: Tensor) -> Tensor:
        """x (B, C, H, W), sigma (B,) -> the denoised image (B, C, H, W)."""
        s = sigma.reshape(-1, 1, 1, 1)
        output: Tensor = self.network(x * (1 + s.square()).rsqrt(), (self.steps - 1) * self.time(sigma))
        return x - s * output[:, : x.shape[1]]

    def time(self, sigma: Tensor) -> Tensor:
        """t(sigma), any shape: the positive root of beta_d t^2 / 2 + beta_min t = ln(1 + sigma^2)."""
        level = sigma.square().log1p()
        # the root without a difference of nearly equal numbers, so that small sigma keep their digits
        return 2 * level / (self.beta_min + (self.beta_min**2 + 2 * self.beta_d * level).sqrt())

    def sigma(self, time: Tensor) -> Tensor:
        """sigma(t), any shape: the inverse of `time`."""
        return (0.5 * self.beta_d * time.square() + self.beta_min * time).expm1().sqrt()

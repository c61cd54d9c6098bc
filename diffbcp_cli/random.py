"""All random draws. Each takes its `torch.Generator`; nothing here reads a global seed.

Normals and uniforms are drawn on the generator's own device. Gammas, betas, categorical draws, integers and orders
are few: they are drawn on the host, most of them in float64. Not every device has float64, and to fetch a number
from a GPU is to wait for it. So a generator on a GPU is a `Twin`, with another one on the host.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Generator, Tensor

from .transfer import has_float64

_OTHER = 0x5DEECE66D  # makes another seed of a seed
_PROPOSALS = 16  # Marsaglia-Tsang accepts with probability > 0.95: all 16 fail about once in 1e20


class Twin(Generator):
    """A generator on a GPU, with one on the host; they are saved and restored as one."""

    host: Generator

    def __init__(self, device: torch.device | str) -> None:
        self.host = Generator()

    def manual_seed(self, seed: int) -> Self:
        """Seed both, differently."""
        super().manual_seed(seed)
        self.host.manual_seed(seed ^ _OTHER)
        return self

    def get_state(self) -> Tensor:
        """Both states, that of the host last."""
        return torch.cat([super().get_state(), self.host.get_state()])

    def set_state(self, new_state: Tensor) -> Self:
        """Go on from what `get_state` returned."""
        size = len(new_state) - len(self.host.get_state())
        super().set_state(new_state[:size].clone())  # a view with an offset crashes torch 2.13
        self.host.set_state(new_state[size:].clone())
        return self


def generator(seed: int, device: torch.device | str = "cpu") -> Generator:
    """Return a new generator on `device`, seeded."""
    if torch.device(device).type == "cpu":
        return Generator().manual_seed(seed)
    return Twin(device).manual_seed(seed)


def of_host(rng: Generator) -> Generator:
    """The generator of the draws on the host."""
    return rng.host if isinstance(rng, Twin) else rng


def normal(shape: tuple[int, ...], *, rng: Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    """Draw standard normals of `shape` on the generator's device, or on the host if that has no such type."""
    if dtype == torch.float64 and not has_float64(rng.device):
        rng = of_host(rng)
    return torch.randn(shape, generator=rng, device=rng.device, dtype=dtype)


def normal_like(x: Tensor, *, rng: Generator) -> Tensor:
    """Draw standard normals with the shape, dtype and device of x.

    They are drawn on the generator's device, so the numbers do not depend on where x is.
    """
    return normal(tuple(x.shape), rng=rng, dtype=x.dtype).to(x.device)


def integer(below: int, *, rng: Generator) -> int:
    """Draw one of 0 .. below - 1."""
    return int(torch.randint(below, (), generator=of_host(rng)))


def permutation(n: int, *, rng: Generator) -> Tensor:
    """Draw a random order of 0 .. n-1, on the host."""
    return torch.randperm(n, generator=of_host(rng))


def uniform32(shape: tuple[int, ...], *, rng: Generator) -> Tensor:
    """Draw uniforms in [0, 1), float32 on the generator's device. They are multiples of 2^-24, zero included."""
    return torch.rand(shape, generator=rng, device=rng.device, dtype=torch.float32)


def within(bound: float, shape: tuple[int, ...], *, rng: Generator) -> Tensor:
    """Draw uniforms in [-bound, bound), float32 on the generator's device."""
    return 2 * bound * (uniform32(shape, rng=rng) - 0.5)


def bernoulli(shape: tuple[int, ...], share: float, *, rng: Generator) -> Tensor:
    """Draw bools of `shape` on the generator's device, each True with probability `share`."""
    return uniform32(shape, rng=rng) < share


def _normal64(shape: tuple[int, ...], rng: Generator) -> Tensor:
    return normal(shape, rng=of_host(rng)).double()


def uniform(shape: tuple[int, ...], *, rng: Generator) -> Tensor:
    """Draw uniforms in the open interval (0, 1), float64 on the CPU."""
    return uniform32(shape, rng=of_host(rng)).double() + 2.0**-25  # half a step off zero


def gamma(shape: Tensor, *, rng: Generator) -> Tensor:
    """Draw Gamma(shape, rate 1), elementwise, float64 on the CPU.

    Marsaglia and Tsang's squeeze: d = a - 1/3, v = (1 + n / sqrt(9 d))^3, keep d v when
    log u < n^2/2 + d - d v + d log v. Shapes below 1 use Gamma(a) = Gamma(a + 1) U^(1/a).
    """
    a = shape.detach().cpu().double()
    small = a < 1
    d = torch.where(small, a + 1, a) - 1 / 3
    size = (_PROPOSALS, *a.shape)
    n, u = _normal64(size, rng), uniform(size, rng=rng)
    v = (1 + n / (9 * d).sqrt()) ** 3
    ok = (v > 0) & (u.log() < 0.5 * n * n + d - d * v + d * v.clamp_min(1e-300).log())
    first = ok.to(torch.int8).argmax(0, keepdim=True)  # the first accepted proposal
    draw = (d * v).gather(0, first).squeeze(0)
    boost = uniform(tuple(a.shape), rng=rng).log() / a
    return torch.where(small, (draw.log() + boost).exp(), draw)


def gamma_above(shape: Tensor, least: float, *, rng: Generator) -> Tensor:
    """Draw Gamma(shape, rate 1) given that it is at least `least`; shape is a single number, float64.

    Most draws are above it. Where hardly any is, least > shape - 1, the tail is drawn by an exponential: with
    k = (shape - 1) / least, propose x = least + Exp(1 - k), keep it with probability (x / least)^(shape - 1)
    exp(-k (x - least)), which is at most one because log(x / least) <= (x - least) / least.
    """
    draw = gamma(shape, rng=rng)
    tail, k = least > float(shape) - 1, max(0.0, float(shape) - 1) / least if least > 0 else 0.0
    while float(draw) < least:
        if not tail:
            draw = gamma(shape, rng=rng)
            continue
        step, u = -uniform((), rng=rng).log() / (1 - k), uniform((), rng=rng)
        if float(u.log()) < (float(shape) - 1) * float((1 + step / least).log()) - k * float(step):
            draw = least + step
    return draw


def beta(a: Tensor, b: Tensor, *, rng: Generator) -> Tensor:
    """Draw Beta(a, b), elementwise, float64 on the CPU."""
    x, y = gamma(a, rng=rng), gamma(b, rng=rng)
    return x / (x + y)


def inverse_gamma(shape: Tensor, rate: Tensor, *, rng: Generator) -> Tensor:
    """Draw InvGamma(shape, rate), elementwise, float64 on the CPU: the reciprocal is Gamma(shape, rate)."""
    return rate.detach().cpu().double() / gamma(shape, rng=rng)


def categorical(log_weight: Tensor, *, rng: Generator) -> Tensor:
    """Draw one index per row with probability proportional to exp(log_weight), (n, k) -> (n,).

    Gumbel's trick: argmax(log w - log(-log u)).
    """
    u = uniform(tuple(log_weight.shape), rng=rng)
    return (log_weight.cpu().double() - (-u.log()).log()).argmax(-1)


def seed_of(seed: int, name: str) -> int:
    """A seed of one photograph's own, from the seed of the run and the relative path of the photograph."""
    digest = hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@dataclass(frozen=True)
class Seeds:
    """The generators of one photograph: a part of the work never shifts the draws of another."""

    seed: int
    name: str

    def of(self, part: str = "") -> int:
        """The seed of a part."""
        return seed_of(self.seed, f"{self.name}#{part}" if part else self.name)

    def generator(self, part: str, device: torch.device) -> Generator:
        """A generator of torch."""
        return generator(self.of(part), device)

    def numpy(self, part: str) -> np.random.Generator:
        """A generator of NumPy."""
        return np.random.default_rng(self.of(part))

"""Diffusion priors: networks, preconditioning, noise grids, the reverse process."""

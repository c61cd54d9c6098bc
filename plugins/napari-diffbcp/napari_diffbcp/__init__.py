"""Restore images in napari with diffbcp."""

from .layers import restore_data

__all__ = ["restore_data"]

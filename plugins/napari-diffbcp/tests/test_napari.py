"""The plugin without a screen: layers in, layers out, the manifest, and the widget in a real viewer."""

from __future__ import annotations

import os
from importlib import import_module

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
import pytest
from napari_diffbcp import restore_data

QUICK = {"prior": "none", "iterations": 6, "burn_in": 2, "sampler": "split-gibbs", "rank": 3}


def picture(*shape: int) -> np.ndarray:
    y = np.linspace(0.2, 0.8, shape[-2])[:, None]
    return (np.broadcast_to(y, shape) * 200).astype(np.uint8)


def test_an_image_gives_mean_std_and_mask():
    image, mask = picture(24, 32), np.zeros((24, 32), int)
    mask[5:9, 5:20] = 3
    damaged = np.where(mask, 255, image).astype(np.uint8)
    mean, std, filled = restore_data(damaged, mask, **QUICK)
    assert [layer[2] for layer in (mean, std, filled)] == ["image", "image", "labels"]
    assert mean[0].dtype == np.uint8
    assert np.abs(mean[0].astype(int) - image)[mask > 0].mean() < 30
    assert np.array_equal(filled[0] > 0, mask > 0)


def test_a_stack_is_restored_page_by_page_and_one_mask_is_for_all():
    stack = np.stack([picture(24, 32), 255 - picture(24, 32)])
    mask = np.zeros((24, 32), bool)
    mask[5:9] = True
    mean, filled = restore_data(stack, mask, method="telea")
    assert mean[0].shape == filled[0].shape == (2, 24, 32)
    alone = restore_data(stack[1], mask, method="telea")[0]
    assert np.array_equal(mean[0][1], alone[0])


def test_values_of_any_range_come_back_on_it():
    image = picture(24, 32).astype(np.float32) * 40 - 1000
    mean, std = restore_data(image, **QUICK)[:2]
    assert np.abs(mean[0] - image).mean() < 0.1 * np.ptp(image)
    assert std[0].max() > 1


def test_a_mask_of_another_size_is_said():
    with pytest.raises(ValueError, match="does not fit"):
        restore_data(picture(24, 32), np.ones((8, 8)), **QUICK)


def test_the_manifest_is_one():
    from npe2 import PluginManifest

    manifest = PluginManifest.from_distribution("napari-diffbcp")
    (widget,) = manifest.contributions.widgets
    (command,) = manifest.contributions.commands
    assert widget.command == command.id
    module, name = str(command.python_name).split(":")
    assert callable(getattr(import_module(module), name))


def test_the_widget_adds_layers_to_a_viewer():
    """The viewer's model and the real widget; only the canvas, which needs OpenGL, is left out."""
    from napari.components import ViewerModel
    from napari.layers import Image
    from napari_diffbcp.widget import restore_widget
    from qtpy.QtTest import QTest
    from qtpy.QtWidgets import QApplication

    app = QApplication.instance() or QApplication([])
    viewer = ViewerModel()
    photo = viewer.add_layer(Image(np.dstack([picture(24, 32)] * 3), rgb=True, name="photo"))
    widget = restore_widget()
    worker = widget(image=photo, prior="none", iterations=4)
    worker.returned.connect(lambda layers: [viewer._add_layer_from_data(*layer) for layer in layers])
    if not worker.is_running:
        worker.start()
    for _ in range(600):
        QTest.qWait(50)
        if len(viewer.layers) >= 3:
            break
    assert [layer.name for layer in viewer.layers] == ["photo", "photo restored", "photo std"]
    assert viewer.layers["photo restored"].data.shape == (24, 32, 3)
    assert app is not None

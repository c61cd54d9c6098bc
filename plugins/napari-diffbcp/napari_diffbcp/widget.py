"""The widget: choose layers and options, restore in the background, get new layers."""

from magicgui import magic_factory
from napari.layers import Image, Labels
from napari.qt.threading import FunctionWorker, thread_worker
from napari.types import LayerDataTuple

from .layers import restore_data


@magic_factory(
    call_button="Restore",
    mask={"tooltip": "Painted pixels are filled; without a mask, noise is removed."},
    iterations={"min": 0, "max": 10_000, "tooltip": "0: as many as usual."},
    prior={"choices": ["natural", "none"]},
)
def restore_widget(
    image: Image,
    mask: Labels | None = None,
    prior: str = "natural",
    fast: bool = True,
    iterations: int = 0,
    seed: int = 0,
) -> FunctionWorker[list[LayerDataTuple]]:
    """Restore a layer in the background; its mean, standard deviation and filled pixels become new layers."""
    options = {"prior": prior, "seed": seed} | ({"iterations": iterations} if iterations else {"fast": fast})
    limits = (
        None if image.rgb or image.data.dtype.kind == "u" else tuple(map(float, image.contrast_limits_range))
    )
    data, painted, rgb, name = image.data, None if mask is None else mask.data, image.rgb, image.name

    @thread_worker
    def work() -> list[LayerDataTuple]:
        def stopped() -> bool:
            return bool(worker.abort_requested)

        return restore_data(data, painted, rgb=rgb, limits=limits, name=name, cancel=stopped, **options)

    worker = work()
    return worker

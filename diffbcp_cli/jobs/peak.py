"""The most memory that this process holds while something runs."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import torch

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5): sets the peak to what is held now
_LOOK = 0.02  # seconds between looks where the kernel keeps no peak that can be reset


class PeakMemory:
    """`with PeakMemory() as peak: ...`, then `peak.bytes`: resident memory, and that of a GPU in `peak.gpu`.

    Linux counts it exactly; elsewhere it is looked at every 20 ms.
    """

    def __enter__(self) -> Self:
        self.gpu: int | None = None
        if _on_gpu():
            torch.cuda.reset_peak_memory_stats()
        self._done = threading.Event()
        self._seen, self._watcher = 0, None
        try:
            _CLEAR.write_text(_RESET_PEAK)
        except OSError:
            self._watcher = threading.Thread(target=self._watch, daemon=True)
            self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if _on_gpu():
            self.gpu = int(torch.cuda.max_memory_allocated())
        if self._watcher is None:
            self.bytes = _high_water_mark()
            return
        self._done.set()
        self._watcher.join()
        self.bytes = self._seen

    def _watch(self) -> None:
        process = psutil.Process()
        while True:
            self._seen = max(self._seen, int(process.memory_info().rss))
            if self._done.wait(_LOOK):
                return


def _high_water_mark() -> int:
    """VmHWM of this process, in bytes."""
    line = next(text for text in _STATUS.read_text().splitlines() if text.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def _on_gpu() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]

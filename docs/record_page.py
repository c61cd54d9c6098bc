"""Record `diffbcp open` at work, as an animated WebP: damage is found, restored, and compared.

    python docs/record_page.py docs/images/open.webp

Needs Chromium with its driver (`make browser`) and selenium. The photograph is that of docs/demo.py, with specks and
scratches drawn over it.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from demo import portrait
from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

WIDTH, HEIGHT = 1100, 700
Frames = list[tuple[Image.Image, int]]


def damaged() -> Image.Image:
    """The portrait, twice as large, with twenty specks, a few hairs and a scratch."""
    pixels = np.asarray(portrait().resize((512, 512), Image.Resampling.LANCZOS)).copy()
    rng = np.random.default_rng(2)
    for x, y in rng.integers(20, 492, (20, 2)):
        cv2.circle(pixels, (int(x), int(y)), int(rng.integers(2, 5)), (245, 243, 235), -1, cv2.LINE_AA)
    for x in (150, 410):
        cv2.line(pixels, (x, 0), (x + 18, 512), (240, 238, 230), 2, cv2.LINE_AA)
    return Image.fromarray(pixels)


class Recorder:
    """A browser with the page, and what it has shown."""

    def __init__(self, address: str, profile: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for flag in ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"):
            options.add_argument(flag)
        self.browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.frames: Frames = []
        self.browser.get(address)
        self.wait("return Boolean(window.diffbcp && diffbcp.mask && diffbcp.timer)")

    def js(self, code: str) -> Any:
        """Run a script in the page."""
        return self.browser.execute_script(code)

    def wait(self, condition: str, seconds: float = 300) -> None:
        """Until a script returns true."""
        end = time.monotonic() + seconds
        while not self.js(condition):
            if time.monotonic() > end:
                raise TimeoutError(condition)
            time.sleep(0.1)

    def keep(self, milliseconds: int) -> None:
        """Take what is on the screen as a frame."""
        shot = Image.open(io.BytesIO(self.browser.get_screenshot_as_png())).convert("RGB")
        self.frames.append(
            (shot.resize((WIDTH * 3 // 4, HEIGHT * 3 // 4), Image.Resampling.LANCZOS), milliseconds)
        )


def record(page: Recorder) -> None:
    """Find, restore with previews, compare."""
    page.keep(1500)
    page.js("document.getElementById('find').click()")
    page.wait("return diffbcp.share > 0")
    time.sleep(0.5)
    page.keep(1500)
    page.js("document.getElementById('restore').click()")
    seen = 0
    while not page.js("return diffbcp.runs.some((run) => run.status === 'done')"):
        now = page.js("return diffbcp.previewed || 0")
        if now != seen and len(page.frames) < 14:
            seen = now
            time.sleep(0.2)
            page.keep(350)
        time.sleep(0.2)
    page.wait("return diffbcp.mode === 'compare'")
    time.sleep(1)
    for part in (50, 35, 20, 5, 35, 65, 95):
        page.js(f"diffbcp.compare.cut({part / 100})")
        time.sleep(0.2)
        page.keep(1500 if part in (5, 95) else 250)


def main() -> None:
    """Serve a damaged photograph, record, write."""
    with tempfile.TemporaryDirectory() as place:
        photo = Path(place) / "portrait.png"
        damaged().save(photo)
        command = [sys.executable, "-m", "diffbcp_cli", "open", str(photo), "--no-browser"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            page = Recorder(server.stdout.readline().strip(), Path(place) / "profile")
            record(page)
            page.browser.quit()
        finally:
            server.terminate()
            server.wait()
    pictures, times = zip(*page.frames, strict=True)
    pictures[0].save(
        sys.argv[1], save_all=True, append_images=pictures[1:], duration=times, loop=0, quality=70
    )


if __name__ == "__main__":
    main()

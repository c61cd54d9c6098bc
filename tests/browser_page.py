"""A page in a real browser, for tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from eval_data import absent

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        absent("chromium is not installed: apt-get install -y chromium chromium-driver")
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        absent("selenium is not installed: pip install 'diffbcp[dev]'")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    session = webdriver.Chrome(options=options, service=Service(driver))
    yield session
    session.quit()


class Page:
    """The page in the browser, with the few things that tests do to it."""

    READY: str  # true once the page can be used

    def __init__(self, session, path: Path) -> None:
        self.session = session
        self.address = path.as_uri()

    def open(self, *, width: int = 1280, height: int = 900, scheme: str = "light") -> Page:
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.session.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        self.session.get(self.address)
        self.wait(self.READY)
        return self

    def js(self, code: str, *arguments):
        return self.session.execute_script(code, *arguments)

    def wait(self, condition: str) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.session, 20).until(lambda _: self.js(condition))

    def find(self, selector: str):
        from selenium.webdriver.common.by import By

        return self.session.find_element(By.CSS_SELECTOR, selector)

    def press(self, selector: str, *keys: str) -> None:
        self.js("document.querySelector(arguments[0]).focus()", selector)
        self.session.switch_to.active_element.send_keys(*keys)

    def text(self, selector: str) -> str:
        return self.js("return document.querySelector(arguments[0]).textContent", selector)

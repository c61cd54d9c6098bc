"""A page in a real browser, for tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import browser_session


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    yield from browser_session(tmp_path_factory.mktemp("profile"))


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

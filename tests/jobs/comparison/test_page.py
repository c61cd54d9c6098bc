"""The page of a comparison: what is in it, and one zoom for all pictures in a real browser."""

from __future__ import annotations

import re

import numpy as np
import pytest
from browser_page import Page
from conftest import picture
from PIL import Image

from diffbcp_cli.cli.app import run

METHODS = ("telea", "bcp:rank=2:iterations=2")


class Panels(Page):
    """The page; it is ready when the pictures of the first photograph are."""

    READY = "return document.getElementById('panels').dataset.ready === '0'"

    def shown(self):
        return self.js("return [...document.querySelectorAll('.window img')].map((i) => i.style.transform)")


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "photos").mkdir()
    for number, name in enumerate(("a", "b<i>&")):
        pixels = (picture(256, 256, seed=number) * 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{name}.png")
    words = ["compare", str(folder / "photos"), "-o", str(folder / "out"), "--methods", ",".join(METHODS)]
    assert (
        run([*words, "--recipe", "paper-stripe", "--noise", "0.025", "--lpips", "none", "-q", "-j", "1"]) == 0
    )
    return folder / "out" / "compare.html"


@pytest.fixture
def opened(browser, html):
    return Panels(browser, html)


def test_the_page_needs_nothing_else_and_escapes_names(html):
    text = html.read_text(encoding="utf-8")
    without = re.sub(r"data:image/webp;base64,[\w+/=]+", "", text)
    assert re.findall(r"https?://|url\(|@import", without) == []
    assert "default-src 'none'" in text
    assert "b<i>&" not in text


def test_the_figures_of_the_paper_stand_beside_ours(html):
    text = html.read_text(encoding="utf-8")
    assert text.count('<th scope="col" class="number">paper, ') == 2
    assert "All figures of the paper" in text
    assert "27.91" in text
    assert "other photographs" in text


@pytest.mark.browser
def test_all_panels_show_the_same_place(opened):
    from selenium.webdriver import ActionChains

    opened.open()
    assert opened.session.get_log("browser") == []
    titles = opened.js("return [...document.querySelectorAll('.panel span')].map((e) => e.textContent)")
    assert titles == ["truth", "damaged", *METHODS]
    assert len(set(opened.shown())) == 1
    opened.js(
        "document.getElementById('zoom').value = 2; document.getElementById('zoom').dispatchEvent(new Event('input'))"
    )
    zoomed = opened.shown()
    assert len(set(zoomed)) == 1
    assert "scale(4)" in zoomed[0]
    window = opened.find(".panel:nth-child(3) .window")
    ActionChains(opened.session).click_and_hold(window).move_by_offset(30, 20).release().perform()
    moved = opened.shown()
    assert len(set(moved)) == 1
    assert moved[0] != zoomed[0]
    opened.press("body", "0")
    assert "scale(1)" in opened.shown()[0]


@pytest.mark.browser
def test_the_point_under_the_pointer_stays_when_zooming(opened):
    """Where the wheel turns, the same part of the picture is below the pointer before and after."""
    opened.open()
    below = """
const one = document.querySelectorAll('.window')[2], box = one.getBoundingClientRect();
const at = [box.left + 0.3 * box.width, box.top + 0.7 * box.height];
const place = () => {
  const image = one.firstElementChild.getBoundingClientRect();
  return [(at[0] - image.left) / image.width, (at[1] - image.top) / image.height];
};
const before = place();
const turn = {deltaY: -400, clientX: at[0], clientY: at[1], bubbles: true, cancelable: true};
one.dispatchEvent(new WheelEvent('wheel', turn));
return [before, place()];
"""
    before, after = opened.js(below)
    assert before == pytest.approx([0.3, 0.7], abs=1e-3)
    assert after == pytest.approx(before, abs=5e-3)
    assert "scale(1)" not in opened.shown()[0]


@pytest.mark.browser
def test_keys_lead_from_picture_to_picture(opened):
    opened.open()
    opened.press("body", "n")
    opened.wait("return document.getElementById('panels').dataset.ready === '1'")
    assert "b<i>&" in opened.js(
        "const c = document.getElementById('choose'); return c.options[c.selectedIndex].text"
    )
    opened.press("body", "n")
    opened.wait("return document.getElementById('panels').dataset.ready === '0'")


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 390, 768, 1280, 1920])
def test_nothing_sticks_out_and_targets_are_large_enough(opened, width):
    opened.open(width=width, height=844)
    assert opened.js("return document.documentElement.scrollWidth") <= width
    small = (
        "return [...document.querySelectorAll('button, select, summary')].filter((e) => e.offsetParent)"
        ".map((e) => [e.getBoundingClientRect().height, e.id]).filter(([h]) => h < 20)"
    )
    assert opened.js(small) == []
    sizes = opened.js(
        "return [...document.querySelectorAll('.window')].map((e) => e.getBoundingClientRect().width)"
    )
    assert min(sizes) > min(140, 0.35 * width)

"""The page in a real browser: paint, undo, detect, restore, cancel, compare, download; phone, keyboard, dark."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
from browsing import browser_session
from PIL import Image
from web_server import Served, save_mask, save_photo

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def downloads(tmp_path_factory):
    return tmp_path_factory.mktemp("downloads")


@pytest.fixture(scope="module")
def browser(tmp_path_factory, downloads):
    yield from browser_session(tmp_path_factory.mktemp("profile"), downloads)


class Page:
    def __init__(self, session, served: Served) -> None:
        self.session, self.served = session, served

    def open(self, *, width: int = 1280, height: int = 800, scheme: str = "light") -> Page:
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sizes)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.session.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        self.session.get(self.served.address)
        ready = "return Boolean(window.diffbcp && (diffbcp.mask || !diffbcp.items.length) && diffbcp.timer)"
        self.wait(ready)
        return self

    def js(self, code: str, *arguments):
        return self.session.execute_script(code, *arguments)

    def wait(self, condition: str) -> None:
        for _ in range(600):
            if self.js(condition):
                return
            time.sleep(0.1)
        raise AssertionError(f"{condition}: {self.text('toast')}")

    def click(self, name: str) -> None:
        self.js("document.getElementById(arguments[0]).click()", name)

    def text(self, name: str) -> str:
        return self.js("return document.getElementById(arguments[0]).textContent", name)

    def set(self, name: str, value) -> None:
        self.js(
            "const e = document.getElementById(arguments[0]); e.value = arguments[1];"
            "e.dispatchEvent(new Event('input')); e.dispatchEvent(new Event('change'))",
            name,
            value,
        )

    def share(self) -> float:
        return self.js("return diffbcp.share")

    def drag(self, *points: tuple[float, float]) -> None:
        """Press on the first point of the photograph, go to the others, let go."""
        from selenium.webdriver import ActionChains

        stage = self.session.find_element("id", "stage")
        box = self.js("const b = arguments[0].getBoundingClientRect(); return [b.width, b.height]", stage)
        view = self.js("const v = diffbcp.view; return [v.x, v.y, v.scale]")
        places = [
            (round(view[0] + x * view[2] - box[0] / 2), round(view[1] + y * view[2] - box[1] / 2))
            for x, y in points
        ]
        chain = (
            ActionChains(self.session, duration=50)
            .move_to_element_with_offset(stage, *places[0])
            .click_and_hold()
        )
        for place in places[1:]:
            chain = chain.move_to_element_with_offset(stage, *place)
        chain.release().perform()

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        self.js("document.getElementById('stage').focus()")
        ActionChains(self.session, duration=20).send_keys(*keys).perform()

    def press_with(self, held: str, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.session, duration=20).key_down(held).send_keys(*keys).key_up(held).perform()

    def mask(self) -> np.ndarray:
        """What is marked, as the server has it."""
        self.session.execute_async_script("diffbcp.flush().then(arguments[0])")
        item = next(iter(self.served.store.items.values()))
        body = self.served.ask(f"api/photos/{item.id}/mask").body
        return np.asarray(Image.open(io.BytesIO(body)).convert("L")) > 127 if body else np.zeros(0, bool)


@pytest.fixture
def page(served, browser, tmp_path):
    served.store.add(save_photo(tmp_path / "photo.png", 120, 160))
    found = Page(browser, served).open()
    yield found
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    browser.get("about:blank")


def test_painting_undoing_and_every_tool(page):
    assert page.share() == 0
    page.drag((40, 40), (80, 60))
    one = page.share()
    mask = page.mask()
    assert mask[40, 40]
    assert mask[50, 60]
    assert not mask[100, 20]
    page.click("undo")
    assert page.share() == 0
    page.click("redo")
    assert page.share() == one
    page.press("r")
    page.drag((100, 80), (140, 110))
    assert page.mask()[82:108, 102:138].all()
    page.press("e")
    page.drag((40, 40), (80, 60))
    assert not page.mask()[50, 60]
    page.press("s")
    page.drag((10, 100), (60, 110))
    assert page.mask()[105, 35]
    page.press("l")
    page.drag((100, 10), (140, 10), (140, 40), (100, 40), (100, 12))
    assert page.mask()[25, 120]
    for _ in range(10):
        page.click("undo")
    assert page.share() == 0
    page.press("i")
    assert page.share() == 1
    page.click("undo")
    page.press("w")
    page.drag((20, 20))
    assert 0 < page.share() < 1


def test_the_mask_grows_shrinks_and_is_loaded_and_saved(page, downloads, tmp_path):
    page.session.find_element("id", "mask-file").send_keys(str(save_mask(tmp_path / "m.png", 120, 160)))
    page.wait("return diffbcp.share > 0")
    before = page.mask()
    assert before[10:20, 20:40].all()
    assert before.sum() == 200
    share = page.share()
    page.click("grow")
    page.wait(f"return diffbcp.share > {share}")
    assert page.mask()[9, 30]
    page.click("shrink")
    page.wait("return Math.abs(diffbcp.share * 120 * 160 - 200) < 0.5")
    page.click("save-mask")
    path = downloads / "photo.mask.png"
    wait_for(path)
    assert np.array_equal(np.asarray(Image.open(path))[..., 0] > 127, before)
    path.unlink()
    page.session.find_element("id", "mask-file").send_keys(str(save_mask(tmp_path / "bad.png", 60, 60)))
    page.wait("return !document.getElementById('toast').hidden")
    assert "60x60" in page.text("toast-text")
    assert page.mask().sum() == 200
    page.session.get_log("browser")  # the refusal is there, too


def wait_for(path: Path) -> None:
    for _ in range(200):
        if path.exists() and path.stat().st_size:
            return
        time.sleep(0.05)
    raise AssertionError(f"{path} was not downloaded")


def dusty(path: Path) -> Path:
    y, x = np.mgrid[:256, :320] / 256
    light = (120 + 40 * np.sin(3 * x) * np.cos(4 * y))[..., None] * np.asarray([1, 0.95, 0.85])
    picture = np.ascontiguousarray(light + 2 * np.random.default_rng(0).standard_normal(light.shape))
    for row, column in np.random.default_rng(1).integers(20, 230, (12, 2)):
        cv2.circle(picture, (int(column), int(row)), 3, (250, 250, 245), -1, cv2.LINE_AA)
    Image.fromarray(picture.clip(0, 255).astype(np.uint8)).save(path)
    return path


def test_a_run_that_ends_before_the_page_has_seen_it_is_shown(served, browser, tmp_path):
    served.store.add(dusty(tmp_path / "dusty.jpg"))
    page = Page(browser, served).open()
    page.click("find")
    page.wait("return diffbcp.share > 0")
    page.set("method", "telea")
    page.js(
        "clearTimeout(diffbcp.timer); diffbcp.poll = () => {}; diffbcp.look = diffbcp.load; diffbcp.load = () => {}"
    )
    page.click("restore")
    for _ in range(300):
        if any(run["status"] == "done" for run in served.ask("api/state").json["runs"]):
            break
        time.sleep(0.1)
    page.js("return diffbcp.look()")
    page.wait("return document.body.dataset.mode === 'compare'")


def test_damage_is_found_restored_compared_and_downloaded(served, browser, tmp_path, downloads):
    served.store.add(dusty(tmp_path / "dusty.jpg"))
    page = Page(browser, served).open()
    page.click("find")
    page.wait("return diffbcp.share > 0")
    assert "dust" in page.text("found")
    page.click("undo")
    assert page.share() == 0
    page.click("find")
    page.wait("return diffbcp.share > 0")
    page.set("method", "telea")
    page.click("restore")
    page.wait("return document.body.dataset.mode === 'compare'")
    divider = "return Number(document.getElementById('divider').getAttribute('aria-valuenow'))"
    assert page.js(divider) == 50
    page.js("document.getElementById('divider').focus()")
    page.session.switch_to.active_element.send_keys("\ue014\ue014")  # right, right
    assert page.js(divider) == 54
    handle = page.session.find_element("css selector", "#divider span")
    from selenium.webdriver import ActionChains

    ActionChains(page.session).click_and_hold(handle).move_by_offset(-200, 0).release().perform()
    assert page.js(divider) < 40
    page.click("download")
    file = downloads / "dusty-1.jpg"
    wait_for(file)
    words = shlex.split(page.text("command"))
    subprocess.run([sys.executable, "-m", "diffbcp_cli", *words[1:], "-q"], check=True)
    assert file.read_bytes() == Path(words[words.index("-o") + 1]).read_bytes()
    item = next(iter(served.store.items))
    truth = (tmp_path / "dusty.jpg").read_bytes()
    served.ask(f"api/photos/{item}/truth?name=t.jpg", method="PUT", body=truth)
    page.js("return diffbcp.load()")
    page.wait("return !document.querySelector('[data-layer=error]').disabled")
    page.js("document.querySelector('[data-layer=error]').click()")
    page.wait("return !document.getElementById('scale').hidden")
    page.press("c")
    assert page.js("return document.body.dataset.mode") == "mask"
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    browser.get("about:blank")


def test_a_run_is_watched_and_cancelled_and_another_tab_sees_it(page):
    page.drag((40, 40), (80, 60))
    page.js("diffbcp.flush()")
    page.set("method", "dps")  # slow enough to be cancelled
    page.click("restore")
    page.wait("return diffbcp.activeRun()?.live?.stage === 'sampling'")
    assert not page.js("return document.getElementById('progress').hidden")
    first = page.session.current_window_handle
    page.session.switch_to.new_window("tab")
    page.open()
    page.wait("return Boolean(diffbcp.activeRun())")
    assert page.share() > 0
    page.session.close()
    page.session.switch_to.window(first)
    page.click("cancel")
    page.wait("return !diffbcp.activeRun()")
    page.wait("return diffbcp.runs[0].status === 'interrupted'")
    page.wait("return document.body.dataset.mode === 'compare'")
    assert not page.js("return document.getElementById('again').hidden")


def test_two_tabs_on_one_photograph_lose_nothing(page):
    first = page.session.current_window_handle
    page.session.switch_to.new_window("tab")
    page.open()
    second = page.session.current_window_handle
    page.drag((20, 20), (60, 20))
    assert page.mask()[20, 40]
    page.session.switch_to.window(first)
    page.js("return diffbcp.load()")  # this tab hears of it
    page.wait("return diffbcp.share > 0")
    page.session.switch_to.window(second)
    page.js("diffbcp.load = async () => {}")  # and this one of nothing, for a while
    page.session.switch_to.window(first)
    page.drag((100, 100), (140, 100))
    assert page.mask()[100, 120]
    page.session.switch_to.window(second)
    page.drag((20, 60), (60, 60))
    both = page.mask()
    assert both[20, 40]
    assert both[100, 120]
    assert both[60, 40]
    page.click("undo")  # what the other tab made is a step of its own
    page.click("undo")
    assert not page.mask()[60, 40]
    said = [entry["message"] for entry in page.session.get_log("browser") if entry["level"] == "SEVERE"]
    assert ["409" in message for message in said] == [True]  # it was told, once, that it had an old mask
    page.session.close()
    page.session.switch_to.window(first)


def test_a_pen_presses_and_two_fingers_zoom(page):
    from selenium.webdriver import ActionChains

    def stroke(force: float) -> float:
        box = page.js("const b = document.getElementById('stage').getBoundingClientRect(); return [b.x, b.y]")
        view = page.js("const v = diffbcp.view; return [v.x, v.y, v.scale]")
        for kind, x in (("mousePressed", 40), ("mouseMoved", 60), ("mouseMoved", 80), ("mouseReleased", 80)):
            at = {"x": box[0] + view[0] + x * view[2], "y": box[1] + view[1] + 60 * view[2]}
            pen = {"type": kind, "button": "left", "buttons": 1, "clickCount": 1, "pointerType": "pen"}
            page.session.execute_cdp_cmd("Input.dispatchMouseEvent", {**pen, **at, "force": force})
        share = page.share()
        page.click("undo")
        return share

    light, full = stroke(0.2), stroke(1.0)
    assert 0 < light < 0.8 * full
    before = page.js("return diffbcp.view.scale")
    page.session.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})
    for kind, apart in (("touchStart", 40), ("touchMove", 46), ("touchMove", 50)):
        points = [{"x": 400 - apart, "y": 400, "id": 0}, {"x": 400 + apart, "y": 400, "id": 1}]
        page.session.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    page.session.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.session.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})
    assert page.js("return diffbcp.view.scale") == pytest.approx(1.25 * before, rel=0.05)
    assert page.share() == 0
    ActionChains(page.session).reset_actions()


def test_all_methods_are_shown_side_by_side_at_the_same_place(page):
    page.drag((40, 40), (80, 60))
    page.js("document.getElementById('fast').checked = true")  # which says nothing to these methods
    for method in ("telea", "nlm", "navier-stokes"):
        page.set("method", method)
        page.js("return diffbcp.restore()")
        done = f"diffbcp.runs.some((run) => run.status === 'done' && run.options.method === '{method}')"
        page.wait(f"return {done} && diffbcp.mode === 'compare'")
    assert not page.js("return document.getElementById('divider').hidden")
    assert [run["options"].get("preset") for run in page.served.ask("api/state").json["runs"]] == [None] * 3
    page.click("beside")
    tags = "return [...document.querySelectorAll('#tags .tag')].map((tag) => tag.textContent)"
    page.wait(f"return ({tags.removeprefix('return ')}).length === 4")
    assert page.js(tags) == ["Before", "telea", "nlm", "navier-stokes"]
    assert page.js("return document.getElementById('divider').hidden")
    page.js("diffbcp.view.zoom(3)")
    page.wait("return !diffbcp.view.pending")
    same = """
      const {view} = diffbcp, wide = Math.round(view.wide), tall = Math.round(view.tall);
      const at = (k) => view.canvas.getContext('2d').getImageData(
        (k % view.columns) * wide + 4, Math.floor(k / view.columns) * tall + 4, 60, 60).data;
      const gap = (a, b) => a.reduce((sum, v, i) => sum + Math.abs(v - b[i]), 0) / a.length;
      return [1, 2, 3].map((k) => gap(at(0), at(k)));
    """
    assert max(page.js(same)) < 6  # only what is marked has changed
    page.click("beside")
    page.wait("return !document.getElementById('divider').hidden && !document.querySelector('#tags .tag')")


def test_everything_by_keyboard(page):
    from selenium.webdriver import Keys

    page.press("b", Keys.ARROW_DOWN, Keys.ENTER)
    dab = page.share()
    assert dab > 0
    page.press_with(Keys.SHIFT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.share() > dab
    page.press("r", Keys.ENTER, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_LEFT, Keys.ENTER)
    rectangle = page.share()
    assert rectangle > dab
    scale = page.js("return diffbcp.view.scale")
    page.press("+")
    assert page.js("return diffbcp.view.scale") == pytest.approx(min(8, 1.5 * scale))
    page.press("1")
    assert page.js("return diffbcp.view.scale") == pytest.approx(1)
    for _ in range(12):
        page.press("+")
    assert page.js("return diffbcp.view.scale") == 8
    page.press("0")
    page.press("?")
    assert page.js("return document.getElementById('keys').open")
    page.session.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.press(Keys.DELETE)
    assert page.share() == 0
    page.press_with(Keys.CONTROL, "z")
    assert page.share() == rectangle
    page.press_with(Keys.CONTROL, "y")
    page.press("s", Keys.ENTER, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ENTER)
    line = page.share()
    assert line > 0
    page.press("l")
    for key in (Keys.ARROW_UP, Keys.ARROW_LEFT, Keys.ARROW_DOWN, Keys.ARROW_RIGHT):
        page.press(Keys.ENTER, key, key, key)
    page.press(Keys.ENTER)
    assert page.share() > line
    page.press(Keys.DELETE, "w", Keys.ENTER)
    page.wait("return diffbcp.share > 0")
    page.press("e", Keys.ENTER)
    page.press("g")
    page.wait("return diffbcp.mask.past.at(-1)?.label === 'resize'")
    page.press(Keys.DELETE, "b", Keys.ENTER)
    page.set("method", "telea")
    page.press_with(Keys.CONTROL, Keys.ENTER)
    page.wait("return document.body.dataset.mode === 'compare'")
    page.press("c")
    assert page.js("return document.body.dataset.mode") == "mask"
    unnamed = (
        "return [...document.querySelectorAll('button, select, input, [role=slider], a[href]')]"
        ".filter((e) => !(e.ariaLabel || e.textContent.trim() || e.closest('label') || e.title))"
        ".map((e) => e.outerHTML)"
    )
    assert page.js(unnamed) == []


CONTRAST = """
const rgb = (text) => { const c = document.createElement('canvas').getContext('2d'); c.fillStyle = text;
  c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data]; };
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (e) => { for (; e; e = e.parentElement) {
  const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255, 255]; };
return [...document.querySelectorAll('h1,h2,p,label,button,summary,output,small,dt,dd')]
  .filter((e) => e.offsetParent && e.textContent.trim() && !e.disabled && !e.closest('#stage'))
  .map((e) => { const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), e.outerHTML.slice(0, 90)]; }).sort((x, y) => x[0] - y[0])[0];
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 820, 1280, 3840])
def test_it_fits_any_screen_and_can_be_read(page, scheme, width):
    page.open(width=width, height=844 if width < 600 else 1000, scheme=scheme)
    assert page.js("return document.documentElement.scrollWidth") <= width
    stage = page.js(
        "const b = document.getElementById('stage').getBoundingClientRect(); return [b.left, b.right, b.height]"
    )
    assert stage[0] >= 0
    assert stage[1] <= width
    assert stage[2] > 300
    least, where = page.js(CONTRAST)
    assert least >= 4.5, where
    small = (
        "return [...document.querySelectorAll('button, select')].filter((e) => e.offsetParent)"
        ".filter((e) => e.getBoundingClientRect().height < 24).map((e) => e.outerHTML)"
    )
    assert page.js(small) == []
    dark = page.js("return getComputedStyle(document.body).backgroundColor") != "rgb(246, 245, 242)"
    assert dark == (scheme == "dark")


def test_a_folder_has_thumbnails_with_their_state_and_is_restored_whole(served, browser, tmp_path):
    for number in range(3):
        served.store.add(save_photo(tmp_path / f"{number}.png", seed=number))
    page = Page(browser, served).open()
    names = "return [...document.querySelectorAll('#strip button')].map((b) => b.ariaLabel)"
    assert page.js(names) == ["0.png", "1.png", "2.png"]
    page.press("n")
    page.wait("return document.title.startsWith('1.png')")
    page.set("method", "nlm")
    page.click("all")
    page.wait("return diffbcp.runs.length === 3 && diffbcp.runs.every((run) => run.status === 'done')")
    every = "document.querySelectorAll('#strip button')"
    page.wait(f"return [...{every}].every((b) => b.ariaLabel.endsWith(', done'))")
    assert page.js(names) == ["0.png, done", "1.png, done", "2.png, done"]
    browser.get("about:blank")


def test_nothing_is_fetched_from_elsewhere_and_names_cannot_become_markup(served, browser, tmp_path):
    name = "<img src=x onerror=document.title='bad'>.png"
    served.store.add(save_photo(tmp_path / name))
    page = Page(browser, served).open()
    assert page.text("name").startswith("<img")
    loaded = page.js("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert all(one.startswith((served.address, "blob:", "data:")) for one in loaded), loaded
    assert page.js("return document.title").startswith("<img")
    assert json.loads(json.dumps(page.js("return document.images.length"))) == 1  # the mark in the corner
    browser.get("about:blank")

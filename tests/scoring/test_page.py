"""The report page: what is in the file, and how it behaves in a real browser."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from browser_page import Page
from eval_data import levels, truth_picture
from PIL import Image

from diffbcp_cli.scoring.report import View, page, side_for
from diffbcp_cli.scoring.report.charts import nice_ticks

SHAPE = (48, 64, 3)
NAMES = ("alley", "bridge", "<b>&'\"</script>")
METHODS = ("ours", "theirs")


def view(number: int, methods: tuple[str, ...] = METHODS) -> View:
    """Pictures on the 8-bit grid, so that the page can be held to exact numbers."""
    rng = np.random.default_rng(number)
    truth = levels(truth_picture(number, SHAPE)) / np.float32(255)
    before = truth * (rng.random((*SHAPE[:2], 1)) < 0.5)
    results = {m: levels(truth + rng.normal(0, 0.05 * (k + 1), SHAPE)) / 255 for k, m in enumerate(methods)}
    std = np.tile(np.linspace(0.0, 0.2, SHAPE[1])[None, :, None], (SHAPE[0], 1, 3))
    return View(
        NAMES[number],
        truth.astype(np.float32),
        before.astype(np.float32),
        {m: picture.astype(np.float32) for m, picture in results.items()},
        {m: std.astype(np.float32) for m in methods},
    )


def body(offset: float) -> dict:
    images = [
        {
            "name": name,
            "psnr": 30.0 - 2.0 * k + offset,
            "ssim": None if k == 1 else 0.9 - 0.1 * k,
            "calibration": {"whole": {"coverage": {"90": 0.8 + 0.05 * k}, "ause": 0.1}},
        }
        for k, name in enumerate(NAMES)
    ]
    curve = [0.05 * step for step in range(1, 20)]
    fall = [1.0 - 0.04 * step for step in range(20)]
    return {
        "count": 3,
        "mean": {
            "psnr": 28.0 + offset,
            "ssim": 0.8,
            "calibration": {"whole": {"coverage": {"90": 0.85}, "ause": 0.1}},
        },
        "interval": {"psnr": [26.0, 30.0], "ssim": [0.7, 0.9]},
        "curves": {
            "levels": curve,
            "removed": [0.05 * step for step in range(20)],
            "whole": {"reliability": [0.9 * value for value in curve], "by_std": fall, "by_error": fall},
        },
        "images": images,
        "failed": [{"name": "broken", "error": "cannot be <read>", "hint": None}],
        "unmatched": {"results": [], "truth": []},
    }


def document(methods: tuple[str, ...] = METHODS) -> dict:
    head = {"conventions": {"psnr": "data range 1"}, "not_computed": {"lpips": "no weights; fetch them"}}
    if len(methods) == 1:
        return head | body(0.0)
    bodies = {name: body(-3.0 * k) for k, name in enumerate(methods)}
    return head | {"methods": bodies, "differences": {}}


@pytest.fixture(scope="module")
def html() -> str:
    return page(document(), [view(k) for k in range(3)])


class Links(HTMLParser):
    """Collects every address that a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for key, value in attrs if key in ("src", "href", "action", "data") and value]


def data_of(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])


def test_the_page_refers_to_nothing_outside_itself(html):
    links = Links()
    links.feed(html)
    assert [link for link in links.found if not link.startswith(("#", "data:"))] == []
    without_pictures = re.sub(r"data:image/webp;base64,[\w+/=]+", "", html)
    assert re.findall(r"https?://|url\(|@import", without_pictures) == []
    assert "default-src 'none'" in html


def test_names_and_reasons_are_escaped(html):
    assert NAMES[2] not in html
    assert "&lt;b&gt;&amp;&#39;&#34;&lt;/script&gt;" in html
    assert "cannot be &lt;read&gt;" in html
    assert data_of(html)["images"][2]["name"] == NAMES[2]
    assert "{{" not in re.sub(r'id="data">.*', "", html, flags=re.S)


def test_pictures_are_embedded_without_loss(html):
    first = data_of(html)["images"][0]
    stored = base64.b64decode(first["layers"][1]["mean"].split(",")[1])
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(stored))), levels(view(0).results["theirs"]))
    assert first["layers"][0]["std_top"] == pytest.approx(0.2)


def test_what_is_not_computed_and_not_scored_is_said(html):
    assert "LPIPS was not computed: no weights; fetch them" in html
    assert "broken (ours) was not scored" in html


def test_large_pictures_are_shown_smaller_and_say_so():
    large = page(document(), [view(0)], side=32)
    entry = data_of(large)["images"][0]
    assert (entry["width"], entry["height"], entry["full"]) == (32, 24, [64, 48])
    assert side_for(1) == 1024
    assert side_for(10_000) == 256


def test_one_set_without_pictures_or_uncertainty_is_a_page_too():
    plain = document(("only",))
    plain["curves"] = {}
    html = page(plain, [])
    assert "nothing to check" in html
    assert 'id="pictures" aria-labelledby="pictures-title" hidden' in html
    assert "<table>" in html


def test_ticks_are_round_and_reach_around_the_values():
    assert nice_ticks(20.3, 28.9, 4) == [20.0, 22.5, 25.0, 27.5, 30.0]
    assert nice_ticks(0.0, 1.0, 4) == [0.0, 0.25, 0.5, 0.75, 1.0]
    flat = nice_ticks(3.0, 3.0, 4)
    assert flat[0] < 3.0 < flat[-1]


# ---- in a browser ----


class Report(Page):
    """The report page; it is ready when the first picture is."""

    READY = "return document.getElementById('viewer').dataset.ready === '0'"

    def lens(self) -> dict[str, str]:
        """What the lens reads: by layer, the numbers under it."""
        pairs = self.js(
            "return [...document.querySelectorAll('#lens figure')]"
            ".map((f) => [f.querySelector('figcaption').textContent, f.querySelector('small').textContent])"
        )
        return dict(pairs)


@pytest.fixture(scope="module")
def opened(browser, html, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html, encoding="utf-8")
    return Report(browser, path)


@pytest.mark.browser
def test_the_page_opens_without_errors_and_without_the_network(opened):
    opened.open()
    assert opened.session.get_log("browser") == []
    loaded = opened.js("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in loaded if not name.startswith("data:")] == []
    assert opened.text("#name") == "alley"


@pytest.mark.browser
def test_the_divider_follows_keys_and_the_pointer(opened):
    from selenium.webdriver import ActionChains, Keys

    opened.open()
    cut = "return Number(document.getElementById('divider').getAttribute('aria-valuenow'))"
    assert opened.js(cut) == 50
    opened.press("#divider", Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert opened.js(cut) == 54
    opened.press("#divider", Keys.HOME)
    assert opened.js(cut) == 0
    clip = opened.js("return getComputedStyle(document.getElementById('over')).clipPath")
    assert clip.endswith(" 0%)")
    opened.press("#divider", Keys.END)
    width = opened.js("return document.getElementById('stage').getBoundingClientRect().width")
    handle = opened.find("#divider span")
    ActionChains(opened.session).click_and_hold(handle).move_by_offset(
        -round(0.75 * width), 5
    ).release().perform()
    assert opened.js(cut) == pytest.approx(25, abs=2)


@pytest.mark.browser
def test_the_lens_reads_the_same_pixel_of_every_layer(opened):
    from selenium.webdriver import Keys

    opened.open()
    opened.js("document.getElementById('stage').focus()")
    position = opened.text("#position")
    opened.press("#stage", Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert opened.text("#position") != position
    column, row = map(int, re.findall(r"\d+", opened.text("#position"))[:2])
    shown, read = view(0), opened.lens()
    assert read["Truth"] == " ".join(map(str, levels(shown.truth)[row, column]))
    assert read["Before"] == " ".join(map(str, levels(shown.before)[row, column]))
    assert read["Result, theirs"] == " ".join(map(str, levels(shown.results["theirs"])[row, column]))
    error = np.abs(shown.results["ours"] - shown.truth).mean(axis=2)[row, column]
    assert float(read["Error, ours"]) == pytest.approx(error, abs=0.001)
    assert float(read["Uncertainty, ours"]) == pytest.approx(shown.stds["ours"][row, column, 0], abs=0.001)


@pytest.mark.browser
def test_the_stage_shows_the_layers_that_are_chosen(opened):
    opened.open()
    pixel = (
        "const c = document.getElementById(arguments[0]);"
        "return [...c.getContext('2d').getImageData(arguments[1], arguments[2], 1, 1).data].slice(0, 3)"
    )
    shown = view(0)
    assert opened.js(pixel, "under", 20, 10) == levels(shown.before)[10, 20].tolist()
    assert opened.js(pixel, "over", 20, 10) == levels(shown.results["ours"])[10, 20].tolist()
    opened.press("body", "2")
    assert opened.js(pixel, "under", 20, 10) == levels(shown.truth)[10, 20].tolist()
    opened.press("body", "3")
    assert opened.text("#tag-right") == "Result, theirs"
    assert opened.js("return document.getElementById('scale').hidden")
    opened.press("body", "4")
    assert opened.text("#tag-right") == "Uncertainty, ours"
    assert not opened.js("return document.getElementById('scale').hidden")
    left, right = opened.js(pixel, "over", 1, 10), opened.js(pixel, "over", 62, 10)
    assert right[0] > left[0]  # hotter where the std is larger


@pytest.mark.browser
def test_keys_buttons_and_rows_lead_from_picture_to_picture(opened):
    opened.open()
    opened.press("body", "n")
    opened.wait("return document.getElementById('name').textContent === 'bridge'")
    opened.find("#next").click()
    opened.wait(f"return document.getElementById('name').textContent === {json.dumps(NAMES[2])}")
    opened.press("body", "n")
    opened.wait("return document.getElementById('name').textContent === 'alley'")
    opened.js("document.querySelector('#all tbody tr:nth-child(2) button').click()")
    opened.wait("return document.getElementById('name').textContent === 'bridge'")
    current = (
        "return [...document.querySelectorAll('#strip button')].map((b) => b.getAttribute('aria-current'))"
    )
    assert opened.js(current) == ["false", "true", "false"]
    assert "28.00" in opened.text("#numbers")


@pytest.mark.browser
def test_the_table_sorts_both_ways_and_keeps_blanks_last(opened):
    opened.open()
    column = (
        "return [...document.querySelectorAll('#all tbody tr')].map((r) => r.cells[arguments[0]].textContent)"
    )

    def sort(place: int) -> list[str]:
        opened.js(f"document.querySelectorAll('#all thead button')[{place}].click()")
        return opened.js(column, place)

    down = sort(2)
    assert [float(text) for text in down] == sorted(map(float, down), reverse=True)
    up = sort(2)
    assert up == down[::-1]
    assert opened.js("return document.querySelectorAll('#all [aria-sort]').length") == 1
    assert sort(3)[-2:] == ["–", "–"]
    assert sort(3)[-2:] == ["–", "–"]
    assert sort(0)[0] == NAMES[2]


CONTRAST = """
const rgb = (text) => {
  const canvas = document.createElement('canvas').getContext('2d');
  canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const light = (c) => c.map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const c = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$|\\/ 0\\)$|transparent/.test(c)) return c;
  }
  return 'white';
};
return [...document.querySelectorAll('h1,h2,h3,.hint,.lede,td,th,dd,.interval,figcaption,nav a')]
  .filter((e) => e.offsetParent && e.textContent.trim())
  .map((e) => {
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(rgb(ground(e)))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), e.className + ' ' + e.tagName];
  })
  .sort((x, y) => x[0] - y[0])[0];
"""


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(opened, scheme):
    opened.open(scheme=scheme)
    least, where = opened.js(CONTRAST)
    assert least >= 4.5, where
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = opened.js(ground)
    opened.find("#theme").click()
    assert opened.js(ground) != before


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 390, 768, 1280, 1920])
def test_nothing_sticks_out_at_any_width_and_targets_are_large_enough(opened, width):
    opened.open(width=width, height=844)
    assert opened.js("return document.documentElement.scrollWidth") <= width
    inside = (
        "const b = document.getElementById('stage').getBoundingClientRect(); return [b.x, b.right, b.width]"
    )
    left, right, size = opened.js(inside)
    assert left >= 0
    assert right <= width
    assert size > 0.4 * min(width, 900)
    hidden = (
        "return ['nav', '#presets'].map((e) => document.querySelector(e))"
        ".map((e) => e.scrollWidth - e.clientWidth)"
    )
    assert opened.js(hidden) == [0, 0]
    small = (
        "return [...document.querySelectorAll('button, select, [role=slider]')].filter((e) => e.offsetParent)"
        ".map((e) => [e.getBoundingClientRect().height, e.id || e.textContent]).filter(([h]) => h < 20)"
    )
    assert opened.js(small) == []


@pytest.mark.browser
def test_everything_can_be_reached_with_the_tab_key(opened):
    opened.open()
    reached = (
        "return [...document.querySelectorAll('a[href], button, select, input, [tabindex=\"0\"]')]"
        ".filter((e) => e.offsetParent && e.tabIndex >= 0).map((e) => e.id).filter(Boolean)"
    )
    assert {"theme", "previous", "next", "stage", "divider", "choose-left", "choose-right", "zoom"} <= set(
        opened.js(reached)
    )
    unnamed = (
        "return [...document.querySelectorAll('button, select, input, [role=slider], svg[role=img]')]"
        ".filter((e) => !(e.ariaLabel || e.textContent.trim() || e.closest('label') || e.title))"
        ".map((e) => e.outerHTML)"
    )
    assert opened.js(unnamed) == []


OVERLAPS = """
const boxes = (svg, selector) =>
  [...svg.querySelectorAll(selector)].map((e) => [e.textContent, e.getBoundingClientRect()]);
return [...document.querySelectorAll('#calibration svg')].flatMap((svg) =>
  boxes(svg, '.label').flatMap(([title, a]) => boxes(svg, '.tick')
    .filter(([, b]) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
    .map(([tick]) => `${title} and ${tick}`)));
"""


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_axis_titles_keep_clear_of_tick_labels(opened, width):
    opened.open(width=width)
    assert opened.js("return document.querySelectorAll('#calibration .label').length") == 4
    assert opened.js(OVERLAPS) == []

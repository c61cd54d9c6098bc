"""One tiny evaluation whose output is kept: `python tests/golden_eval.py` records it anew.

Two methods on three photographs with masks. One method has draws, and one result has the wrong size. What is kept:
the JSON document, the CSV, the Markdown and the page. Some names need escaping.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import re
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from eval_data import make_set, save, truth_picture
from golden_runs import kind_of_machine
from PIL import Image

from diffbcp_cli import __version__
from diffbcp_cli.cli import app

HOME = Path(__file__).parent / "data" / "golden-eval"
NAMES = ("a<b>&'c", "b|d", "sub/c")
COMMAND = "eval ours theirs --truth truth --mask masks --lpips none --seed 3 --quiet --json"
FILES = "--csv eval.csv --markdown eval.md --html eval.html --html-images 2"


def run(folder: Path) -> dict[str, str]:
    """Evaluate in `folder`: by file name, what was written; `eval.json` is what was printed."""
    make_set(folder, NAMES, method="ours", noise=0.03, draws=6)
    make_set(folder, NAMES, method="theirs", noise=0.06)
    save(folder / "theirs" / "b|d.mean.png", truth_picture(0, (40, 33, 3)))
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        assert app.run([*COMMAND.split(), *FILES.split()]) == 1  # one pair could not be scored
    printed.seek(0)
    texts = {
        name: (folder / name).read_text(encoding="utf-8") for name in ("eval.csv", "eval.md", "eval.html")
    }
    return {"eval.json": printed.read(), **texts}


class _Flat(HTMLParser):
    """A page as a list of its tags, attributes and texts, without regard to white space and spelling of entities."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        self.lines.append(" ".join([tag, *(f"{key}={value!r}" for key, value in attrs)]))

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""
        self.lines.append("/" + tag)

    def handle_data(self, data: str) -> None:
        if self.inside != "style" and data.strip():
            self.lines.append(" ".join(data.split()))


def flat(html: str) -> list[str]:
    """What a browser makes of the page: tags, texts and data. Style and script are left out, pictures are hashes."""
    parser = _Flat()
    parser.feed(re.sub(r"<script>.*?</script>", "", html, flags=re.S).replace(__version__, "VERSION"))
    data = re.search(r'id="data">(.*?)</script>', html, re.S)
    assert data is not None
    lines = [line for line in parser.lines if not line.startswith("{")]
    return [*lines, *json.dumps(_hashed(json.loads(data[1])), indent=1).splitlines()]


def _hashed(value: Any) -> Any:
    """The same data with every picture replaced by a hash of its pixels; thumbnails are lossy, so by their size."""
    if isinstance(value, dict):
        return {key: "thumbnail" if key == "thumbnail" else _hashed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_hashed(one) for one in value]
    if isinstance(value, str) and value.startswith("data:"):
        with Image.open(io.BytesIO(base64.b64decode(value.partition(",")[2]))) as image:
            return hashlib.sha256(np.asarray(image).tobytes()).hexdigest()[:16]
    return value


def main() -> None:
    """Record the evaluation."""
    HOME.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        texts = run(Path(folder))
    texts["eval.html"] = "\n".join(flat(texts["eval.html"])) + "\n"
    texts["machine.json"] = json.dumps(kind_of_machine()) + "\n"
    for name, text in texts.items():
        (HOME / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

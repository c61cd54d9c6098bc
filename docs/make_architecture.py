"""Draw the tree of the package, and write its protocols into docs/explanation/architecture.md, from the code itself.

Run it as python docs/make_architecture.py [--check].
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

from layers import FILES, LEVELS, ROOT, imports, longest_chain, place  # noqa: E402

PAGE, DRAWING = HERE / "explanation" / "architecture.md", HERE / "images" / "architecture.svg"
PROTOCOLS = {
    "problem": [("problem.py", "Problem"), ("problem.py", "Operator")],
    "prior": [("priors/base.py", "Denoises"), ("priors/base.py", "Prior"), ("priors/base.py", "Traits")],
    "method": [("methods/base.py", "Method"), ("methods/base.py", "Info")],
    "estimator": [
        ("run/posterior.py", "Posterior"),
        ("estimators/base.py", "Estimator"),
        ("problem.py", "Restoration"),
    ],
}
BASE = "base"
COLUMNS = {
    "operators": 1,
    "scoring": 2,
    "photos": 2,
    "training": 3,
    "priors": 3,
}  # the others: the first free one
WIDTH, GAP, ROW_GAP, LEFT, LINE = 208, 22, 40, 34, 15
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .name { font-weight: 600; font-size: 14px }
  .level { fill: #8c959f; font-size: 13px }
  rect { fill: #f6f8fa; stroke: #57606a; rx: 6 }
  path { fill: none; stroke: #8c959f; stroke-width: 1.4; marker-end: url(#head) }
"""


def modules_of(layer: str) -> list[str]:
    """The names of a package's modules; a sub-package counts as one, and a single module has none."""
    inside = [path.relative_to(ROOT).parts for path in FILES if place(path) == layer]
    names = {
        parts[1].removesuffix(".py") + ("/" if len(parts) > 2 else "") for parts in inside if len(parts) > 1
    }
    return sorted(names - {"__init__"})


def arrows() -> list[tuple[str, str]]:
    """Who imports whom, without what follows from other arrows; the lowest level is one thing."""
    base = set(LEVELS[0])
    below = {
        name: {BASE if other in base else other for other in found}
        for name, found in imports().items()
        if name not in base
    }

    def reach(name: str) -> set[str]:
        return below.get(name, set()).union(*(reach(other) for other in below.get(name, ())))

    return [
        (name, other)
        for name, found in below.items()
        for other in sorted(found)
        if not any(other in reach(between) for between in found - {other})
    ]


def boxes() -> tuple[dict[str, tuple[int, int, int, int]], list[str], int]:
    """Where each package is drawn (left, top, width, height), the boxes as SVG, and the height of the drawing."""
    top, places, drawn = 12, {}, []
    for number in range(len(LEVELS), 1, -1):
        texts = {name: textwrap.wrap(", ".join(modules_of(name)), 31) for name in LEVELS[number - 1]}
        height = 32 + LINE * max(map(len, texts.values()))
        taken = {COLUMNS[name] for name in texts if name in COLUMNS}
        for name, lines in texts.items():
            column = COLUMNS[name] if name in COLUMNS else next(i for i in range(9) if i not in taken)
            taken.add(column)
            left = LEFT + column * (WIDTH + GAP)
            places[name] = (left, top, WIDTH, height)
            drawn += _box(left, top, WIDTH, height, name + "/", lines)
        drawn.append(f'<text class="level" x="6" y="{top + 21}">{number}</text>')
        top += height + ROW_GAP
    whole = 4 * (WIDTH + GAP) - GAP
    places[BASE] = (LEFT, top, whole, 36)
    drawn += _box(LEFT, top, whole, 36, " · ".join(LEVELS[0]), [])
    drawn.append(f'<text class="level" x="6" y="{top + 21}">1</text>')
    return places, drawn, top + 48


def _box(left: int, top: int, width: int, height: int, name: str, lines: list[str]) -> list[str]:
    texts = [f'<text class="name" x="{left + 10}" y="{top + 21}">{escape(name)}</text>']
    for index, line in enumerate(lines):
        texts.append(f'<text x="{left + 10}" y="{top + 39 + LINE * index}">{escape(line)}</text>')
    return [f'<rect x="{left}" y="{top}" width="{width}" height="{height}"/>', *texts]


def drawing() -> str:
    """The packages in their levels, an arrow for each import that does not follow from others."""
    places, drawn, height = boxes()
    found = sorted(
        arrows(), key=lambda arrow: places[arrow[0]][0]
    )  # from left to right, so that few of them cross
    lines = []
    for name, other in found:
        left, top, width, tall = places[name]
        to_left, to_top, to_width, _ = places[other]
        x, y = left + width // 2, top + tall
        beside = [one for one, end in found if end == other]
        shift = 24 * (2 * beside.index(name) + 1 - len(beside)) // 2
        to_x = x if other == BASE else to_left + to_width // 2 + shift
        turn = f"C {x} {y + 26}, {to_x} {y + 4}, {to_x} {y + 32} " if to_x != x else ""
        lines.append(f'<path d="M {x} {y} {turn}L {to_x} {to_top - 2}"/>')
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M 0 0 L 8 4 L 0 8 z" style="fill: #8c959f; stroke: none"/></marker>'
    )
    whole = LEFT + 4 * (WIDTH + GAP) - GAP + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {height}" width="{whole}" height="{height}">',
        f"<style>{STYLE}</style><defs>{head}</defs>",
        f'<rect width="{whole}" height="{height}" style="fill: white; stroke: none; rx: 0"/>',
    ]
    return "\n".join([*parts, *lines, *drawn, "</svg>"]) + "\n"


def protocol(file: str, name: str) -> list[str]:
    """A class of the code in short: its fields and the signatures of its methods, with the first line of each."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    bases = ", ".join(ast.unparse(base) for base in found.bases)
    lines = [f"class {name}{f'({bases})' if bases else ''}:  # {file}", f'    """{_first(found)}"""', ""]
    for node in found.body:
        if isinstance(node, ast.AnnAssign):
            lines.append(f"    {ast.unparse(node.target)}: {ast.unparse(node.annotation)}")
        elif isinstance(node, ast.FunctionDef) and (node.name == "__call__" or not node.name.startswith("_")):
            made = _method(node)
            fields_before = lines[-1] and " def " not in lines[-1] and " def " in made[-1]
            lines += ["", *made] if fields_before else made
    return lines


def _method(node: ast.FunctionDef) -> list[str]:
    """A property as a field, a method as its signature; the comment goes above the line if it is too long."""
    answer = ast.unparse(node.returns) if node.returns else "None"
    arguments = re.sub(r"(: [^,=]+)=", r"\1 = ", ast.unparse(node.args))  # spaces, as ruff wants them
    text = f"    def {node.name}({arguments}) -> {answer}: ..."
    if any(ast.unparse(one) == "property" for one in node.decorator_list):
        text = f"    {node.name}: {answer}"
    inline = f"{text}  # {_first(node)}"
    return [inline] if len(inline) <= 110 else [f"    # {_first(node)}", text]


def _first(node: ast.ClassDef | ast.FunctionDef) -> str:
    return (ast.get_docstring(node) or "").split("\n")[0]


def page(text: str) -> str:
    """The page with everything between its markers made again."""
    chain = " > ".join(longest_chain())
    made = {name: _code([protocol(*one) for one in classes]) for name, classes in PROTOCOLS.items()}
    made["chain"] = f"The longest chain of imports: {chain}."
    for name, part in made.items():
        pattern = rf"(<!-- made from the code: {name} -->\n).*?(<!-- end -->)"
        text, count = re.subn(
            pattern, lambda found, part=part: found[1] + part + "\n" + found[2], text, flags=re.DOTALL
        )
        if count != 1:
            raise SystemExit(f"{PAGE.name} has no place for {name}")
    return text


def _code(classes: list[list[str]]) -> str:
    return "\n".join(["```python", "\n\n\n".join("\n".join(lines) for lines in classes), "```"])


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8")
    made = {PAGE: page(before), DRAWING: drawing()}
    if "--check" in sys.argv:
        same = all(path.exists() and path.read_text(encoding="utf-8") == text for path, text in made.items())
        sys.exit(0 if same else "run: make docs")
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")

"""Draws docs/architecture.svg from the imports of the code: the layers, the parts of each package, and what uses what.

    python docs/architecture_picture.py [--check]

The layers are those that import-linter checks (pyproject.toml). With `--check` nothing is written, and the exit status
is 1 when the picture is not that of the code.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import grimp
from importlinter.api import read_configuration

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"
TOOLKIT, MIXINS = "airflow_resume", "airflow_resume_mixins"

WIDTH, MARGIN, GAP = 1180, 16, 10
LINE, BOX_HEIGHT, LEVEL_GAP, TITLE = 15, 26, 22, 24
LETTER = 6.6
"""Pixels that a letter of the small font takes at most."""

Uses = Mapping[str, set[str]]
"""What each part of a package imports, of the same package."""


@dataclass
class Package:
    """A package of a layer, with its parts: folders, and modules that are in none."""

    name: str
    modules: dict[str, int] = field(default_factory=dict)
    """How many modules each part has, by its name."""
    uses: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def main() -> int:
    """Draw the picture, or compare it with the file."""
    drawn = draw(layers(), packages())
    if sys.argv[1:] == ["--check"]:
        return int(not PICTURE.exists() or PICTURE.read_text() != drawn)
    PICTURE.write_text(drawn)
    return 0


def layers() -> list[list[str]]:
    """The packages and modules of the toolkit by layer, the highest first, as import-linter has them."""
    contracts = read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]
    [found] = [each["layers"] for each in contracts if each.get("containers") == [TOOLKIT]]
    return [[name.strip() for name in layer.split("|")] for layer in found]


def packages() -> dict[str, Package]:
    """What is in each package of the toolkit, and in the mixins, by name."""
    sys.path[:0] = [str(ROOT / "toolkit"), str(ROOT / "mixins")]
    graph = grimp.build_graph(TOOLKIT, MIXINS)
    found: dict[str, Package] = {}
    for module in sorted(graph.modules):
        package, part = _place(module)
        if package is None:
            continue
        kept = found.setdefault(package, Package(package))
        if part is None:
            continue
        kept.modules[part] = kept.modules.get(part, 0) + (not _is_folder(module))
        for imported in graph.find_modules_directly_imported_by(module):
            other, of_part = _place(imported)
            if other == package and of_part is not None and of_part != part:
                kept.uses[part].add(of_part)
    return found


def _place(module: str) -> tuple[str | None, str | None]:
    """The package that a module belongs to, and its part there."""
    root, *names = module.split(".")
    if root == MIXINS:
        return MIXINS, names[0] if names else None
    if not names:
        return None, None
    return names[0], names[1] if len(names) > 1 else None


def _is_folder(module: str) -> bool:
    return any(ROOT.glob(f"*/{module.replace('.', '/')}/__init__.py"))


def levels(parts: Iterable[str], uses: Uses) -> list[list[str]]:
    """The parts in rows, so that each uses only what stands below it; what uses each other stands in one row."""
    reach = {part: _reached(part, uses) for part in parts}

    def depth(part: str) -> int:
        below = {other for other in reach[part] if part not in reach[other] and other != part}
        return 1 + max((depths[other] if other in depths else depth(other) for other in below), default=-1)

    depths: dict[str, int] = {}
    for part in sorted(reach, key=lambda each: len(reach[each])):
        depths[part] = depth(part)
    rows: defaultdict[int, list[str]] = defaultdict(list)
    for part, row in depths.items():
        rows[row].append(part)
    return [sorted(rows[row]) for row in sorted(rows, reverse=True)]


def _reached(part: str, uses: Uses) -> set[str]:
    found: set[str] = set()
    todo = [part]
    while todo:
        for other in uses.get(todo.pop(), ()):
            if other not in found:
                found.add(other)
                todo.append(other)
    return found


def draw(rows: list[list[str]], found: Mapping[str, Package]) -> str:
    """The picture as SVG."""
    shapes: list[str] = []
    top: float = MARGIN
    for names in [[MIXINS], *rows]:
        width = (WIDTH - 2 * MARGIN - GAP * (len(names) - 1)) / len(names)
        lefts = [MARGIN + k * (width + GAP) for k in range(len(names))]
        drawn = [_package(found.get(name, Package(name)), x, top, width) for name, x in zip(names, lefts, strict=True)]
        height = max(tall for _, tall in drawn)
        for x, (inner, _) in zip(lefts, drawn, strict=True):
            shapes.append(_box(x, top, width, height, "layer"))
            shapes.extend(inner)
        top += height + GAP
    body = "\n".join(shapes)
    size = f"0 0 {WIDTH} {top + MARGIN - GAP:g}"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" font-family="sans-serif">
<title>The packages of airflow-resume by layer, and what uses what</title>
<style>
.layer {{ fill: #f6f8fa; stroke: #8c959f }}
.folder {{ fill: #ddf4ff; stroke: #0969da }}
.module {{ fill: #fff; stroke: #8c959f }}
.title {{ font-size: 14px; font-weight: bold; fill: #1f2328 }}
.name {{ font-size: 11px; fill: #1f2328 }}
.uses {{ stroke: #57606a; stroke-opacity: 0.45; fill: none }}
</style>
<rect width="100%" height="100%" fill="#fff"/>
{body}
</svg>
"""


def _package(package: Package, left: float, top: float, width: float) -> tuple[list[str], float]:
    """A package and its height."""
    title = f'<text class="title" x="{left + 8:g}" y="{top + 17:g}">{escape(package.name)}</text>'
    boxes: dict[str, tuple[float, float, float]] = {}
    y = top + TITLE
    for row in levels(package.modules, package.uses):
        x = left + 8
        for part in row:
            wide = len(_label(package, part)) * LETTER + 10
            if x + wide > left + width - 8 and x > left + 8:
                x, y = left + 8, y + BOX_HEIGHT + 6
            boxes[part] = (x, y, wide)
            x += wide + 8
        y += BOX_HEIGHT + LEVEL_GAP
    lines = [
        f'<path class="uses" d="M{_middle(boxes[part]):g},{boxes[part][1] + BOX_HEIGHT:g}'
        f' L{_middle(boxes[other]):g},{boxes[other][1]:g}"/>'
        for part in sorted(boxes)
        for other in sorted(package.uses.get(part, ()))
    ]
    drawn = [
        _box(x, y, wide, BOX_HEIGHT, "folder" if package.modules[part] > 1 else "module")
        + f'<text class="name" x="{x + 5:g}" y="{y + 17:g}">{escape(_label(package, part))}</text>'
        for part, (x, y, wide) in boxes.items()
    ]
    height = y - top - LEVEL_GAP + 8 if boxes else TITLE + 4
    return [title, *lines, *drawn], height


def _label(package: Package, part: str) -> str:
    count = package.modules[part]
    return part if count == 1 else f"{part}/ ({count})"


def _middle(box: tuple[float, float, float]) -> float:
    return box[0] + box[2] / 2


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4"/>'


if __name__ == "__main__":
    sys.exit(main())

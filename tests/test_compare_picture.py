"""Pictures are valid, the same for the same input, free of colour, and safe with any name."""

from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from msgspec.structs import replace
from PIL import Image

from scripts.bench.judgement import Comparison, compare
from scripts.bench.picture import MOST_ROWS, SCALE, Dot, Hatched, Strokes, as_png, as_svg, draw
from tests.trial_records import pairs, runs_of

SVG = "{http://www.w3.org/2000/svg}"


def comparison(changes: Any, **more: Any) -> Comparison:
    runs = runs_of(pairs(changes))
    settings: dict[str, Any] = {"baseline": "old", "candidate": "new", "warmup": 0, "primary": "sps"}
    return compare(runs, **(settings | more))


CASES = {
    "clear": (0.05, 0.06, 0.05, 0.06),
    "none-at-all": (0.0, 0.0, 0.0, 0.0),
    "two": (0.05, 0.01),
    "one": (0.05,),
    "huge": (90.0, -0.99, 90.0, -0.99),
    "many": tuple(0.001 * (n % 7) for n in range(60)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_comparison_can_be_drawn_inside_its_borders(name: str) -> None:
    picture = as_svg(draw(comparison(CASES[name])))
    root = ET.fromstring(picture)  # noqa: S314 - our own text
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    circles = root.findall(f"{SVG}circle")
    assert len(circles) == min(len(CASES[name]), MOST_ROWS)
    for circle in circles:
        assert 0 < float(circle.attrib["cx"]) < width
        assert 0 < float(circle.attrib["cy"]) < height
    assert as_svg(draw(comparison(CASES[name]))) == picture


def test_shapes_not_colours_carry_the_meaning() -> None:
    colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', as_svg(draw(comparison(CASES["clear"])))))
    assert colours == {"black", "white", "none", "#999", "url(#hatch)"}


def test_names_are_text_never_markup() -> None:
    odd = replace(comparison(CASES["clear"]), candidate="<script>&\"'", workload="a]]>b")
    root = ET.fromstring(as_svg(draw(odd)))  # noqa: S314 - our own text
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert any("<script>&\"'" in text for text in texts)


def test_an_interval_beyond_the_axis_ends_in_an_arrow() -> None:
    assert ends(comparison((5.0, 0.0))) == [3, 3], "both ends lie far outside"
    assert ends(comparison(CASES["clear"])) == [2, 2]


def ends(drawn: Comparison) -> list[int]:
    """Count the points of the interval's two ends: a bar has two, an arrow three."""
    wide = [shape for shape in draw(drawn).shapes if isinstance(shape, Strokes) and shape.width >= 2]
    return [len(shape.runs[0]) for shape in wide if len(shape.runs) == 1][1:]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_png_shows_every_pair_as_a_hollow_circle_and_no_colour(name: str) -> None:
    picture = draw(comparison(CASES[name]))
    image = Image.open(io.BytesIO(as_png(picture)))
    assert (image.mode, image.size) == ("L", (picture.width * SCALE, picture.height * SCALE))
    for dot in (shape for shape in picture.shapes if isinstance(shape, Dot)):
        assert level(image, dot.x, dot.y) == 255
        assert level(image, dot.x, dot.y - dot.radius) < 64
    assert as_png(picture) == as_png(picture)


def level(image: Image.Image, x: float, y: float) -> int:
    """Return the grey level at a place of the picture."""
    value = image.getpixel((round(x * SCALE), round(y * SCALE)))
    assert isinstance(value, int)
    return value


def test_the_png_hatches_what_is_too_small_to_matter() -> None:
    picture = draw(comparison(CASES["none-at-all"]))
    [area] = (shape for shape in picture.shapes if isinstance(shape, Hatched))
    left, top, right, bottom = area.x + 2, area.y + 2, area.x + area.width - 2, area.y + 20
    inside = (left * SCALE, top * SCALE, right * SCALE, bottom * SCALE)
    greys = Image.open(io.BytesIO(as_png(picture))).crop(inside).histogram()
    assert sum(greys[0x99:0xF0]) > 50
    assert sum(greys[0xF0:]) > 50

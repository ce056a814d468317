"""Pictures are valid, the same for the same input, free of colour, and safe with any name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from scripts.reporting.compare import Comparison, compare
from scripts.reporting.picture import MOST_ROWS, draw
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
    picture = draw(comparison(CASES[name]))
    root = ET.fromstring(picture)  # noqa: S314 - our own text
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    circles = root.findall(f"{SVG}circle")
    assert len(circles) == min(len(CASES[name]), MOST_ROWS)
    for circle in circles:
        assert 0 < float(circle.attrib["cx"]) < width
        assert 0 < float(circle.attrib["cy"]) < height
    assert draw(comparison(CASES[name])) == picture


def test_shapes_not_colours_carry_the_meaning() -> None:
    colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', draw(comparison(CASES["clear"]))))
    assert colours == {"black", "white", "none", "#999", "url(#margin)"}


def test_names_are_text_never_markup() -> None:
    odd = replace(comparison(CASES["clear"]), candidate="<script>&\"'", workload="a]]>b")
    root = ET.fromstring(draw(odd))  # noqa: S314 - our own text
    texts = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert any("<script>&\"'" in text for text in texts)


def test_an_interval_beyond_the_axis_ends_in_an_arrow() -> None:
    assert draw(comparison((5.0, 0.0))).count("V") == 0, "both ends lie far outside"
    assert draw(comparison(CASES["clear"])).count("V") == 2

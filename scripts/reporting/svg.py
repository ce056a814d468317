"""A picture as plain SVG 1.1; the same shapes give the same bytes."""

from __future__ import annotations

from functools import singledispatch
from xml.sax.saxutils import escape

from scripts.reporting.shapes import Dot, Filled, Hatched, Picture, Point, Shape, Strokes, Text


def as_svg(picture: Picture) -> str:
    """Write a picture as one SVG document."""
    width, height = picture.width, picture.height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13" role="img">'
    )
    hatch = (
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse">'
        '<path d="M0 6L6 0" stroke="#999" stroke-width="0.7"/></pattern></defs>'
    )
    white = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([head, hatch, white, *map(_element, picture.shapes), "</svg>"]) + "\n"


@singledispatch
def _element(shape: Shape) -> str:
    """Write one shape."""
    raise TypeError(type(shape))


@_element.register
def _(shape: Text) -> str:
    weight = "bold" if shape.bold else "normal"
    style = f'text-anchor="{shape.anchor}" font-size="{shape.size}" font-weight="{weight}"'
    return f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" {style}>{escape(shape.text)}</text>'


@_element.register
def _(shape: Strokes) -> str:
    dash = f' stroke-dasharray="{shape.dash[0]:g} {shape.dash[1]:g}"' if shape.dash else ""
    path = "".join(map(_path, shape.runs))
    return f'<path d="{path}" fill="none" stroke="black" stroke-width="{shape.width:g}"{dash}/>'


@_element.register
def _(shape: Filled) -> str:
    return f'<path d="{_path(shape.corners)}z"/>'


@_element.register
def _(shape: Dot) -> str:
    place = f'cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="{shape.radius:g}"'
    return f'<circle {place} fill="white" stroke="black" stroke-width="{shape.width:g}"/>'


@_element.register
def _(shape: Hatched) -> str:
    place = f'x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}" height="{shape.height:.1f}"'
    return f'<rect {place} fill="url(#hatch)"/>'


def _path(points: tuple[Point, ...]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)

"""The same picture as PNG, for papers and forums that take no SVG."""

from __future__ import annotations

import io
from functools import singledispatch
from typing import Final

from PIL import Image, ImageDraw, ImageFont

from scripts.bench.picture import Dot, Filled, Hatched, Picture, Point, Shape, Strokes, Text

#: Pixels of the PNG for one of the picture, and of the canvas that is made smaller for smooth edges.
SCALE: Final = 2
FINE: Final = 2 * SCALE
#: Letters by what they start from; the built-in font is not bold, so a thin outline makes it so.
ANCHORS: Final = {"start": "ls", "middle": "ms", "end": "rs"}
#: What the built-in font lacks, and what stands for it.
LACKING: Final = str.maketrans({"\N{MINUS SIGN}": "-"})
GREY: Final = 0x99
HATCH: Final = 6


def as_png(picture: Picture) -> bytes:
    """Draw a picture in grey levels, twice as fine as its own pixels."""
    canvas = Image.new("L", (picture.width * FINE, picture.height * FINE), "white")
    for shape in picture.shapes:
        _draw(shape, canvas)
    small = canvas.resize((picture.width * SCALE, picture.height * SCALE), Image.Resampling.BOX)
    stream = io.BytesIO()
    small.save(stream, format="PNG", optimize=True)
    return stream.getvalue()


@singledispatch
def _draw(shape: Shape, canvas: Image.Image) -> None:
    raise TypeError(type(shape), canvas)


@_draw.register
def _(shape: Text, canvas: Image.Image) -> None:
    ImageDraw.Draw(canvas).text(
        (shape.x * FINE, shape.y * FINE),
        shape.text.translate(LACKING),
        fill="black",
        font=ImageFont.load_default(shape.size * FINE),
        anchor=ANCHORS[shape.anchor],
        stroke_width=FINE / 6 if shape.bold else 0,
        stroke_fill="black",
    )


@_draw.register
def _(shape: Strokes, canvas: Image.Image) -> None:
    for run in shape.runs:
        for piece in _dashed(run, shape.dash) if shape.dash else [run]:
            _line(canvas, piece, shape.width)


@_draw.register
def _(shape: Filled, canvas: Image.Image) -> None:
    ImageDraw.Draw(canvas).polygon([(x * FINE, y * FINE) for x, y in shape.corners], fill="black")


@_draw.register
def _(shape: Dot, canvas: Image.Image) -> None:
    reach = shape.radius + shape.width / 2
    box = [(v - reach) * FINE for v in (shape.x, shape.y)] + [(v + reach) * FINE for v in (shape.x, shape.y)]
    ImageDraw.Draw(canvas).ellipse(box, fill="white", outline="black", width=round(shape.width * FINE))


@_draw.register
def _(shape: Hatched, canvas: Image.Image) -> None:
    """Draw the hatching on a sheet of its size, whose borders cut it."""
    size = (max(1, round(shape.width * FINE)), max(1, round(shape.height * FINE)))
    sheet = Image.new("L", size, "white")
    pen = ImageDraw.Draw(sheet)
    for start in range(0, sum(size), HATCH * FINE):
        pen.line([(start, 0), (0, start)], fill=GREY, width=round(0.7 * FINE))
    canvas.paste(sheet, (round(shape.x * FINE), round(shape.y * FINE)))


def _line(canvas: Image.Image, points: tuple[Point, ...], width: float) -> None:
    places = [(x * FINE, y * FINE) for x, y in points]
    ImageDraw.Draw(canvas).line(places, fill="black", width=max(1, round(width * FINE)), joint="curve")


def _dashed(run: tuple[Point, ...], dash: tuple[float, float]) -> list[tuple[Point, ...]]:
    """Cut the straight line from the first to the last point into its dashes."""
    (x1, y1), (x2, y2) = run[0], run[-1]
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    at, pieces = 0.0, []
    while at < length:
        end = min(at + dash[0], length)
        pieces.append(tuple((x1 + (x2 - x1) * t / length, y1 + (y2 - y1) * t / length) for t in (at, end)))
        at += sum(dash)
    return pieces

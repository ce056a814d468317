"""A comparison as a picture, in SVG and PNG: every pair, the interval, the margin, the published figure.

Black and white: shapes and patterns carry the meaning, no colour does, so that it survives printers and
photocopies.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias
from xml.sax.saxutils import escape

from msgspec import Struct
from PIL import Image, ImageDraw, ImageFont

from scripts.bench.judgement import Comparison, PairFinding

WIDTH: Final = 720
LEFT: Final = 150
RIGHT: Final = 30
TOP: Final = 92
ROW: Final = 22
FOOT: Final = 74
STEPS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
MOST_ROWS: Final = 24
#: An interval wider than this is cut off with an arrow: its exact end says nothing any more.
WIDEST: Final = 60.0


class Scale(Struct, frozen=True, kw_only=True):
    """Percent to the picture's horizontal places."""

    low: float
    high: float
    step: float

    def x(self, percent: float) -> float:
        """Return the place of a value; outside ones land on the border."""
        inner = min(max(percent, self.low), self.high)
        return LEFT + (inner - self.low) / (self.high - self.low) * (WIDTH - LEFT - RIGHT)

    def ticks(self) -> Iterator[float]:
        """Yield the round values."""
        first = math.ceil(self.low / self.step - 1e-9)
        for index in range(first, math.floor(self.high / self.step + 1e-9) + 1):
            yield index * self.step


def draw(comparison: Comparison) -> Picture:
    """Draw the primary metric of a comparison."""
    finding = comparison.findings[comparison.primary]
    scale = _scale(finding, comparison.margin)
    shown = min(len(finding.ratios), MOST_ROWS)
    bottom = TOP + (shown + 3) * ROW
    shapes = (
        *_title(comparison),
        *_margin(scale, comparison.margin, bottom),
        *_axis(scale, bottom),
        *_pairs(scale, finding),
        *_interval(scale, finding, TOP + (shown + 0.9) * ROW),
        *_published(scale, finding, TOP + (shown + 2.1) * ROW),
    )
    return Picture(width=WIDTH, height=bottom + FOOT, shapes=shapes)


def signed(percent: float, digits: int = 1) -> str:
    """Write a percentage with its sign: ``+0.4 %``, ``−3.0 %``."""
    return f"{percent:+.{digits}f} %".replace("-", "−")


def _scale(finding: PairFinding, margin: float) -> Scale:
    """Choose an axis that holds pairs, interval and margin."""
    ends = [_percent(e) for e in (finding.interval.low, finding.interval.high)]
    values = [0.0, -200 * margin, 200 * margin, *(_percent(r) for r in finding.ratios)]
    values += [min(max(e, -WIDEST), WIDEST) for e in ends]
    room = (max(values) - min(values)) * 0.04
    low, high = min(values) - room, max(values) + room
    step = next((s for s in STEPS if (high - low) / s <= 9), STEPS[-1])  # noqa: PLR2004 - nine labels fit
    return Scale(low=low, high=high, step=step)


def headings(comparison: Comparison) -> tuple[str, str, str]:
    """Say what is compared, by what, and what came out."""
    finding = comparison.findings[comparison.primary]
    better = {"higher": "more is better", "lower": "less is better"}[finding.better]
    need = finding.needed_pairs
    simulated = "; simulated on the CPU" if comparison.simulated else ""
    needed = f"; about {need} pairs would narrow the bar to the margin" if need else ""
    return (
        f"{comparison.candidate} against {comparison.baseline}: {comparison.verdict.value}",
        f"{comparison.workload}, {finding.metric} ({better}); one dot is one pair of runs{simulated}",
        f"{finding.interval.pairs} pairs{needed}",
    )


def _title(comparison: Comparison) -> Iterator[Shape]:
    first, second, third = headings(comparison)
    yield Text(x=20, y=28, text=first, size=17, bold=True)
    yield Text(x=20, y=50, text=second)
    yield Text(x=20, y=69, text=third)


def _margin(scale: Scale, margin: float, bottom: float) -> Iterator[Shape]:
    """Hatch what is too small to matter."""
    left, right = scale.x(-100 * margin), scale.x(100 * margin)
    yield Hatched(x=left, y=TOP - 8, width=right - left, height=bottom - TOP + 8)
    label = f"hatched: within ±{100 * margin:g} %, too small to matter"
    yield Text(x=LEFT, y=bottom + 60, text=label, size=12)


def _axis(scale: Scale, bottom: float) -> Iterator[Shape]:
    """Draw the axis with its zero line."""
    yield Strokes(runs=(((LEFT, bottom), (WIDTH - RIGHT, bottom)),))
    yield Strokes(runs=(((scale.x(0), TOP - 8), (scale.x(0), bottom)),), dash=(4, 3))
    for value in scale.ticks():
        x = scale.x(value)
        yield Strokes(runs=(((x, bottom), (x, bottom + 5)),))
        label = f"{value:+g}".replace("-", "−") if value else "0"
        yield Text(x=x, y=bottom + 20, text=label, anchor="middle", size=12)
    middle = (LEFT + WIDTH - RIGHT) / 2
    yield Text(x=middle, y=bottom + 40, text="change in percent", anchor="middle", size=12)


def _pairs(scale: Scale, finding: PairFinding) -> Iterator[Shape]:
    """Draw every pair; of very many only the first, and say so."""
    for index, ratio in enumerate(finding.ratios[:MOST_ROWS]):
        y = TOP + (index + 0.2) * ROW
        yield Text(x=LEFT - 14, y=y + 4, text=f"pair {index + 1}", anchor="end", size=12)
        yield Dot(x=scale.x(_percent(ratio)), y=y)


def _interval(scale: Scale, finding: PairFinding, y: float) -> Iterator[Shape]:
    """Draw the estimate as a diamond on its interval; an end beyond the axis is an arrow."""
    interval = finding.interval
    yield Text(x=LEFT - 14, y=y + 4, text="95 % interval", anchor="end", bold=True)
    if not math.isfinite(interval.half_width):
        yield Text(x=scale.x(0), y=y + 4, text="one pair leaves everything open", anchor="middle")
        return
    low, high = _percent(interval.low), _percent(interval.high)
    left, right = scale.x(low), scale.x(high)
    yield Strokes(runs=(((left, y), (right, y)),), width=3)
    for x, end, side in ((left, low, -1), (right, high, 1)):
        beyond = not scale.low <= end <= scale.high
        tip = ((x - side * 8, y - 6), (x, y), (x - side * 8, y + 6))
        yield Strokes(runs=(tip if beyond else ((x, y - 6), (x, y + 6)),), width=2)
    x = scale.x(_percent(interval.mean))
    yield Filled(corners=((x, y - 7), (x + 6, y), (x, y + 7), (x - 6, y)))


def _published(scale: Scale, finding: PairFinding, y: float) -> Iterator[Shape]:
    """Draw the change of the pooled medians as a cross."""
    pooled = finding.pooled
    change = (pooled.candidate_median / pooled.baseline_median - 1) * 100
    yield Text(x=LEFT - 14, y=y + 4, text="pooled medians", anchor="end", size=12)
    x = scale.x(change)
    cross = (((x - 5, y - 5), (x + 5, y + 5)), ((x - 5, y + 5), (x + 5, y - 5)))
    yield Strokes(runs=cross, width=2)
    outwards = -1 if change < 0 else 1  # away from the zero line
    yield Text(x=x + outwards * 10, y=y + 4, text=signed(change), anchor="end" if change < 0 else "start")


def _percent(ratio: float) -> float:
    return math.expm1(min(ratio, 50.0)) * 100


#: Pixels of the PNG for one of the picture, and of the canvas that is made smaller for smooth edges.
SCALE: Final = 2
FINE: Final = 2 * SCALE
#: Letters by what they start from; the built-in font is not bold, so a thin outline makes it so.
ANCHORS: Final = {"start": "ls", "middle": "ms", "end": "rs"}
#: What the built-in font lacks, and what stands for it.
LACKING: Final = str.maketrans({"\N{MINUS SIGN}": "-"})
GREY: Final = 0x99
HATCH: Final = 6

Anchor: TypeAlias = Literal["start", "middle", "end"]
Point: TypeAlias = tuple[float, float]


class Text(Struct, frozen=True, kw_only=True):
    """A line of text; ``y`` is its base line, ``anchor`` the part of it that lies at ``x``."""

    x: float
    y: float
    text: str
    anchor: Anchor = "start"
    size: int = 13
    bold: bool = False

    def svg(self) -> str:
        """Write it as an element."""
        weight = "bold" if self.bold else "normal"
        style = f'text-anchor="{self.anchor}" font-size="{self.size}" font-weight="{weight}"'
        return f'<text x="{self.x:.1f}" y="{self.y:.1f}" {style}>{escape(self.text)}</text>'

    def draw(self, canvas: Image.Image) -> None:
        """Draw it on the canvas."""
        ImageDraw.Draw(canvas).text(
            (self.x * FINE, self.y * FINE),
            self.text.translate(LACKING),
            fill="black",
            font=ImageFont.load_default(self.size * FINE),
            anchor=ANCHORS[self.anchor],
            stroke_width=FINE / 6 if self.bold else 0,
            stroke_fill="black",
        )


class Strokes(Struct, frozen=True, kw_only=True):
    """Lines from point to point; several runs make one figure, ``dash`` is on and off in pixels."""

    runs: tuple[tuple[Point, ...], ...]
    width: float = 1
    dash: tuple[float, float] | None = None

    def svg(self) -> str:
        """Write it as an element."""
        dash = f' stroke-dasharray="{self.dash[0]:g} {self.dash[1]:g}"' if self.dash else ""
        path = "".join(map(_path, self.runs))
        return f'<path d="{path}" fill="none" stroke="black" stroke-width="{self.width:g}"{dash}/>'

    def draw(self, canvas: Image.Image) -> None:
        """Draw it on the canvas."""
        for run in self.runs:
            for piece in _dashed(run, self.dash) if self.dash else [run]:
                _line(canvas, piece, self.width)


class Filled(Struct, frozen=True, kw_only=True):
    """A black figure with these corners."""

    corners: tuple[Point, ...]

    def svg(self) -> str:
        """Write it as an element."""
        return f'<path d="{_path(self.corners)}z"/>'

    def draw(self, canvas: Image.Image) -> None:
        """Draw it on the canvas."""
        ImageDraw.Draw(canvas).polygon([(x * FINE, y * FINE) for x, y in self.corners], fill="black")


class Dot(Struct, frozen=True, kw_only=True):
    """A hollow circle."""

    x: float
    y: float
    radius: float = 4.5
    width: float = 1.6

    def svg(self) -> str:
        """Write it as an element."""
        place = f'cx="{self.x:.1f}" cy="{self.y:.1f}" r="{self.radius:g}"'
        return f'<circle {place} fill="white" stroke="black" stroke-width="{self.width:g}"/>'

    def draw(self, canvas: Image.Image) -> None:
        """Draw it on the canvas."""
        reach = self.radius + self.width / 2
        box = [(v - reach) * FINE for v in (self.x, self.y)] + [(v + reach) * FINE for v in (self.x, self.y)]
        ImageDraw.Draw(canvas).ellipse(box, fill="white", outline="black", width=round(self.width * FINE))


class Hatched(Struct, frozen=True, kw_only=True):
    """A hatched area without a border."""

    x: float
    y: float
    width: float
    height: float

    def svg(self) -> str:
        """Write it as an element."""
        place = f'x="{self.x:.1f}" y="{self.y:.1f}" width="{self.width:.1f}" height="{self.height:.1f}"'
        return f'<rect {place} fill="url(#hatch)"/>'

    def draw(self, canvas: Image.Image) -> None:
        """Draw the hatching on a sheet of its size, whose borders cut it."""
        size = (max(1, round(self.width * FINE)), max(1, round(self.height * FINE)))
        sheet = Image.new("L", size, "white")
        pen = ImageDraw.Draw(sheet)
        for start in range(0, sum(size), HATCH * FINE):
            pen.line([(start, 0), (0, start)], fill=GREY, width=round(0.7 * FINE))
        canvas.paste(sheet, (round(self.x * FINE), round(self.y * FINE)))


Shape: TypeAlias = Text | Strokes | Filled | Dot | Hatched


class Picture(Struct, frozen=True, kw_only=True):
    """Shapes in the order they are drawn, on a white page."""

    width: int
    height: int
    shapes: tuple[Shape, ...]


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
    return "\n".join([head, hatch, white, *(shape.svg() for shape in picture.shapes), "</svg>"]) + "\n"


def _path(points: tuple[Point, ...]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def as_png(picture: Picture) -> bytes:
    """Draw a picture in grey levels, twice as fine as its own pixels."""
    canvas = Image.new("L", (picture.width * FINE, picture.height * FINE), "white")
    for shape in picture.shapes:
        shape.draw(canvas)
    small = canvas.resize((picture.width * SCALE, picture.height * SCALE), Image.Resampling.BOX)
    stream = io.BytesIO()
    small.save(stream, format="PNG", optimize=True)
    return stream.getvalue()


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

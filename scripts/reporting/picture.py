"""A comparison as a picture: every pair, the interval, the margin, and the published figure beside them.

Plain SVG 1.1, black and white: shapes and patterns carry the meaning, no colour does, so that it survives
printers and photocopies. The same input gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

from scripts.reporting.compare import Comparison, Finding

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


@dataclass(frozen=True, kw_only=True)
class Scale:
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


def draw(comparison: Comparison) -> str:
    """Draw the primary metric of a comparison."""
    finding = comparison.findings[comparison.primary]
    scale = _scale(finding, comparison.margin)
    shown = min(len(finding.ratios), MOST_ROWS)
    bottom = TOP + (shown + 3) * ROW
    body = [
        *_title(comparison),
        *_margin(scale, comparison.margin, bottom),
        *_axis(scale, bottom),
        *_pairs(scale, finding),
        *_interval(scale, finding, TOP + (shown + 0.9) * ROW),
        *_published(scale, finding, TOP + (shown + 2.1) * ROW),
    ]
    return _page(body, bottom + FOOT)


def signed(percent: float, digits: int = 1) -> str:
    """Write a percentage with its sign: ``+0.4 %``, ``−3.0 %``."""
    return f"{percent:+.{digits}f} %".replace("-", "−")


def _page(body: list[str], height: float) -> str:
    """Put the parts into one document."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" font-family="sans-serif" font-size="13" role="img">'
    )
    hatch = (
        '<defs><pattern id="margin" width="6" height="6" patternUnits="userSpaceOnUse">'
        '<path d="M0 6L6 0" stroke="#999" stroke-width="0.7"/></pattern></defs>'
    )
    white = f'<rect width="{WIDTH}" height="{height:.0f}" fill="white"/>'
    return "\n".join([head, hatch, white, *body, "</svg>"]) + "\n"


def _scale(finding: Finding, margin: float) -> Scale:
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
    told = f"; about {need} pairs would narrow the bar to the margin" if need else ""
    return (
        f"{comparison.candidate} against {comparison.baseline}: {comparison.verdict.value}",
        f"{comparison.workload}, {finding.metric} ({better}); one dot is one pair of runs",
        f"{finding.interval.pairs} pairs{told}",
    )


def _title(comparison: Comparison) -> Iterator[str]:
    """Write the headings."""
    first, second, third = headings(comparison)
    yield _text(20, 28, first, size=17, weight="bold")
    yield _text(20, 50, second)
    yield _text(20, 69, third)


def _margin(scale: Scale, margin: float, bottom: float) -> Iterator[str]:
    """Hatch what is too small to matter."""
    left, right = scale.x(-100 * margin), scale.x(100 * margin)
    yield _rect(left, TOP - 8, right - left, bottom - TOP + 8)
    label = f"hatched: within ±{100 * margin:g} %, too small to matter"
    yield _text(LEFT, bottom + 60, label, size=12)


def _axis(scale: Scale, bottom: float) -> Iterator[str]:
    """Draw the axis with its zero line."""
    yield _line(LEFT, bottom, WIDTH - RIGHT, bottom)
    yield _line(scale.x(0), TOP - 8, scale.x(0), bottom, dash="4 3")
    for value in scale.ticks():
        yield _line(scale.x(value), bottom, scale.x(value), bottom + 5)
        label = f"{value:+g}".replace("-", "−") if value else "0"
        yield _text(scale.x(value), bottom + 20, label, anchor="middle", size=12)
    yield _text((LEFT + WIDTH - RIGHT) / 2, bottom + 40, "change in percent", anchor="middle", size=12)


def _pairs(scale: Scale, finding: Finding) -> Iterator[str]:
    """Draw every pair; of very many only the first, and say so."""
    for index, ratio in enumerate(finding.ratios[:MOST_ROWS]):
        y = TOP + (index + 0.2) * ROW
        yield _text(LEFT - 14, y + 4, f"pair {index + 1}", anchor="end", size=12)
        x = scale.x(_percent(ratio))
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="white" stroke="black" stroke-width="1.6"/>'


def _interval(scale: Scale, finding: Finding, y: float) -> Iterator[str]:
    """Draw the estimate as a diamond on its interval; an end beyond the axis is an arrow."""
    interval = finding.interval
    yield _text(LEFT - 14, y + 4, "95 % interval", anchor="end", weight="bold")
    if not math.isfinite(interval.half_width):
        yield _text(scale.x(0), y + 4, "one pair leaves everything open", anchor="middle")
        return
    low, high = _percent(interval.low), _percent(interval.high)
    left, right = scale.x(low), scale.x(high)
    yield _line(left, y, right, y, width=3)
    for x, end, side in ((left, low, -1), (right, high, 1)):
        beyond = not scale.low <= end <= scale.high
        tip = f"M{x - side * 8:.1f} {y - 6:.1f}L{x:.1f} {y:.1f}L{x - side * 8:.1f} {y + 6:.1f}"
        bar = f"M{x:.1f} {y - 6:.1f}V{y + 6:.1f}"
        yield f'<path d="{tip if beyond else bar}" fill="none" stroke="black" stroke-width="2"/>'
    x = scale.x(_percent(interval.mean))
    yield f'<path d="M{x:.1f} {y - 7:.1f}l6 7l-6 7l-6 -7z"/>'


def _published(scale: Scale, finding: Finding, y: float) -> Iterator[str]:
    """Draw the change of the pooled medians as a cross."""
    pooled = finding.pooled
    change = (pooled.candidate_median / pooled.baseline_median - 1) * 100
    yield _text(LEFT - 14, y + 4, "pooled medians", anchor="end", size=12)
    x = scale.x(change)
    yield f'<path d="M{x - 5:.1f} {y - 5:.1f}l10 10m-10 0l10 -10" stroke="black" stroke-width="2"/>'
    outwards = -1 if change < 0 else 1  # away from the zero line
    yield _text(x + outwards * 10, y + 4, signed(change), anchor="end" if change < 0 else "start")


def _percent(ratio: float) -> float:
    """Turn a log ratio into percent, without overflow."""
    return math.expm1(min(ratio, 50.0)) * 100


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 13, weight: str = "normal"
) -> str:
    """Write text."""
    style = f'text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, *, dash: str = "", width: float = 1) -> str:
    """Draw a line."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    places = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {places} stroke="black" stroke-width="{width:g}"{dashed}/>'


def _rect(x: float, y: float, width: float, height: float) -> str:
    """Draw a hatched area."""
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="url(#margin)"/>'

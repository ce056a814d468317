"""The same picture as PNG, where matplotlib happens to be installed.

Thirty megabytes are too much to ask of everybody for a second form of one picture, so matplotlib is no
dependency: without it there is the SVG alone. As there, shapes and patterns carry the meaning.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import math

from scripts.reporting.compare import Comparison
from scripts.reporting.picture import MOST_ROWS, headings

INK = "black"


def can_draw() -> bool:
    """Whether matplotlib is here; it is not loaded for the answer."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_png(comparison: Comparison) -> bytes:
    """Draw the primary metric of a comparison; needs ``can_draw``."""
    finding, margin = comparison.findings[comparison.primary], 100 * comparison.margin
    ratios = finding.ratios[:MOST_ROWS]
    rows = len(ratios)
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(7.2, 2.4 + 0.22 * rows), dpi=150)
    axes = figure.add_subplot()
    axes.axvspan(-margin, margin, facecolor="none", edgecolor="#999", hatch="////", linewidth=0)
    axes.axvline(0, color=INK, linestyle="--", linewidth=0.8)
    changes = [math.expm1(ratio) * 100 for ratio in ratios]
    axes.plot(changes, range(rows), "o", markerfacecolor="white", markeredgecolor=INK)
    interval = finding.interval
    if math.isfinite(interval.half_width):
        low, mean, high = (
            math.expm1(min(v, 50.0)) * 100 for v in (interval.low, interval.mean, interval.high)
        )
        axes.plot([low, high], [rows, rows], "-|", color=INK, linewidth=2.5, markersize=12)
        axes.plot([mean], [rows], "D", color=INK)
    pooled = finding.pooled
    axes.plot([(pooled.candidate_median / pooled.baseline_median - 1) * 100], [rows + 1], "x", color=INK)
    names = [*(f"pair {n}" for n in range(1, rows + 1)), "95 % interval", "pooled medians"]
    axes.set_yticks(range(rows + 2), names)
    axes.set_ylim(rows + 1.6, -0.6)
    axes.set_xlabel(f"change in percent; hatched: within ±{margin:g} %, too small to matter")
    axes.set_title("\n".join(headings(comparison)), loc="left", fontsize=9)
    figure.tight_layout()
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()

"""The picture of ``docs/comparing.md``, drawn from the published trials by our own code."""

from __future__ import annotations

from pathlib import Path

from scripts.bench.judgement import compare
from scripts.bench.picture import as_svg, draw
from scripts.bench.trials import read_table

ROOT = Path(__file__).resolve().parents[1]
TRIALS = ROOT / "evidence" / "records" / "ppo-ab-2026-09-13.csv"
PICTURE = ROOT / "docs" / "ppo-ab.svg"


def write(*, check: bool) -> bool:
    """Draw it; true when it was up to date. ``check`` changes nothing."""
    runs = read_table(TRIALS)
    found = compare(runs, baseline="upstream", candidate="custom", warmup=1, primary="overall_sps")
    fresh = as_svg(draw(found)).encode("utf-8")
    if PICTURE.exists() and PICTURE.read_bytes() == fresh:
        return True
    if not check:
        PICTURE.write_bytes(fresh)
    return False

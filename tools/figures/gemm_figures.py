"""The CPU reference's GEMM beside one OpenBLAS thread, as rows; ``gemm.py`` measures in a process of its own.

python -m tools.figures.gemm_figures
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.figures.rows import Row, show

#: A tenth of OpenBLAS' speed is good enough for a reference: at most ten times its time.
BAR = 10.0
SIDES = ("cpu-reference", "openblas")


def figures() -> list[Row]:
    """Measure every type and size; values are GFLOP/s (slowest, median, fastest round)."""
    script = str(Path(__file__).with_name("gemm.py"))
    done = subprocess.run([sys.executable, script, "--json"], check=True, capture_output=True)
    return [row for found in json.loads(done.stdout) for row in _rows(found)]


def _rows(found: dict[str, Any]) -> list[Row]:
    """Make the two lines of one size."""
    what = f"GEMM {found['dtype']} {found['size']}³"
    ours, peer = (
        Row(what=what, who=who, unit="GFLOP/s", values=(*found[f"{who} spread"], found[who])) for who in SIDES
    )
    slower = found["openblas"] / found["cpu-reference"]
    return [
        ours,
        Row(
            what=peer.what,
            who="openblas, 1 thread",
            unit=peer.unit,
            values=peer.values,
            ratio=slower,
            bar=BAR,
        ),
    ]


if __name__ == "__main__":
    show(figures())

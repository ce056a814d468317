"""Print every figure: ``python -m tests.figures [NAME …]``; the names are those of the modules here."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from tests.figures.rows import table

MODULES = sorted(path.stem for path in Path(__file__).parent.glob("*_figures.py"))


def main(names: list[str]) -> int:
    """Measure and print; a bar that is missed is shown, not hidden, and does not fail the run."""
    for module in MODULES:
        if names and module.removesuffix("_figures") not in names:
            continue
        print(f"\n## {module.removesuffix('_figures')}\n", flush=True)
        print(table(importlib.import_module(f"tests.figures.{module}").figures()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

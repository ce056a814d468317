"""Begin in any Python with this folder in PYTHONPATH. Another sitecustomize, which this hides, runs too."""
# ruff: noqa: INP001 - Python looks for this very name in a folder, and a package it could not be

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from cuda_amd_torch.hook import install


def run_hidden() -> None:
    """Run the sitecustomize that would have been found without this folder."""
    here = Path(__file__).resolve().parent
    before = list(sys.path)
    sys.path[:] = [entry for entry in before if Path(entry or ".").resolve() != here]
    ours = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError:
        sys.modules["sitecustomize"] = ours
    finally:
        sys.path[:] = before


install()
run_hidden()

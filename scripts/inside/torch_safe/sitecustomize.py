"""Give PyTorch safe settings right after its import, in any Python that has this folder in PYTHONPATH.

It needs Python 3.8. CUDA_AMD_TORCH_POLICY names what to do, separated by commas: ``math-sdp``, ``no-cudnn``.
Another sitecustomize, which this one hides, is run as well.
"""
# ruff: noqa: INP001 - Python looks for this very name in a folder, and a package it could not be

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

POLICY = frozenset(os.environ.get("CUDA_AMD_TORCH_POLICY", "").split(","))
FINDERS: Any = sys.meta_path


def apply(torch: ModuleType) -> None:
    """Switch off what is known to go wrong; a version without a switch does not have the thing itself."""
    cuda = torch.backends.cuda
    if "math-sdp" in POLICY:
        for name in ("enable_flash_sdp", "enable_mem_efficient_sdp", "enable_cudnn_sdp"):
            getattr(cuda, name, bool)(False)  # noqa: FBT003 - PyTorch's own interface
        getattr(cuda, "enable_math_sdp", bool)(True)  # noqa: FBT003 - PyTorch's own call
    if "no-cudnn" in POLICY:
        torch.backends.cudnn.enabled = False


class AfterImport:
    """Stands before the other finders until torch is imported, once."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Let the others find torch, and add our step to the end of its loading."""
        del path, target
        if name != "torch":
            return None
        FINDERS.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            FINDERS.insert(0, self)
            return spec
        loader: Any = spec.loader
        load = loader.exec_module

        def load_and_apply(module: ModuleType) -> None:
            load(module)
            apply(module)

        loader.exec_module = load_and_apply
        return spec


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


FINDERS.insert(0, AfterImport())
run_hidden()

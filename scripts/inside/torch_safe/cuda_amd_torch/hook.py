"""Hold the policies right after PyTorch or ONNX Runtime is imported, and report at the end of the process."""

from __future__ import annotations

import atexit
import json
import os
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Optional

from cuda_amd_torch.policies import Holding

POLICY = "CUDA_AMD_TORCH_POLICY"
REPORT = "CUDA_AMD_TORCH_REPORT"
FINDERS: Any = sys.meta_path


class AfterImport:
    """A finder before all others: it lets them find a module and adds a step to the end of its loading."""

    def __init__(self, holding: Holding) -> None:
        """Know what is to be done after which import."""
        self._holding = holding
        self._steps = {"torch": self._torch, "onnxruntime": self._onnxruntime}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        """Return the other finders' spec, with our step in it; ``None`` for all other modules."""
        if name not in self._steps:
            return None
        for finder in list(FINDERS):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: Any = find(name, path, target) if find is not None else None
            if spec is not None:
                if spec.loader is not None:
                    _add_step(spec.loader, self._steps[name])
                return spec  # type: ignore[no-any-return]  # of whatever finder
        return None

    def _torch(self, torch: ModuleType) -> None:
        """Hold PyTorch's settings and report it at once, because a process may be killed."""
        self._holding.hold_torch(torch)
        self._reported()

    def _onnxruntime(self, ort: ModuleType) -> None:
        """Hold ONNX Runtime's."""
        self._holding.hold_onnxruntime(ort)
        self._reported()

    def _reported(self) -> None:
        """Report now and at the end, which in a process without either module is never."""
        report(self._holding, ended=False)
        atexit.unregister(report)
        atexit.register(report, self._holding, ended=True)


def _add_step(loader: Any, step: Callable[[ModuleType], None]) -> None:
    """Let a loader do one more thing, once; a loader that cannot be changed stays as it is."""
    load = loader.exec_module

    def load_and_hold(module: ModuleType) -> None:
        with suppress(AttributeError):
            del loader.exec_module
        load(module)
        step(module)

    with suppress(AttributeError):
        loader.exec_module = load_and_hold


def report(holding: Holding, *, ended: bool) -> None:
    """Write what is in force at this moment, one file for each process; a failure disturbs nothing."""
    folder = os.environ.get(REPORT)
    if not folder:
        return
    torch = holding.torch
    said = {
        "format": 1,
        "pid": os.getpid(),
        "program": sys.argv[0] if getattr(sys, "argv", None) else "",
        "torch": str(getattr(torch, "__version__", "")),
        "policies": holding.in_force(),
        "asked": holding.asked,
        "devices": {**holding.devices, "used": _used(torch)},
        "ended": ended,
    }
    with suppress(OSError, ValueError):
        path = Path(folder, "torch-{}.json".format(os.getpid()))
        half = path.with_suffix(".part")
        half.write_text(json.dumps(said), encoding="utf-8")
        half.replace(path)


def _used(torch: Any) -> bool:
    """Whether PyTorch has started to use a device."""
    try:
        return bool(torch is not None and torch.cuda.is_initialized())
    except Exception:
        return False


def install() -> None:
    """Begin, once, in a process whose environment names policies."""
    wanted = os.environ.get(POLICY, "")
    if not wanted or any(isinstance(finder, AfterImport) for finder in FINDERS):
        return
    holding = Holding(iter(wanted.split(",")))
    holding.before()
    FINDERS.insert(0, AfterImport(holding))

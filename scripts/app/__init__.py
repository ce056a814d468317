"""Use cases: one function each; they return result objects, print nothing and never exit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

#: The module of a use case whose name is not its own.
_MODULES: Final[Mapping[str, str]] = {
    "ab": "bench.ab",
    "cache_list": "cache",
    "cache_prune": "cache",
    "compare": "bench.compare",
    "doctor": "doctor.doctor",
    "fetch": "stage",
    "rollback": "stacks",
    "run": "bench.run",
    "setup": "setup.setup",
    "use": "stacks",
    "validate": "validate.validate",
    "wrap": "wrap.wrap",
}


def use_case(name: str) -> Callable[..., Any]:
    """Return the function of a task, whose name is written with underscores (``pins_check``)."""
    function: Callable[..., Any] = getattr(import_module(f"scripts.app.{_MODULES.get(name, name)}"), name)
    return function

"""Performs a line as ``python CHECKOUT/scripts`` does, with one step that waits until a signal comes.

    python tests/holding.py CHECKOUT MARKER MODULE:NAME TASK …
    python tests/holding.py CHECKOUT MARKER MODULE TASK …

The first form holds a function (or a method, ``Class.method``) when it is called, the second a module when it
is imported. ``MARKER`` is made when the step is reached.
"""

from __future__ import annotations

import importlib
import runpy
import sys
import time
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any


def main(root: str, marker: str, what: str, *words: str) -> None:
    sys.path[0] = root
    sys.argv = [str(Path(root) / "scripts"), *words]

    def hold(*_args: Any, **_options: Any) -> Any:
        Path(marker).touch()
        time.sleep(120)
        msg = f"{what} was to be interrupted"
        raise AssertionError(msg)

    module, _, name = what.partition(":")
    if name:
        *path, last = name.split(".")
        owner = importlib.import_module(module)
        for part in path:
            owner = getattr(owner, part)
        assert callable(getattr(owner, last)), f"{what} is not there any more"
        setattr(owner, last, hold)
    else:

        class Held(MetaPathFinder):
            def find_spec(self, fullname: str, *_rest: Any) -> None:
                if fullname == module:
                    hold()

        sys.meta_path.insert(0, Held())
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])

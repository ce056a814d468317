"""Start a Python program with our settings where Python ignores PYTHONPATH: -E, -I, -S, or a ``._pth`` file.

python OPTIONS cuda_amd_start.py SCRIPT|-m MODULE|-c CODE ARGUMENTS: what follows runs as ``__main__``, with
the arguments and the search path it would have had. Processes that multiprocessing starts are given the
settings as well; what a program starts through ``sys.executable`` itself is not.
"""
# ruff: noqa: INP001 - started by its path

from __future__ import annotations

import io
import os
import runpy
import sys
from typing import Any, List

HERE = os.path.dirname(os.path.abspath(__file__))
#: Old Pythons put the script's folder first even where ``-P`` does not exist.
SAFE_PATH = bool(sys.flags.isolated or getattr(sys.flags, "safe_path", False))


def begin() -> None:
    """Install the hook, for this process and for those that multiprocessing starts."""
    sys.path.insert(0, HERE)
    try:
        from cuda_amd_torch.hook import install
    finally:
        sys.path.remove(HERE)
    install()
    _reach_children()


def _reach_children() -> None:
    """Let multiprocessing's children begin as this process did."""
    from multiprocessing import spawn

    original = spawn.get_command_line
    first = "import sys; sys.path.insert(0, {0!r}); import cuda_amd_start; cuda_amd_start.begin(); ".format(
        HERE
    )

    def get_command_line(**words: Any) -> List[str]:
        line = list(original(**words))
        if "-c" in line:
            place = line.index("-c") + 1
            line[place] = first + line[place]
        return line

    spawn.get_command_line = get_command_line


def run(words: List[str]) -> None:
    """Run what was to be run."""
    if not SAFE_PATH and sys.path and os.path.abspath(sys.path[0] or ".") == HERE:
        del sys.path[0]
    main: Any = sys.modules["__main__"]
    if words[0] == "-m":
        sys.argv = ["-m", *words[2:]]
        if not SAFE_PATH:
            sys.path.insert(0, os.getcwd())
        run_module: Any = runpy._run_module_as_main  # type: ignore[attr-defined]  # what -m itself calls
        run_module(words[1])
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        if not SAFE_PATH:
            sys.path.insert(0, "")
        _become(main, None)
        exec(compile(words[1], "<string>", "exec"), main.__dict__)
    elif os.path.isdir(words[0]) or words[0].lower().endswith((".zip", ".pyz")):
        sys.argv = list(words)
        runpy.run_path(words[0], run_name="__main__")
    else:
        sys.argv = list(words)
        if not SAFE_PATH:
            sys.path.insert(0, os.path.dirname(os.path.realpath(words[0])))
        with io.open_code(words[0]) as file:
            code = compile(file.read(), words[0], "exec")
        _become(main, words[0])
        exec(code, main.__dict__)


def _become(main: Any, file: Any) -> None:
    """Empty the main module, as a program finds its own."""
    kept = {"__name__": "__main__", "__builtins__": main.__dict__["__builtins__"], "__spec__": None}
    kept.update({"__doc__": None, "__package__": None, "__loader__": None, "__annotations__": {}})
    if file is not None:
        kept.update({"__file__": file, "__cached__": None})
    main.__dict__.clear()
    main.__dict__.update(kept)


if __name__ == "__main__":
    begin()
    _run, _words = run, sys.argv[1:]
    _run(_words)

"""Print every figure: ``python -m tools.figures [NAME …] [--limit=SECONDS]``."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAMES = sorted(path.stem.removesuffix("_figures") for path in HERE.glob("*_figures.py"))
#: Seconds for all figures of one module: a machine that is too busy gets a line that says so, and the next.
LIMIT = 900.0


def measure(name: str, limit: float) -> str:
    """Let a module measure and print in a process of its own; return why it did not finish, if so."""
    command = [sys.executable, "-m", f"tools.figures.{name}_figures"]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdin=subprocess.DEVNULL)
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        return f"not finished after {limit:.0f} s: the lines above are what there is"
    finally:
        _end(process)
    # 1 is a bar that was missed: its line says so.
    return "" if code in {0, 1} else f"ended with {code}: its own words are above"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a module and every tool that it started."""
    if sys.platform == "win32":
        process.kill()
    else:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
    process.wait()


def main(arguments: list[str]) -> int:
    """Measure and print; a bar that is missed is shown, not hidden, and does not fail the run."""
    parser = argparse.ArgumentParser(prog="python -m tools.figures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these of {', '.join(NAMES)}")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for each")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(NAMES))
    if unknown:
        parser.error(f"no such figures: {', '.join(unknown)}")
    for name in options.names or NAMES:
        print(f"\n## {name}\n", flush=True)
        why = measure(name, options.limit)
        if why:
            print(f"\n{name}: {why}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

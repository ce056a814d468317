"""What ``wrap --via=env`` adds to running a program directly; interleaved, medians of five rounds and more.

python -m tests.figures.launch_figures [--rounds=N]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.figures.rows import Row, race, table

ROOT = Path(__file__).resolve().parents[2]
#: Seconds that ``wrap`` may add.
BAR = 0.3
#: The program: an interpreter that does nothing, so that both have something to start.
PROGRAM = (sys.executable, "-I", "-c", "pass")


def _run(line: list[str], environ: dict[str, str]) -> None:
    subprocess.run(
        line,
        check=True,
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _contenders(folder: Path) -> dict[str, Callable[[], None]]:
    """Our use case in a process of its own, the whole command line, and the program itself."""
    runtime = folder / "runtime"
    runtime.mkdir()
    (runtime / "libcuda.so.1").write_bytes(b"")
    environ = dict(os.environ)
    program = f"--exe={PROGRAM[0]}"
    found: dict[str, Callable[[], None]] = {
        "wrap (use case)": partial(
            _run,
            [
                sys.executable,
                "-m",
                "tests.wrapping",
                str(runtime),
                "reference",
                "wrap",
                program,
                "--",
                *PROGRAM[1:],
            ],
            environ,
        ),
        "directly": partial(_run, list(PROGRAM), environ),
    }
    line = [sys.executable, "-m", "scripts", "wrap", program, "--", *PROGRAM[1:]]
    try:
        _run(line, environ)
    except subprocess.CalledProcessError:
        return found  # nothing is set up in this checkout
    return {"wrap (command line)": partial(_run, line, environ), **found}


def figures(*, rounds: int = 7, folder: Path | None = None) -> list[Row]:
    """Measure; the line "added" of each way is what its rounds took beyond the direct run beside them."""
    with tempfile.TemporaryDirectory(prefix="launch-figures-", dir=folder) as place:
        times = race(_contenders(Path(place)), rounds)
    direct = times["directly"]
    rows = [Row(what="run a program", who=who, values=values) for who, values in times.items()]
    for who, values in times.items():
        if who != "directly":
            added = tuple(ours - theirs for ours, theirs in zip(values, direct, strict=True))
            rows.append(Row(what="added by wrap", who=who, values=added, bar=BAR))
    return rows


def main(arguments: list[str]) -> int:
    """Measure and print a table; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rows = figures(rounds=parser.parse_args(arguments).rounds)
    print(table(rows))
    return int(any(row.met is False for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""What ``wrap --via=env`` adds to running a program directly; interleaved, medians of five rounds and more.

python -m tools.figures.launch_figures [--rounds=N]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.checkout import make_checkout
from tools.figures.rows import Row, race, show

ROOT = Path(__file__).resolve().parents[2]
#: Seconds that ``wrap`` may add.
BAR = 0.3
#: The program: an interpreter that does nothing, so that both have something to start.
PROGRAM = (sys.executable, "-I", "-c", "pass")


def _run(line: list[str], environ: dict[str, str], cwd: Path) -> None:
    subprocess.run(
        line,
        check=True,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _contenders(folder: Path) -> dict[str, Callable[[], None]]:
    """The whole command line in a checkout that is set up, our use case alone, and the program itself."""
    runtime = folder / "runtime"
    runtime.mkdir()
    (runtime / "libcuda.so.1").write_bytes(b"")
    checkout = make_checkout(folder)
    checkout.json("setup")
    # A setting of this machine that makes every start compile all modules again is not what is measured.
    environ = {name: value for name, value in checkout.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    words = ["wrap", f"--exe={PROGRAM[0]}", "--", *PROGRAM[1:]]
    alone = ["-m", "tests.wrapping", str(runtime), "reference", *words]
    lines = {
        "python -m scripts wrap": ([sys.executable, "-m", "scripts", *words], checkout.root),
        "invoke wrap": ([str(Path(sys.executable).with_name("invoke")), *words], checkout.root),
        "wrap (use case)": ([sys.executable, *alone], ROOT),
        "directly": (list(PROGRAM), ROOT),
    }
    runs = {who: partial(_run, line, environ, cwd) for who, (line, cwd) in lines.items()}
    for run in runs.values():
        run()  # compiles what is not compiled yet
    return dict(runs)


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
    rows = show(figures(rounds=parser.parse_args(arguments).rounds))
    return int(any(row.met is False for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

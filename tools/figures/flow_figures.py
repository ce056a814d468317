"""What a warm ``setup`` and its parts cost, and how the cost of laying out a runtime grows.

python -m tools.figures.flow_figures [--rounds=N]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from scripts.model import NoProgress
from scripts.staging.assemble import RuntimePlan, assemble, plan_runtime
from scripts.staging.runtimes import verify_runtime
from scripts.store.cache import Cache
from tests.checkout import make_checkout
from tools.figures.rows import Row, race, show
from tools.many_members import many_members

SETUP_BAR, START_BAR = 0.8, 0.25


def warm(rounds: int, folder: Path) -> list[Row]:
    """Time ``setup`` where everything is done already, and Invoke's own start."""
    checkout = make_checkout(folder)
    # A setting of this machine that makes every start compile all modules again is not what is measured.
    checkout.extra["PYTHONDONTWRITEBYTECODE"] = ""
    checkout.json("setup")
    tool = Path(sys.executable).with_name("invoke")
    contenders: dict[str, Callable[[], object]] = {
        "python -m scripts setup, warm": partial(checkout.run, "setup"),
        "invoke --list (start-up alone)": partial(_quietly, [str(tool), "--list"], checkout.root),
        "python -c pass": partial(_quietly, [sys.executable, "-I", "-c", "pass"], checkout.root),
    }
    times = race(contenders, rounds)
    bars = {"python -m scripts setup, warm": SETUP_BAR, "invoke --list (start-up alone)": START_BAR}
    return [
        Row(what="warm setup", who=who, unit="s", values=values, bar=bars.get(who))
        for who, values in times.items()
    ]


def growing(rounds: int, folder: Path) -> Iterator[Row]:
    """Time assembling and verifying runtimes of 10, 100 and 1,000 members."""
    for count in (10, 100, 1000):
        artifact, tree = many_members(folder / f"tree-{count}", count)
        plan = plan_runtime("s", [(artifact, tree, "")])
        stores = iter(folder / f"store-{count}-{number}" for number in range(rounds))
        values = tuple(_assemble(plan, next(stores)) for _ in range(rounds))
        yield Row(what="assemble and verify", who=f"{count} members", unit="s", values=values)


def _assemble(plan: RuntimePlan, store: Path) -> float:
    """Assemble into an empty store, and verify."""
    start = time.perf_counter()
    verify_runtime(assemble(plan, Cache(store), progress=NoProgress()), progress=NoProgress())
    return time.perf_counter() - start


def _quietly(command: list[str], cwd: Path) -> None:
    """Run a command for its time alone."""
    subprocess.run(
        command, cwd=cwd, check=True, capture_output=True, stdin=subprocess.DEVNULL, env=dict(os.environ)
    )


def figures(*, rounds: int = 7, folder: Path | None = None) -> Iterator[Row]:
    """Measure everything; ``folder`` decides the disk."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        yield from warm(rounds, Path(name) / "warm")
        yield from growing(min(rounds, 5), Path(name))


def main(arguments: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    show(figures(rounds=parser.parse_args(arguments).rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The workloads' part of ``tools.control``: all of them on a real GPU, and records to commit as they are.

Two comparisons have a known truth: one stack against itself must come out as ``same``; against itself with a
workload that makes itself slower by a stated share it must be ``worse``, with the truth in the interval.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scripts.app.compare import choose_sides
from scripts.bench.judgement import compare
from scripts.bench.trials import read_record
from scripts.errors import UsageError

#: Percent by which B is slower than A; what that does to a rate is the truth of the comparison.
SLOWDOWN = 5.0
TRUTH = (1 / (1 + SLOWDOWN / 100) - 1) * 100
#: Sizes on a large GPU, and seconds that a step may take.
BESIDE = (("gemm", "4096"), ("fft", "4096"), ("spmv", "262144"), ("conv", "16"))
ALONE = (
    ("gemm", "1024"), ("gemm", "2048"), ("gemm-float64", "2048"), ("copy", "256"), ("launch-latency", "500"),
    ("memory-pressure", "120000"), ("long-run", "10"), ("ppo-small", "128"),
)  # fmt: skip
TRAINING = ("ppo", "ppo-small")  # less of it does not reach the return that is asked
Step = Callable[..., dict[str, Any]]


def run_workloads(step: Step, stack: str, python: str, *, small: bool = False) -> None:
    """Every workload and both comparisons, the telling ones first; ``small`` where there is no such GPU."""
    step("scan", "scan", most=60)
    step("setup", "setup", f"--stack={stack}", "--yes", "--offline", most=240)
    at, both = f"--stack={stack}", (f"--a={stack}", f"--b={stack}")
    if not small:
        step("ppo", "run", "--workload=ppo", at, "--record", most=90)
    other: tuple[str, ...] = () if python == sys.executable else (f"--exe={python}",)
    words = ("--workload=ppo-torch", at, "--record", *other)
    step("ppo-torch", "run", *words, most=90, required=False)
    compared = ("--workload=gemm", f"--size={256 if small else 3072}")
    blocks = 2 if small else 14  # 12 pairs left an H200's interval at 1.2 %, too wide for a margin of 2 %
    judge(step("a-a-gemm", "ab", *both, *compared, f"--rounds={blocks}", most=240), "same")
    slowed = (*compared, f"--rounds={2 if small else 6}", f"--slowdown={SLOWDOWN:g}")
    judge(step("a-b-gemm-slowed", "ab", *both, *slowed, most=90, expected=3), "worse", truth=TRUTH)
    for name, usual in BESIDE:
        size = "16" if small else usual
        words = ("--workload=" + name, at, f"--size={size}", "--budget=20")
        step(f"{name}-{size}-beside-native", "run", *words, most=60, required=name == "gemm")
    for name, usual in ALONE:
        size = "2" if small and name not in TRAINING else usual
        words = ("--workload=" + name, at, f"--size={size}", "--record")
        step(f"{name}-{size}", "run", *words, most=60)
    words = ("--dynamic", f"--exe={python}", at)
    step("warm-up-torch", "precompile", *words, most=90, required=False)


def judge(step: dict[str, Any], verdict: str, *, truth: float = 0.0) -> None:
    """Say whether a comparison found what is known: the verdict, and the truth within the interval."""
    compared = step.get("said", {}).get("comparison")
    if not compared:
        return
    low, high = compared["metrics"][compared["primary"]]["ci95_percent"] or (float("nan"),) * 2
    step["truth_percent"] = truth
    step["right"] = compared["verdict"] == verdict and low <= truth <= high
    found = "as it must" if step["right"] else f"but it must be {verdict}"
    step["detail"] += f"; {found}, the truth is {truth:+.3f} %{'' if low <= truth <= high else ', outside'}"


def collect_records(steps: list[dict[str, Any]], output: Path, *, label: str, date: str) -> list[Path]:
    """Copy the steps' records under names that ``evidence/`` can take, with a row each for its README."""
    copied, rows = [], []
    for step in steps:
        said = step.get("said", {})
        named = said.get("record_file") or said.get("record")  # a run without a file has its figures there
        if not isinstance(named, str) or not named or not Path(named).is_file():
            continue
        path = Path(named)
        folder = output / "evidence" / ("records" if two_sided(path) else "workloads")
        folder.mkdir(parents=True, exist_ok=True)
        copied.append(Path(shutil.copyfile(path, folder / f"{date}-{label}-{step['name']}.json")))
        rows.append(f"| `{copied[-1].name}` | {step['command']} | {found_in(path)} |")
    if rows:
        (output / "evidence" / "rows.md").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return copied


def found_in(path: Path) -> str:
    """Say what a record shows, as the tables in ``evidence/`` do: the verdict, or whether it was right."""
    try:
        runs = read_record(path)
        wrong = [trial.answer for trial in runs.trials if not trial.right]
        if wrong or len(runs.conditions) == 1:
            return f"wrong: {wrong[0][:200]}" if wrong else f"right: {runs.trials[0].answer[:200]}"
        old, new = choose_sides(runs, "", "")
        found = compare(runs, baseline=old, candidate=new, warmup=runs.warmup, primary=runs.primary)
    except UsageError as error:  # nothing that was measured may be lost for it
        return f"unreadable: {error.message}"
    interval = found.findings[found.primary].interval
    low, high = (f"{math.expm1(end) * 100:+.2f} %" for end in (interval.low, interval.high))
    return f"{found.verdict.value}: {interval.pairs} pairs, {low} to {high}"


def two_sided(path: Path) -> bool:
    """Whether a record holds two runtimes, so that it is a comparison."""
    data: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return len(data["runtimes"]) > 1

"""Run the control on a real NVIDIA GPU: everything that ``native-cuda`` can show, in one call.

Usage, from the root of a checkout:
``python3 -m tools.control OUTPUT [--minutes=8] [--blocks=10] [--probes | --workloads]``

It needs Linux, git, an NVIDIA driver, a C compiler, Python 3.11 or newer with NumPy, and our dependencies in
the same interpreter or the network to make ``.venv``. Every step runs in a clone of this checkout's commit,
so that documents name a commit and nothing beside it; what is not committed does not take part. Whatever
fails, the other steps still run and everything is collected: OUTPUT gets ``summary.txt``, ``summary.json``
and ``control.tar.gz`` (documents, records, pictures, logs, and what every step printed). Its ``evidence/``
holds the run records under names that ours can take. The exit code is 0 if setup, check and every workload
passed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.control_workloads import collect_records, run_workloads

ROOT = Path(__file__).resolve().parents[1]
STACK = "native-cuda"
#: A small training run of PyTorch as a user's own program: its loss after 60 steps is known.
OWN = """name = "torch-fit"
command = ["{python}", "fit.py"]
timeout = 120
warmup = 1
primary = "steps_per_second"

[metrics.steps_per_second]
better = "higher"
unit = "steps/s"
json = "steps_per_second"

[answer]
json = "slope"
value = 3.0
tolerance = 0.001
"""
FIT = '''"""Fit y = 3 x by gradient descent on the GPU; six blocks of steps, then the slope."""
import json
import time

import torch

torch.manual_seed(1)
x = torch.linspace(-1, 1, 1 << 20, device="cuda")
y, slope = 3 * x, torch.zeros(1, device="cuda", requires_grad=True)
optimiser = torch.optim.SGD([slope], lr=1.0)
for _ in range(6):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(200):
        optimiser.zero_grad()
        ((slope * x - y) ** 2).mean().backward()
        optimiser.step()
    torch.cuda.synchronize()
    print(json.dumps({"steps_per_second": 200 / (time.perf_counter() - start)}))
print(json.dumps({"slope": slope.item()}))
'''


@dataclass
class Control:
    """The steps, what each one printed, and how much time is left."""

    output: Path
    work: Path
    checkout: Path
    deadline: float
    steps: list[dict[str, Any]] = field(default_factory=list)

    def step(
        self, name: str, *words: str, most: float, required: bool = True, expected: int = 0
    ) -> dict[str, Any]:
        """Run one task with ``--json``, keep what it prints, and go on whatever happens.

        ``expected`` is the exit code that says that all is well.
        """
        seconds = min(most, self.deadline - time.monotonic())
        command = [sys.executable, str(self.checkout / "scripts"), *words, "--json"]
        step: dict[str, Any] = {"name": name, "command": " ".join(words), "code": None}
        step |= {"required": required, "expected": expected}
        self.steps.append(step)
        if seconds < 5:
            step["detail"] = "no time left"
            return step
        begin = time.monotonic()
        step["code"], stdout, stderr = start(command, self.checkout, self.environ(), seconds)
        step["seconds"] = round(time.monotonic() - begin, 1)
        (self.work / "steps").mkdir(exist_ok=True)
        (self.work / "steps" / f"{name}.json").write_text(stdout, encoding="utf-8")
        (self.work / "steps" / f"{name}.stderr").write_text(stderr[-20000:], encoding="utf-8")
        step["said"] = said(stdout)
        step["detail"] = describe(step["said"]) or stderr.strip()[-300:]
        print(f"{name}: {'code ' + str(step['code'])}, {step['seconds']} s: {step['detail']}", flush=True)
        return step

    def environ(self) -> dict[str, str]:
        """Our own store and registry, so that nothing of another run counts."""
        places = {"CUDA_AMD_CACHE": str(self.work / "store"), "CUDA_AMD_STATE": str(self.work / "state")}
        return {**os.environ, **places, "NO_COLOR": "1", "PYTHONUTF8": "1"}

    def collect(self, stack: str = STACK) -> None:
        """Put everything into three files; the records also under names that ``evidence/`` can take."""
        form = "{:<26} code {:<5} {:>6} s  {}"
        keys = ("name", "code", "seconds", "detail")
        lines = [form.format(*(str(step.get(key, "-")) for key in keys)) for step in self.steps]
        (self.output / "summary.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        facts = {"commit": git(self.checkout, "rev-parse", "HEAD"), "machine": machine()}
        text = json.dumps({**facts, "steps": self.steps}, indent=1)
        (self.output / "summary.json").write_text(text + "\n", encoding="utf-8")
        collect_records(self.steps, self.work, label=stack, date=time.strftime("%Y-%m-%d", time.gmtime()))
        with tarfile.open(self.output / "control.tar.gz", "w:gz") as archive:
            for folder, name in (
                (self.checkout / "stage" / "reports", "reports"),
                (self.work / "steps", "steps"),
                (self.work / "evidence", "evidence"),
            ):
                if folder.is_dir():
                    archive.add(folder, name)
        print("\n".join(lines))


def clone(source: Path, folder: Path) -> Path:
    """Clone the commit that a checkout is at; what is not committed is named and left out."""
    git(source, "clone", "--quiet", ".", str(folder))
    changed = git(source, "status", "--porcelain").splitlines()
    print(f"commit {git(folder, 'rev-parse', 'HEAD')}; not in it: {', '.join(changed[:20]) or 'nothing'}")
    return folder


def git(folder: Path, *words: str) -> str:
    """Ask git one thing about a checkout."""
    done = subprocess.run(["git", "-C", str(folder), *words], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def start(
    command: list[str], folder: Path, env: dict[str, str], seconds: float
) -> tuple[int | None, str, str]:
    """Run a command in a group of its own; when time is up, interrupt the group, then kill it."""
    process = subprocess.Popen(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace",
        start_new_session=True,
    )  # fmt: skip
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, number)
            seconds = 10.0
        else:
            return process.returncode, stdout, stderr
    stdout, stderr = process.communicate()
    return None, stdout, stderr


def said(stdout: str) -> dict[str, Any]:
    """Read the one object that a task prints."""
    try:
        value = json.loads(stdout)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def describe(data: dict[str, Any]) -> str:
    """Say in one line what a step showed."""
    if "error" in data:
        return f"{data['error']['reference']}: {data['error']['message']}"
    if "comparison" in data:
        compared = data["comparison"]
        if compared is None:
            return str(data["failure"])
        finding = compared["metrics"][compared["primary"]]
        ends = finding["ci95_percent"] or ["?", "?"]
        figures = [f"{value:+.3f} %" if isinstance(value, float) else str(value) for value in ends]
        pairs = f"{finding['pairs']} pairs, stopped by {data['stopped']}"
        return f"{compared['verdict']}: between {figures[0]} and {figures[1]}, {pairs}"
    if "score" in data:
        wrong = [r for r in data["results"] if r["outcome"] not in ("pass", "unavailable")]
        named = "; ".join(f"{r['capability']} {r['outcome']}: {r['detail'][:300]}" for r in wrong)
        return f"{data['percent']} % passed, {data['score']}; {data['evidence']}; {named}"
    if data.get("overhead"):
        data["outcome"] += f", overhead {json.dumps(data['overhead'])}"
    words = [str(data[key]) for key in ("level", "outcome", "reason", "detail", "evidence") if data.get(key)]
    return "; ".join(words)


def machine() -> dict[str, str]:
    """Ask the driver's own tool what this is."""
    fields = "name,driver_version,clocks.sm,clocks.mem,power.limit,pstate"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        return {"nvidia-smi": str(error)}
    return {"nvidia-smi": done.stdout.strip(), "python": sys.version}


def main(arguments: list[str]) -> int:
    """Run every step and collect."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--minutes", type=float, default=8.0, help="everything ends within this time")
    parser.add_argument("--blocks", type=int, default=10, help="blocks of A B B A, four processes each")
    parser.add_argument("--probes", action="store_true", help="every probe, and nothing else")
    parser.add_argument("--workloads", action="store_true", help="every workload, and nothing else")
    parser.add_argument("--python", default=sys.executable, help="one that has PyTorch")
    parser.add_argument("--small", action="store_true", help="small sizes, for trying this script")
    parser.add_argument(
        "--only", default="", help="these probes, as `probe --only` takes them, and nothing else"
    )
    parser.add_argument("--stack", default=STACK, help="for trying this script without such a GPU")
    options = parser.parse_args(arguments)
    options.output = options.output.absolute()
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="control-") as folder:
        work = Path(folder)
        deadline = time.monotonic() + options.minutes * 60 - 20
        control = Control(options.output, work, clone(ROOT, work / "checkout"), deadline)
        own = work / "own"
        own.mkdir()
        (own / "fit.toml").write_text(OWN, encoding="utf-8")
        (own / "fit.py").write_text(FIT, encoding="utf-8")
        try:
            if options.only:
                run_some_probes(control, options.stack, options.only)
            elif options.probes:
                run_probes(control, options.stack)
            elif options.workloads:
                run_workloads(control.step, options.stack, options.python, small=options.small)
            else:
                run_steps(control, options.stack, options.blocks, own / "fit.toml")
        finally:
            control.collect(options.stack)
    return int(any(step["code"] != step["expected"] for step in control.steps if step["required"]))


def run_probes(control: Control, stack: str) -> None:
    """Every probe; those of PyTorch apart, because each of them takes seconds to start."""
    control.step("scan", "scan", most=60)
    control.step("setup", "setup", f"--stack={stack}", "--yes", "--offline", most=240)
    probing = ("probe", f"--stack={stack}", f"--exe={sys.executable}", "--fresh")
    control.step("probes", *probing, "--only=*,!torch-*,!endurance-soak", most=300, required=False)
    control.step("probes-torch", *probing, "--only=torch-*", most=420, required=False)
    control.step("probes-soak", *probing, "--only=endurance-soak", "--timeout=60", most=70, required=False)


def run_some_probes(control: Control, stack: str, only: str) -> None:
    """Some probes, in one document; the soak, which lasts, takes the time that is left."""
    control.step("setup", "setup", f"--stack={stack}", "--yes", "--offline", most=240)
    left = control.deadline - time.monotonic()
    words = ("probe", f"--stack={stack}", f"--exe={sys.executable}", "--fresh", f"--only={only}")
    control.step("probes-some", *words, f"--timeout={max(left * 0.7, 10):.0f}", most=left)


def run_steps(control: Control, stack: str, blocks: int, own: Path) -> None:
    """The steps, the telling ones first: whatever time runs out on comes last."""
    control.step("scan", "scan", most=60)
    control.step("setup", "setup", f"--stack={stack}", "--yes", "--offline", most=240)
    control.step("check", "check", f"--stack={stack}", most=60)
    for name, size in (("gemm", 4096), ("gemm-float64", 2048), ("copy", 256), ("launch-latency", 500)):
        sized = (f"--workload={name}", f"--stack={stack}", f"--size={size}", "--record")
        control.step(name, "run", *sized, most=90)
    words: tuple[str, ...] = (f"--workload={own}", f"--stack={stack}", "--trials=2")
    control.step("own-program", "run", *words, most=60, required=False)
    both = (f"--a={stack}", f"--b={stack}")
    words = (*both, "--size=2048", f"--rounds={blocks}", "--width=0.5")
    control.step("a-a-gemm", "ab", *words, most=200, required=False)
    words = (*both, "--workload=launch-latency", "--rounds=4")
    control.step("a-a-launch", "ab", *words, most=90, required=False)
    control.step(
        "preflight", "preflight", f"--exe={sys.executable}", f"--stack={stack}", most=90, required=False
    )
    whole = ("validate", f"--stack={stack}", "--yes", "--offline")
    control.step("validate", *whole, most=240, required=False)
    control.step("status", "status", most=30, required=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

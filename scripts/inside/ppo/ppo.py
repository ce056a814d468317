"""Workload: train a policy by proximal policy optimisation; it must match NumPy, and it must learn.

Started by path; Python 3.8 and NumPy. ``--backend=cuda`` needs the driver, cuBLAS and kernels of ours, no PyTorch;
``torch`` is the same task on PyTorch, ``numpy`` in double precision. Three things are asked:

* after two iterations with few chains the weights are those of a run in double precision, within ``WEIGHTS``;
* a checkpoint written halfway, and read again, is where the run goes on;
* at the end the policy's return is at least the share ``--reach`` of what is possible (``environment.score``).

The result line (marked, on stderr) holds the first iteration apart (``first``) and every later one. Exit codes: 0
right; 2 usage; 3 wrong; 4 refused; 5 a call failed; 6 a library or device is not there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1]))

from cuda_calls import (
    WINDOWS,
    Machine,
    NotFound,
    conclude,
    finish,
    guarded,
    load_first,
    path_of,
    slowdown_option,
)
from environment import STEPS, bounds, score
from policy import NETWORKS, Shape
from reference import DoublePolicy
from trainer import Settings, Trainer, resume, save

#: The run that is compared: so many iterations with so many chains.
COMPARED, COMPARED_CHAINS = 2, 16
#: Chains, iterations, and the share of the possible return that must be reached.
DEFAULTS = {"default": (1024, 24, 0.5), "small": (128, 24, 0.5)}
#: How far weights may be from the double precision run, in learning rates: one weight, and all of them (root of
#: the mean square).
WEIGHTS = (0.05, 0.002)
REASON = (
    "a step of Adam moves a weight by about the rate, whatever the gradient's size, and an error of the "
    "gradient moves it by at most the rate times that error over 1e-5 (epsilon); single precision leaves "
    "gradients right to about 1e-7 of their size, so that weights differ by a small part of the rate (0.003 for "
    "one, 6e-5 for all, with the default network on the CPU reference); a missing or wrong term is another "
    "direction, and so a whole rate in every step; inputs rounded to TF32 are beyond what all weights may differ"
)
Make = Callable[[Settings], Any]


def compare(make: Make, options: argparse.Namespace) -> Dict[str, float]:
    """Train twice from the same start, here and in double precision; return how far apart the weights are."""
    settings = Settings(seed=options.seed, chains=COMPARED_CHAINS, network=options.network)
    shape = Shape(options.network)
    policies = [make(settings), DoublePolicy(shape, settings)]
    rows = []
    for policy in policies:
        trainer = Trainer(policy, settings)
        for _ in range(COMPARED):
            trainer.iterate()
        rows.append(policy.state()["row"])
    close(policies[0])
    apart, moved = np.abs(rows[0] - rows[1]), np.abs(rows[1] - shape.first(options.seed))
    found = {"one": float(apart.max()), "all": rms(apart), "moved": rms(moved)}
    return {name: value / settings.rate for name, value in found.items()}


def rms(values: Any) -> float:
    """Return the root of the mean square; what is no number is infinite."""
    found = float(np.sqrt((values**2).mean()))
    return found if np.isfinite(found) else float("inf")


def close(policy: Any) -> None:
    """Give back what a policy holds on a device."""
    if hasattr(policy, "close"):
        policy.close()


def train(report: Dict[str, Any], trainer: Trainer, options: argparse.Namespace) -> None:
    """Run the iterations, with a checkpoint halfway (or every so many) that the run goes on from."""
    with tempfile.TemporaryDirectory(prefix="ppo-") as folder:
        path = Path(options.checkpoint) if options.checkpoint else Path(folder, "checkpoint.npz")
        every = options.every or max(1, options.iterations // 2)
        if options.resume:
            resume(trainer, path)
            report["resumed_at"] = trainer.done
            if trainer.done >= options.iterations:
                text = "%s already has %d iterations: ask for more with --iterations"
                raise ValueError(text % (path, trainer.done))
        rows = []
        while trainer.done < options.iterations:
            rows.append(trainer.iterate())
            say(trainer.done, rows[-1])
            if trainer.done % every == 0 or (options.checkpoint and trainer.done == options.iterations):
                save(trainer, path)
                resume(trainer, path)
    report["first"], report["iterations"] = rows[0], rows[1:]
    report["mean_return"] = trainer.evaluate()
    report["score"] = score(report["mean_return"])


def say(number: int, row: Dict[str, float]) -> None:
    """Print one iteration as the published benchmark does."""
    names = ("overall_sps", "collection_sps", "consumption_sps", "inference_s", "ppo_learn_s")
    figures = ["%s %.6g" % (name, row[name]) for name in (*names, "kl", "entropy", "value_loss", "return")]
    print("iteration %d%s: %s" % (number, " (cold)" if number == 1 else "", ", ".join(figures)))


def judge(report: Dict[str, Any], options: argparse.Namespace) -> None:
    """Say whether all that was asked is so; NaN never is."""
    apart, problems = report["weights_in_rates"], []
    if not (apart["one"] <= WEIGHTS[0] and apart["all"] <= WEIGHTS[1]):
        text = "after %d iterations weights are %.3g rates from the double precision run, all of them %.3g"
        problems.append(text % (COMPARED, apart["one"], apart["all"]))
    if not report["score"] >= options.reach:
        text = "the return is %.3g, which is %.2f of what is possible, not %.2f"
        problems.append(text % (report["mean_return"], report["score"], options.reach))
    conclude(report, "incorrect" if problems else "pass", "; ".join(problems))


def body(report: Dict[str, Any], options: argparse.Namespace) -> None:
    """Compare, train, judge."""
    make, end = BACKENDS[options.backend](report, options)
    report["weights_in_rates"] = compare(make, options)
    settings = Settings(
        seed=options.seed, chains=options.size, network=options.network, slowdown=options.slowdown
    )
    policy = make(settings)
    report["device"] = policy.device
    try:
        train(report, Trainer(policy, settings), options)
    except ValueError as error:  # no checkpoint to go on from
        conclude(report, "error", str(error))
    else:
        judge(report, options)
    close(policy)
    end()


# ---- where it runs ----


def on_cuda(report: Dict[str, Any], options: argparse.Namespace) -> Any:
    """Start the driver and cuBLAS; kernels and products are ours to call."""
    from device import DevicePolicy

    machine, shape = Machine(), Shape(options.network)
    report["libraries"].update(machine.files)
    report["conditions"].update(driver=machine.driver_version, cublas=machine.blas_version)
    return lambda settings: DevicePolicy(machine, shape, settings), machine.close


def on_torch(report: Dict[str, Any], options: argparse.Namespace) -> Any:
    """Use the PyTorch of the Python that runs this."""
    try:
        import torch
        from torch_policy import TorchPolicy
    except ImportError as error:
        raise NotFound("PyTorch does not load: %s" % error) from error
    report["conditions"]["torch"] = str(torch.__version__)
    if options.device == "cuda":
        if not torch.cuda.is_available():
            raise NotFound("PyTorch %s sees no CUDA device" % torch.__version__)
        torch.zeros(1, device="cuda")
        library, name = load_first(["nvcuda.dll"] if WINDOWS else ["libcuda.so.1"])
        report["libraries"]["driver"] = path_of(library, name)
    shape = Shape(options.network)
    return lambda settings: TorchPolicy(shape, settings, options.device), lambda: None


def on_numpy(report: Dict[str, Any], options: argparse.Namespace) -> Any:
    """Run in double precision alone."""
    del report
    shape = Shape(options.network)
    return lambda settings: DoublePolicy(shape, settings), lambda: None


BACKENDS = {"cuda": on_cuda, "torch": on_torch, "numpy": on_numpy}


def parse(argv: Optional[Sequence[str]]) -> argparse.Namespace:
    """Read the command line; what is left out depends on the network."""
    parser = argparse.ArgumentParser(prog="ppo.py", description="proximal policy optimisation on CUDA")
    parser.add_argument("--backend", choices=sorted(BACKENDS), default="cuda")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="where PyTorch computes")
    parser.add_argument("--network", choices=sorted(NETWORKS), default="default")
    parser.add_argument("--size", type=int, help="chains, each with an episode an iteration")
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--reach", type=float, help="share of the possible return that must be reached")
    parser.add_argument("--seed", type=int, default=20260101)
    parser.add_argument("--checkpoint", help="file to keep checkpoints in")
    parser.add_argument("--every", type=int, default=0, help="iterations between checkpoints; 0: one halfway")
    parser.add_argument("--resume", action="store_true", help="go on from --checkpoint")
    slowdown_option(parser)
    options = parser.parse_args(argv)
    given = ("size", "iterations", "reach")
    for name, value in zip(given, DEFAULTS[options.network]):
        setattr(options, name, value if getattr(options, name) is None else getattr(options, name))
    if options.size < 1 or options.iterations < 1 or options.seed < 0 or options.every < 0:
        parser.error("--size and --iterations start at 1, --seed and --every at 0")
    if options.resume and not options.checkpoint:
        parser.error("--resume needs --checkpoint")
    return options


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the workload and return its exit code."""
    options = parse(argv)
    shape, (idle, best) = Shape(options.network), bounds()
    report: Dict[str, Any] = {
        "workload": "ppo" if options.backend == "cuda" else "ppo-" + options.backend,
        "size": options.size,
        "parameters": shape.parameters,
        "layers": {name: [x.outputs for x in getattr(shape, name)] for name in ("actor", "critic")},
        "libraries": {},
        "conditions": {"seed": options.seed, "numpy": np.__version__, "steps": options.size * STEPS},
        "idle_return": idle,
        "best_return": best,
        "reach": options.reach,
        "tolerance": {"one": WEIGHTS[0], "all": WEIGHTS[1], "reason": REASON},
    }
    guarded(report, lambda: body(report, options))
    return finish(report, summary(report))


def summary(report: Dict[str, Any]) -> str:
    """Say a right answer in one line."""
    if report["outcome"] != "pass":
        return ""
    speeds = [row["overall_sps"] for row in report["iterations"]] or [report["first"]["overall_sps"]]
    text = "right, %d parameters, %.0f steps/s (first iteration %.0f), %.2f of the possible return, on %s"
    first = report["first"]["overall_sps"]
    return text % (report["parameters"], np.median(speeds), first, report["score"], report["device"])


if __name__ == "__main__":
    sys.exit(main())

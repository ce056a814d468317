"""One forward, one backward and one optimizer step in the user's own PyTorch, and then a few more.

What a program's first update loads and compiles is loaded and compiled afterwards. The first update is told
apart from the later ones; its loss must be the one that the CPU finds in double precision. Exit codes and the
result line are those of ``gemm.py``.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

from cuda_calls import (
    WINDOWS,
    NotFound,
    conclude,
    finish,
    guarded,
    load_first,
    path_of,
)

BATCH, CHANNELS, EDGE, CLASSES = 32, 32, 32, 10
#: How far the loss may be from the double precision one, as a share of it: single precision and then some.
TOLERANCE = 1e-4
PHASES = ("forward", "backward", "optimizer")


class Network:
    """Convolutions, norms, attention and a linear layer: what most programs' kernels come from."""

    def __init__(self, torch: Any, device: str, dtype: Any, seed: int) -> None:
        """Make it with weights that depend on the seed alone, and its input."""
        self.torch, self.device = torch, device
        torch.manual_seed(seed)
        nn = torch.nn
        self.body = nn.Sequential(
            nn.Conv2d(3, CHANNELS, 3, padding=1), nn.GroupNorm(4, CHANNELS), nn.GELU(),
            nn.Conv2d(CHANNELS, CHANNELS, 3, stride=4, padding=1), nn.BatchNorm2d(CHANNELS), nn.ReLU(),
            nn.Flatten(2),
        )  # fmt: skip
        self.attention = nn.TransformerEncoderLayer(CHANNELS, 4, 2 * CHANNELS, dropout=0.0, batch_first=True)
        self.head = nn.Linear(CHANNELS, CLASSES)
        self.seen, self.wanted = torch.rand(BATCH, 3, EDGE, EDGE), torch.randint(CLASSES, (BATCH,))
        self.seen, self.wanted = self.seen.to(device, dtype), self.wanted.to(device)
        self.parts = [part.to(device, dtype) for part in (self.body, self.attention, self.head)]
        self.parameters = [p for part in self.parts for p in part.parameters()]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-3)

    def wait(self) -> None:
        """Wait for the device."""
        if self.device != "cpu":
            self.torch.cuda.synchronize()

    def forward(self) -> Any:
        """Return the loss."""
        middle = self.attention(self.body(self.seen).transpose(1, 2)).mean(1)
        return self.torch.nn.functional.cross_entropy(self.head(middle), self.wanted)

    def update(self) -> Dict[str, float]:
        """Make one update; seconds of each phase, and the loss before it."""
        marks = [time.perf_counter()]

        def mark() -> None:
            self.wait()
            marks.append(time.perf_counter())

        loss = self.forward()
        mark()
        self.optimizer.zero_grad()
        loss.backward()
        mark()
        self.optimizer.step()
        mark()
        seconds = {name + "_s": marks[i + 1] - marks[i] for i, name in enumerate(PHASES)}
        return {**seconds, "update_s": marks[-1] - marks[0], "loss": float(loss.detach())}


def measure(report: Dict[str, Any], options: argparse.Namespace) -> None:
    """Make the updates and judge the first one's loss."""
    try:
        import torch  # noqa: PLC0415 - a Python without it gets an answer, too
    except ImportError as error:
        raise NotFound("PyTorch does not load: %s" % error) from error
    report["torch"] = str(torch.__version__)
    report["device"] = "CPU device of PyTorch"
    if options.device != "cpu":
        if not torch.cuda.is_available():
            raise NotFound("PyTorch %s sees no CUDA device" % torch.__version__)
        report["device"] = torch.cuda.get_device_name(0)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    network = Network(torch, options.device, torch.float32, options.seed)
    rows: List[Dict[str, float]] = [network.update() for _ in range(options.updates)]
    if options.device != "cpu":
        library, name = load_first(["nvcuda.dll"] if WINDOWS else ["libcuda.so.1"])
        report["libraries"]["driver"] = path_of(library, name)
    report["first"], report["iterations"] = rows[0], rows[1:]
    exact = float(Network(torch, "cpu", torch.float64, options.seed).forward().detach())
    apart = abs(rows[0]["loss"] - exact) / abs(exact)
    fell = rows[-1]["loss"] < rows[0]["loss"]
    problems = [] if apart <= TOLERANCE else ["the first loss is %.3g of its size away" % apart]
    problems += [] if fell else ["the loss does not fall"]
    conclude(report, "incorrect" if problems else "pass", "; ".join(problems))


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the updates and return the exit code."""
    parser = argparse.ArgumentParser(prog="warm_torch.py", description="one update, and a few more")
    parser.add_argument("--updates", type=int, default=6, help="how many; the first one is reported apart")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seed", type=int, default=20260101)
    options = parser.parse_args(argv)
    if options.updates < 2 or options.seed < 0:
        parser.error("--updates starts at 2, --seed at 0")
    report: Dict[str, Any] = {"workload": "warm-torch", "libraries": {}}
    guarded(report, lambda: measure(report, options))
    line = ""
    if report["outcome"] == "pass":
        later = sorted(row["update_s"] for row in report["iterations"])[len(report["iterations"]) // 2]
        words = (report["first"]["update_s"], later, report["device"])
        line = "right, the first update took %.3g s, later ones %.3g s, on %s" % words
    return finish(report, line)


if __name__ == "__main__":
    sys.exit(main())

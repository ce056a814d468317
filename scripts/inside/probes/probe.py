"""Run one probe: a question with a known answer, in a process of its own.

Usage: ``python probe.py NAME [--device=cuda|cpu] [--seed=N] [--seconds=N]`` or ``--list``

It needs Python 3.8 and NumPy; the ``torch-`` probes need PyTorch as well, and with ``--device=cpu`` they ask
PyTorch's CPU device instead. One JSON line marked ``@@cuda-amd-result`` on stderr says everything. Exit
codes: 0 right; 2 usage; 3 a number is wrong; 4 it was refused; 5 a call failed; 6 a library or device is
not there.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, Tuple

from kit import EXIT, MARK, CallFailed, NotFound, ProbeSession, Refused, Unavailable

MODULES = (
    "driver",
    "memory",
    "streams",
    "kernels",
    "kernels_types",
    "launching",
    "images",
    "faults",
    "management",
    "blas",
    "blas_more",
    "sparse",
    "fft",
    "solver",
    "random_numbers",
    "runtime_compiler",
    "dnn",
    "dnn_layers",
    "endurance",
    "torch_tensors",
    "torch_linalg",
    "torch_layers",
    "torch_training",
)
#: Worst first; a wrong number is worse than a failure.
WORST = ("incorrect", "error", "refused", "unavailable", "pass")


def every() -> Iterator[Tuple[str, str, Callable[[ProbeSession], None]]]:
    """Yield module, name and function of every probe."""
    for module in MODULES:
        for name, function in importlib.import_module(module).PROBES.items():
            yield module, name, function


def find(wanted: str) -> Optional[Callable[[ProbeSession], None]]:
    """Return a probe."""
    return next((function for _, name, function in every() if name == wanted), None)


def ask(function: Callable[[ProbeSession], None], session: ProbeSession) -> None:
    """Run the probe; whatever ends it is a case."""
    try:
        function(session)
        session.close()
    except (CallFailed, NotFound, Refused, Unavailable) as error:
        session.say("", error.outcome, str(error))
    except Exception as error:  # noqa: BLE001 - what a library raises is a result
        session.say(
            "", "error", "%s: %s" % (type(error).__name__, error), trace=traceback.format_exc(limit=-4)
        )


def report(name: str, session: ProbeSession, seconds: float) -> Dict[str, Any]:
    """Sum the cases up."""
    if not session.cases:
        session.say("", "error", "the probe has asked nothing")
    outcome = next(word for word in WORST if any(case["outcome"] == word for case in session.cases))
    details = [case["detail"] for case in session.cases if case["outcome"] == outcome and case["detail"]]
    ratios = [case["error_over_tolerance"] for case in session.cases if "error_over_tolerance" in case]
    found = {
        "probe": name,
        "outcome": outcome,
        "cases": len(session.cases),
        "seconds": round(seconds, 3),
        "device": session.device,
        "seed": session.seed,
        "libraries": session.files,
        "results": session.cases,
    }
    if outcome != "pass":
        found["detail"] = "; ".join(details)[:2000]
    if ratios:
        found["error_over_tolerance"] = max(ratios)
    return found


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run one probe and return its exit code."""
    parser = argparse.ArgumentParser(prog="probe.py", description="one question with a known answer")
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="for the torch probes")
    parser.add_argument("--seed", type=int, default=20260101)
    parser.add_argument("--seconds", type=float, default=600.0, help="how long the lasting probes last")
    parser.add_argument("--list", action="store_true", help="name every probe, with its module")
    options = parser.parse_args(argv)
    if options.list:
        print("\n".join("%s %s" % (module, name) for module, name, _ in every()))
        return 0
    function = find(options.name)
    if function is None:
        parser.error("there is no probe %r" % options.name)
    session = ProbeSession(seed=options.seed, device=options.device, seconds=options.seconds)
    start = time.perf_counter()
    ask(function, session)
    found = report(options.name, session, time.perf_counter() - start)
    print("%s: %s%s" % (options.name, found["outcome"], ": " + found["detail"] if "detail" in found else ""))
    sys.stdout.flush()
    sys.stderr.write("%s %s\n" % (MARK, json.dumps(found)))
    sys.stderr.flush()
    code: int = EXIT[found["outcome"]]
    return code


if __name__ == "__main__":
    sys.exit(main())

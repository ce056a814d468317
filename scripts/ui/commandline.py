"""What every option means, in one table, and the check that one command line holds one task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from scripts.errors import UsageError

HELP: Final[Mapping[str, str]] = {
    "json": "print one JSON object on stdout; everything else goes to stderr",
    "stack": "a stack of pins.lock by its id (`invoke stacks` lists them)",
    "gpu": "which GPU, by its number in `invoke scan`",
    "with": "optional parts to add, comma separated (for example: libtorch)",
    "yes": "answer the question before the download with yes",
    "offline": "use the store and mirrors in folders only; connect to nothing",
    "mirror": "a folder or URL asked first for every download; the pinned hash still decides",
    "force": "take the stack that was named although it does not cover this GPU",
    "only-proven": "refuse a stack without committed evidence for this GPU",
    "deep": "read and hash every file, not only what would be loaded",
    "hip-root": "also look at this HIP runtime's folder; everything else takes it where HIP_PATH names it",
    "from-hipinfo": "read hipInfo output from a file (or - for stdin) instead of asking this machine",
    "exe": "the program",
    "path": "the program's file or folder; all device code below it is compiled",
    "via": "how the libraries get in: auto, env, launcher or beside",
    "keep": "leave what was placed beside the program until `unwrap` (implies --via=beside)",
    "timeout": "seconds (or 90s, 5m, 1h) after which the whole process tree is ended",
    "set": "NAME=VALUE for the program's environment; can be given several times",
    "cwd": "the folder the program starts in",
    "log": "also write the program's output to this file",
    "read-log": "explain a program's output: the file that holds it, or - for standard input",
    "code": "explain one status code: a name (CUBLAS_STATUS_NOT_SUPPORTED) or a number (700, 0xC0000139)",
    "require": "stacks or architectures, comma separated, that must really have been run",
    "report": "write what was done as JSON to this file",
    "explain": "show what would be done and why, and do nothing",
    "strict": "stop when the preflight says that the program will be refused",
    "trace": "write down what the program asks of CUDA, by the layer's own tracing libraries, and sum it up",
    "no-profile": "apply no known safe settings for recognised programs",
    "args-file": "a JSON file with a list of strings: the program's arguments",
    "target": "the folder of the program",
    "all": "everything this user has placed",
    "ours": "restore the originals even where files were changed since; the changed ones are kept beside",
    "theirs": "keep what is there now; the originals are moved aside",
    "for-gpu": "show only the stacks for this GPU, for example gfx1200",
    "only": "only this one, by its id",
    "write": "write the change; without it only the difference is shown",
    "artifact": "an artifact of pins.lock by its id",
    "tag": "the release to look at instead of the newest",
    "url": "the https address of the file to pin",
    "id": "the new artifact's id",
    "license": "the licence of what is downloaded, as an SPDX expression",
    "import": "a document somebody sent you: it is checked and filed, and never believed as measured here",
    "bundle": "write one redacted zip with facts, findings and logs for a bug report",
    "supplied": "the folder with files that nobody publishes and that you bring yourself",
    "workload": "which workload: gemm, gemm-float64, copy, launch-latency, or a .toml file about your own",
    "size": "its size, for example the edge of the matrices",
    "trials": "how many times it is run, each in a process of its own (implies --record)",
    "record": "write a run record below stage/reports, which `compare` reads",
    "records": "a run record (.json) or a CSV file with the columns runtime, trial, iteration and metrics",
    "and": "a second record of the same workload, whose trials are added",
    "baseline": "the runtime to compare with, as the record calls it",
    "candidate": "the runtime that is judged",
    "warmup": "how many first iterations of every trial do not count",
    "margin": "percent that are too small to matter (default 2)",
    "primary": "the metric that decides, perhaps with :higher or :lower",
    "plot": "draw the comparison into this file (.svg or .png)",
    "a": "the first stack: the baseline",
    "b": "the second stack; the same one again shows how much is noise",
    "rounds": "at most this many blocks of A B B A (default 10)",
    "width": "stop when the interval is at most plus or minus this many percent (default 1)",
    "compile": "clear the translation layer's compile cache instead of the store",
    "dry-run": "show what would go, and do nothing",
    "remove": "take the script away instead of writing it",
    "to": "the generation to go back to, by its number",
}

#: The one option that may also be a bare word: ``invoke compare FILE``.
BARE: Final = "records"


def refuse_stray_words(task: str, options: Mapping[str, object], argv: Sequence[str]) -> None:
    """Refuse a second word after a task: Invoke would run it as another task.

    Args:
        task: the task's name as typed.
        options: the task's parameters as Invoke read them; switches are the ``bool`` ones.
        argv: the process's own arguments.

    Raises:
        UsageError: for ``invoke wrap --exe=app.exe status``; the hint asks whether ``--`` was meant.
    """
    words = list(argv[1:])
    if "--" in words:
        words = words[: words.index("--")]
    if task not in words:
        return
    switches = {
        f"--{name.strip('_').replace('_', '-')}" for name, value in options.items() if isinstance(value, bool)
    }
    rest = iter(words[words.index(task) + 1 :])
    for word in rest:
        if word.startswith("-"):
            if "=" not in word and word not in switches:
                next(rest, None)
            continue
        if word == options.get(BARE):
            continue
        msg = f"one task at a time: {word!r} after {task!r} is a word too many"
        if task != "wrap":
            raise UsageError("stray-word", msg, hint=f"run it by itself: invoke {word}")
        hint = f"did you mean `--`? Arguments for the program go after it: invoke wrap … -- {word}"
        raise UsageError("stray-word", msg, hint=hint)

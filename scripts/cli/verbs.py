"""The registry of the command line: every verb, its options, and what both mean.

Whoever reads, explains or performs a line asks this table: the parser, Invoke's tasks, ``--list`` and
``--help``, the tables of README and of the exit-code page. A new option is a row here and a keyword of its
use case; a new verb is a row here, a use case in ``scripts/app`` and a view in ``scripts/cli/views``.

Standard library only: lines are read before there is an environment.
"""

from __future__ import annotations

from typing import Final

from scripts.cli.registry import Option, Verb

JSON: Final = Option("json", "print one JSON object on stdout; everything else goes to stderr")

_OPTIONS: Final = {
    option.name: option
    for option in (
        Option("stack", "a stack of pins.lock by its id (`invoke stacks` lists them)", "ID"),
        Option("gpu", "which GPU, by its number in `invoke scan`", "NUMBER"),
        Option("for", "another machine's system: windows or linux; --gpu is then its architecture", "SYSTEM"),
        Option("with", "optional parts to add, comma separated (for example libtorch)", "PARTS"),
        Option("yes", "answer the question before it is asked with yes"),
        Option("offline", "use the store and mirrors in folders only; connect to nothing"),
        Option(
            "mirror",
            "a folder or URL asked first for every download; the pinned hash still decides",
            "FOLDER|URL",
        ),
        Option("supplied", "the folder with files that cannot be downloaded and that you bring", "FOLDER"),
        Option("only-proven", "refuse a stack without committed evidence for this GPU"),
        Option("force", "take the named stack although it does not cover this GPU"),
        Option("deep", "read and hash every file, not only what would be loaded"),
        Option(
            "hip-root",
            "also look at this HIP runtime's folder; everything else takes it where HIP_PATH names it",
            "FOLDER",
        ),
        Option(
            "from-hipinfo",
            "read hipInfo output from a file (or - for standard input) instead of asking this machine",
            "FILE",
        ),
        Option("exe", "the program", "PROGRAM"),
        Option("code", "explain one status: a number, or a name such as CUBLAS_STATUS_NOT_SUPPORTED", "CODE"),
        Option("path", "the program's file or folder; all device code below it is compiled", "PATH"),
        Option("via", "how the libraries get in: auto, env, launcher or beside", "WAY", "auto"),
        Option("keep", "leave what was placed beside the program until `unwrap` (implies --via=beside)"),
        Option("timeout", "seconds (or 90s, 5m, 1h) after which the whole process tree is ended", "DURATION"),
        Option("set", "a variable for the program's environment", "NAME=VALUE", many=True),
        Option("cwd", "the folder the program starts in", "FOLDER"),
        Option("log", "also write the program's output to this file", "FILE"),
        Option("report", "write what was done as JSON to this file", "FILE"),
        Option("explain", "show what would be done and why, and do nothing"),
        Option("details", "show everything: all reasons, who asks for which library, all device code"),
        Option("kernels", "list every kernel with its readable name and what the stack makes of it"),
        Option("all-stacks", "hold the program against every pinned stack for its system, side by side"),
        Option("strict", "stop when the preflight says that the program will be refused"),
        Option(
            "trace", "record the program's CUDA calls with the layer's own tracing libraries, and sum them up"
        ),
        Option("no-profile", "apply no known safe settings for recognised programs"),
        Option("without", "safe settings to leave out, comma separated (for example math-sdp)", "NAMES"),
        Option(
            "expect-gpu",
            "end with 42 when the program says that it found no GPU, or did not load the stack's driver",
        ),
        Option("args-file", "a JSON file with a list of strings: the program's arguments", "FILE"),
        Option("require", "stacks or architectures, comma separated, that must really have been run", "IDS"),
        Option("target", "the folder of the program", "FOLDER"),
        Option("all", "everything this user has placed"),
        Option(
            "ours", "restore the originals even where files were changed since; the changed ones stay beside"
        ),
        Option("theirs", "keep what is there now; the originals are moved aside"),
        Option("folder", "the folder with the documents of the round", "FOLDER"),
        Option("output", "the folder the site is written to (docs/site where it is left out)", "FOLDER"),
        Option("for-gpu", "show only the stacks for this GPU, for example gfx1200", "GFX"),
        Option("only", "only this artifact, by its id", "ID"),
        Option("compare", "two matrices side by side: the first document", "FILE"),
        Option(
            "device",
            "cpu asks PyTorch's own CPU device instead, which shows whether the probes themselves are right",
            "NAME",
            "cuda",
        ),
        Option("quick", "only the subset that `setup` and `validate` run"),
        Option("fresh", "begin anew although an interrupted matrix could go on"),
        Option("write", "write the change; without it only the difference is shown"),
        Option("artifact", "an artifact of pins.lock by its id", "ID"),
        Option("tag", "the release to look at instead of the newest", "TAG"),
        Option("url", "the https address of the file to pin", "URL"),
        Option("id", "the new artifact's id", "ID"),
        Option("license", "the licence of what is downloaded, as an SPDX expression", "SPDX"),
        Option(
            "import",
            "a document from another machine, or a report of CUDA-for-AMD-Windows, or a folder of either: "
            "checked and filed, never believed as measured here",
            "FILE|FOLDER",
        ),
        Option("bundle", "write one redacted zip with facts, findings and logs for a bug report"),
        Option(
            "workload",
            "gemm, gemm-float64, copy, launch-latency, or a .toml file about your own",
            "NAME|FILE",
            "gemm",
        ),
        Option("size", "its size, for example the edge of the matrices", "NUMBER"),
        Option("trials", "how many times it is run, each in its own process (implies --record)", "NUMBER"),
        Option("record", "write a run record below stage/reports, which `compare` reads"),
        Option(
            "records",
            "a run record (.json), or a CSV file with the columns runtime, trial, iteration and metrics",
            "FILE",
        ),
        Option("and", "a second record of the same workload, whose trials are added", "FILE"),
        Option("baseline", "the runtime to compare with, as the record calls it", "NAME"),
        Option("candidate", "the runtime that is judged", "NAME"),
        Option("warmup", "how many first iterations of every trial do not count", "NUMBER"),
        Option("margin", "percent that are too small to matter (2 where it is left out)", "PERCENT"),
        Option("primary", "the metric that decides, perhaps with :higher or :lower", "METRIC"),
        Option("plot", "draw the comparison into this file (.svg or .png)", "FILE"),
        Option("a", "the first stack: the baseline", "ID"),
        Option("b", "the second stack; the same one again shows how much is noise", "ID"),
        Option("rounds", "at most this many blocks of A B B A (10 where it is left out)", "NUMBER"),
        Option(
            "width",
            "stop when the interval is at most this many percent wide on each side (1 where it is left out)",
            "PERCENT",
        ),
        Option("compile", "clear the translation layer's compile cache instead of the store"),
        Option("dry-run", "show what would be removed, and do nothing"),
        Option("remove", "remove the script instead of writing it"),
        Option("to", "the generation to go back to, by its number", "NUMBER"),
    )
}


def _take(names: str, *more: Option) -> tuple[Option, ...]:
    """Return options by name; a ``!`` marks a required one. ``json`` comes last, always."""
    taken = (_OPTIONS[name.rstrip("!")]._replace(required=name.endswith("!")) for name in names.split())
    return (*taken, *more, JSON)


START: Final = "start here"
PROGRAMS: Final = "programs"
MACHINE: Final = "this machine"
STACKS: Final = "stacks"
MEASURING: Final = "measuring"
UPKEEP: Final = "upkeep"

_ONLY_PROBES: Final = _OPTIONS["only"]._replace(
    help="these probes, by name or pattern (cufft-*), comma separated; !NAME leaves one out", value="NAMES"
)
_PYTHON: Final = _OPTIONS["exe"]._replace(
    help="the Python that runs them, with NumPy, and PyTorch for its probes", value="PYTHON"
)
_SECOND: Final = _OPTIONS["and"]._replace(help="the second document")
_REMOVE_YES: Final = _OPTIONS["yes"]._replace(help="remove them; without it they are only named")
_READ_LOG: Final = _OPTIONS["log"]._replace(
    help="explain a program's output: the file that holds it, or - for standard input"
)

_ALL: Final = (
    Verb(
        "setup",
        START,
        "Choose a stack for this machine, fetch, verify, assemble, check, run, report.",
        _take("stack gpu with yes offline mirror supplied only-proven force"),
        view="stacks",
        home="setup.setup",
        example="--yes",
    ),
    Verb(
        "wrap",
        START,
        "Run a program with a stack's CUDA libraries.",
        _take(
            "exe! stack via keep timeout set cwd log report explain strict no-profile without expect-gpu "
            "args-file trace",
        ),
        view="wrap",
        home="wrap.wrap",
        example="--exe=blender -- --background scene.blend",
        bare="exe",
        rest="ARGUMENTS…",
    ),
    Verb("status", START, "Show what is active, placed, and left over.", _take(""), view="status"),
    Verb(
        "preflight",
        PROGRAMS,
        "Read a program's files: what it needs, and what a stack has of that. Nothing is run.",
        _take("exe! stack strict details kernels all-stacks"),
        view="preflight",
        example="--exe=blender",
        bare="exe",
    ),
    Verb(
        "native",
        PROGRAMS,
        "Say how a program runs on this GPU without translation, with the commands.",
        _take(
            "exe", _OPTIONS["gpu"]._replace(help="a number in `invoke scan`, or an architecture", value="GPU")
        ),
        view="native",
        example="--gpu=gfx1031",
        bare="exe",
    ),
    Verb(
        "precompile",
        PROGRAMS,
        "Compile a program's device code now with the layer's own tool, so that its first run need not.",
        _take("path! stack timeout"),
        view="checks",
        example="--path=blender",
        bare="path",
    ),
    Verb(
        "unwrap",
        PROGRAMS,
        "Undo what was placed beside programs.",
        _take("exe target all ours theirs"),
        view="unwrap",
        example="--all",
    ),
    Verb(
        "shim",
        PROGRAMS,
        "Write a script that starts a program with a stack by a double click, or remove it.",
        _take("exe! stack args-file remove"),
        view="unwrap",
        example="--exe=blender",
        bare="exe",
    ),
    Verb(
        "scan",
        MACHINE,
        "Show this machine: GPUs, drivers, HIP runtimes.",
        _take("gpu hip-root from-hipinfo"),
        view="scan",
    ),
    Verb(
        "doctor",
        MACHINE,
        "Say whether anything is wrong here, and why a program fails.",
        (_READ_LOG, *_take("exe code")),
        view="doctor",
        home="doctor.doctor",
        example="--log=program.log",
    ),
    Verb(
        "report",
        MACHINE,
        "Show this machine's newest documents, file one from elsewhere, or bundle all for a bug report.",
        _take("import bundle"),
        view="report",
        example="--bundle",
    ),
    Verb(
        "stacks",
        STACKS,
        "List the pinned stacks, whether they fit here, and what documents show.",
        _take("for-gpu"),
        view="stacks",
        example="--for-gpu=gfx1200",
    ),
    Verb(
        "use",
        STACKS,
        "Make a staged stack the active one.",
        _take("stack!"),
        view="stacks",
        home="stacks",
        example="--stack=cpu-reference",
        bare="stack",
    ),
    Verb(
        "rollback",
        STACKS,
        "Go back to the stack that was active before.",
        _take("to"),
        view="stacks",
        home="stacks",
        example="--to=1",
    ),
    Verb(
        "fetch",
        STACKS,
        "Bring a stack's archives into the store, verified by hash.",
        _take("stack gpu for with yes offline mirror"),
        view="stacks",
        home="stage",
        example="--for=windows --gpu=gfx1100",
    ),
    Verb(
        "stage",
        STACKS,
        "Assemble a stack in the store, or repair it; it is not made active.",
        _take("stack gpu for with yes offline mirror supplied force"),
        view="stacks",
        example="--stack=cpu-reference",
    ),
    Verb(
        "verify",
        STACKS,
        "Read and hash what would be loaded: is it what the lock says?",
        _take("stack deep"),
        view="stacks",
        example="--deep",
    ),
    Verb(
        "check",
        MEASURING,
        "Ask whether a stack's CUDA libraries load here.",
        _take("stack timeout"),
        view="checks",
    ),
    Verb(
        "probe",
        MEASURING,
        "Ask a stack one question after the other whose answers are known, and count the right ones.",
        (
            _OPTIONS["stack"],
            _ONLY_PROBES,
            _PYTHON,
            *(_OPTIONS[name] for name in ("timeout", "quick", "fresh", "device", "compare")),
            _SECOND,
            JSON,
        ),
        view="probe",
        example="--only=memory-*",
    ),
    Verb(
        "run",
        MEASURING,
        "Run a workload with a known answer.",
        _take("workload stack size timeout trials record"),
        view="checks",
        home="bench.run",
        example="--workload=gemm --trials=4",
    ),
    Verb(
        "compare",
        MEASURING,
        "Compare two runtimes' trials: better, worse, the same, or not distinguishable from noise.",
        _take("records! and baseline candidate warmup margin primary plot"),
        view="compare",
        home="bench.compare",
        example="evidence/records/ppo-ab-2026-09-13.csv --warmup=1 --baseline=upstream",
        bare="records",
    ),
    Verb(
        "ab",
        MEASURING,
        "Measure two stacks in turn (A B B A) until the interval is narrow, and compare them.",
        _take("a! b! workload rounds size width margin timeout"),
        view="compare",
        home="bench.ab",
        example="--a=cpu-reference --b=cpu-reference",
    ),
    Verb(
        "validate",
        MEASURING,
        "Run every validation step with one stack here: verify, check, run, wrap, undo, prove the undo.",
        _take("stack require exe report yes offline mirror supplied"),
        view="report",
        home="validate.validate",
        example="--stack=cpu-reference",
    ),
    Verb(
        "validate-round",
        MEASURING,
        "Judge a round of validations by its documents; `nox -s validate` ends with it.",
        _take("folder! require"),
        view="report",
        home="validate.round",
        example="--folder=stage/reports/rounds/20261201T120000Z-1",
    ),
    Verb(
        "matrix", UPKEEP, "Write all evidence as a site.", _take("output"), "report", example="--output=site"
    ),
    Verb(
        "cache.list",
        UPKEEP,
        "Show what the store holds and who needs it.",
        _take(""),
        view="status",
        home="cache",
    ),
    Verb(
        "cache.prune",
        UPKEEP,
        "Remove what no generation, placement or shim refers to.",
        _take("compile dry-run"),
        view="status",
        home="cache",
        example="--dry-run",
    ),
    Verb(
        "pins.check",
        UPKEEP,
        "Hash upstream's bytes again and compare them with the lock; nothing is kept.",
        _take("only offline"),
        view="pins",
        example="--only=zluda-windows-v6",
    ),
    Verb(
        "pins.update",
        UPKEEP,
        "Ask releases for their digests and propose newer ones as new stacks beside the old.",
        _take(
            "artifact tag",
            _OPTIONS["gpu"]._replace(
                help="complete the stack proposed for this architecture from AMD's index (all: every one)",
                value="GFX",
            ),
            _OPTIONS["write"],
        ),
        view="pins",
        example="--write",
    ),
    Verb(
        "pins.add",
        UPKEEP,
        "Pin one more file: download, hash, compare with its release's digest.",
        _take("url! id license write"),
        view="pins",
        example="--url=https://example.org/layer.zip --id=layer --license=MIT",
    ),
    Verb("remove", UPKEEP, "Remove everything this workspace made.", _take("", _REMOVE_YES), view="status"),
    Verb(
        "test",
        UPKEEP,
        "Run this project's own tests; further words go to pytest.",
        (Option("all", "also the slow proofs"),),
        view="",
        example="--all",
        rest="PYTEST-ARGUMENTS…",
    ),
)

VERBS: Final = {verb.name: verb for verb in _ALL}
#: Verbs that are a use case; ``test`` is the front door's own.
TEST: Final = "test"
TASKS: Final = tuple(name for name in VERBS if name != TEST)
WRAP: Final = "wrap"

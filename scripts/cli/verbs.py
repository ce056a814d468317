"""The registry of the command line: every verb, its options, and what both mean.

Whoever reads, explains or performs a line asks this table: the parser, Invoke's tasks, ``--list`` and
``--help``, the tables of README and of the exit-code page. A new option is an ``Option`` here (or in
``options.py``, taken by name) and a keyword of its use case; a new verb is a row here, a use case in
``scripts/app`` and a view in ``scripts/cli/views``.

Standard library only: lines are read before there is an environment.
"""

from __future__ import annotations

from typing import Final

from scripts.cli.options import JSON, SHARED, Option, Verb, take

START: Final = "start here"
PROGRAMS: Final = "programs"
MACHINE: Final = "this machine"
STACKS: Final = "stacks"
MEASURING: Final = "measuring"
UPKEEP: Final = "upkeep"

_ONLY_PROBES: Final = SHARED["only"]._replace(
    help="these probes, by name or pattern ('cufft-*'), comma separated; '!NAME' leaves one out",
    value="NAMES",
)
_PYTHON: Final = SHARED["exe"]._replace(
    help="the Python that runs them, with NumPy, and PyTorch for its probes", value="PYTHON"
)
_RUNNER: Final = SHARED["exe"]._replace(
    help="the Python that runs a workload of ours, for example one that has PyTorch", value="PYTHON"
)
_WARMED: Final = SHARED["exe"]._replace(help="with --dynamic: the Python with your PyTorch", value="PYTHON")
_REMOVE_YES: Final = SHARED["yes"]._replace(help="remove them; without it they are only named")
_INTO_BUNDLE: Final = Option(
    "bundle", "also write them into one file, which `setup --supplied=FILE` takes on another machine", "FILE"
)
_SBOM: Final = Option("sbom", "print what this stack brings as a CycloneDX document, and nothing else", "ID")
_SUBMIT: Final = Option("submit", "show and write what the project's issue form would get; nothing is sent")
_OPEN: Final = Option("open", "the same, and open that form in the browser, its short fields filled in")
_READ_LOG: Final = SHARED["log"]._replace(
    help="explain a program's output: the file that holds it, or - for standard input"
)

_ALL: Final = (
    Verb(
        "setup",
        START,
        "Choose a stack for this machine, fetch, verify, assemble, check, run, report.",
        take("stack gpu with yes offline mirror supplied only-proven force"),
        view="setup",
        example="--yes",
    ),
    Verb(
        "wrap",
        START,
        "Run a program with a stack's CUDA libraries.",
        take(
            "exe! stack via keep timeout set cwd log report explain strict no-profile without policy "
            "expect-gpu args-file trace",
        ),
        view="wrap",
        example="--exe=blender -- --background scene.blend",
        bare="exe",
        rest="ARGUMENTS…",
    ),
    Verb("status", START, "Show what is active, placed, and left over.", take(""), view="status"),
    Verb(
        "preflight",
        PROGRAMS,
        "Read a program's files: what it needs, and what a stack has of that. Nothing is run.",
        take("exe! stack strict details kernels all-stacks"),
        view="preflight",
        example="--exe=blender",
        bare="exe",
    ),
    Verb(
        "native",
        PROGRAMS,
        "Say how a program runs on this GPU without translation, with the commands.",
        take(
            "exe",
            SHARED["gpu"]._replace(help="a number in `scan`, a product or an architecture", value="GPU"),
        ),
        view="status",
        example="--gpu=gfx1031",
        bare="exe",
        home="scan",
    ),
    Verb(
        "precompile",
        PROGRAMS,
        "Compile a program's device code now with the layer's own tool, so that its first run need not.",
        take("path stack timeout dynamic", _WARMED),
        view="measuring",
        example="--path=blender",
        bare="path",
    ),
    Verb(
        "unwrap",
        PROGRAMS,
        "Undo what was placed beside programs.",
        take("exe target all ours theirs"),
        view="wrap",
        example="--all",
    ),
    Verb(
        "shim",
        PROGRAMS,
        "Write a script that starts a program with a stack by a double click, or remove it.",
        take("exe! stack args-file remove"),
        view="wrap",
        example="--exe=blender",
        bare="exe",
    ),
    Verb(
        "scan",
        MACHINE,
        "Show this machine: GPUs, drivers, HIP runtimes.",
        take("gpu hip-root from-hipinfo"),
        view="status",
    ),
    Verb(
        "doctor",
        MACHINE,
        "Say whether anything is wrong here, and why a program fails.",
        (_READ_LOG, *take("exe code")),
        view="doctor",
        example="--log=program.log",
    ),
    Verb(
        "report",
        MACHINE,
        "Show this machine's newest documents, file one from elsewhere, prepare one to send, or bundle all.",
        take("import bundle", _SUBMIT, _OPEN),
        view="report",
        example="--bundle",
    ),
    Verb(
        "stacks",
        STACKS,
        "List the pinned stacks, whether they fit here, and what documents show; or what to use on a GPU.",
        take("for-gpu", _SBOM),
        view="stacks",
        example="--for-gpu=gfx1200",
    ),
    Verb(
        "use",
        STACKS,
        "Make a staged stack the active one.",
        take("stack!"),
        view="stacks",
        home="stacks",
        example="--stack=cpu-reference",
        bare="stack",
    ),
    Verb(
        "rollback",
        STACKS,
        "Go back to the stack that was active before.",
        take("to"),
        view="stacks",
        home="stacks",
        example="--to=1",
    ),
    Verb(
        "fetch",
        STACKS,
        "Bring a stack's archives into the store, verified by hash.",
        take("stack gpu for with yes offline mirror", _INTO_BUNDLE),
        view="setup",
        home="setup",
        example="--for=windows --gpu=gfx1100",
    ),
    Verb(
        "stage",
        STACKS,
        "Assemble a stack in the store, or repair it; it is not made active.",
        take("stack gpu for with yes offline mirror supplied force"),
        view="setup",
        example="--stack=cpu-reference",
        home="setup",
    ),
    Verb(
        "verify",
        STACKS,
        "Read and hash what would be loaded: is it what the lock says?",
        take("stack deep"),
        view="stacks",
        example="--deep",
    ),
    Verb(
        "check",
        MEASURING,
        "Ask whether a stack's CUDA libraries load here.",
        take("stack timeout"),
        view="measuring",
    ),
    Verb(
        "probe",
        MEASURING,
        "Ask a stack one question after the other whose answers are known, and count the right ones.",
        (
            SHARED["stack"],
            _ONLY_PROBES,
            _PYTHON,
            *(SHARED[name] for name in ("timeout", "quick", "fresh", "device", "compare")),
            JSON,
        ),
        view="measuring",
        example="--only='memory-*'",
    ),
    Verb(
        "run",
        MEASURING,
        "Run a workload with a known answer.",
        take("workload stack size timeout trials record budget", _RUNNER),
        view="measuring",
        example="--workload=gemm --trials=4",
    ),
    Verb(
        "compare",
        MEASURING,
        "Compare two runtimes' trials: better, worse, the same, or not distinguishable from noise.",
        take("records! and baseline candidate warmup margin primary plot"),
        view="measuring",
        example="evidence/records/ppo-ab-2026-09-13.csv --warmup=1 --baseline=upstream",
        bare="records",
    ),
    Verb(
        "ab",
        MEASURING,
        "Measure two stacks in turn (A B B A) until the interval is narrow, and compare them.",
        take("a! b! workload rounds size width margin timeout slowdown", _RUNNER),
        view="measuring",
        example="--a=cpu-reference --b=cpu-reference",
    ),
    Verb(
        "validate",
        MEASURING,
        "Run every validation step with one stack here: verify, check, run, wrap, undo, prove the undo.",
        take("stack require exe report yes offline mirror supplied"),
        view="report",
        example="--stack=cpu-reference",
    ),
    Verb(
        "validate-round",
        MEASURING,
        "Judge a round of validations by its documents; `nox -s validate` ends with it.",
        take("folder! require"),
        view="report",
        home="validate",
        example="--folder=stage/reports/rounds/20261201T120000Z-1",
    ),
    Verb(
        "matrix", UPKEEP, "Write all evidence as a site.", take("output"), "report", example="--output=site"
    ),
    Verb(
        "cache.list",
        UPKEEP,
        "Show what the store holds and who needs it.",
        take(""),
        view="status",
        home="cleanup",
    ),
    Verb(
        "cache.prune",
        UPKEEP,
        "Remove at once what no generation, placement or shim refers to; --dry-run shows it first.",
        take("compile dry-run"),
        view="status",
        home="cleanup",
        example="--dry-run",
    ),
    Verb(
        "pins.check",
        UPKEEP,
        "Hash upstream's bytes again and compare them with the lock; nothing is kept.",
        take("only offline stale"),
        view="pins",
        example="--only=zluda-windows-v6",
        home="pins",
    ),
    Verb(
        "pins.update",
        UPKEEP,
        "Ask releases for their digests and propose newer ones as new stacks beside the old.",
        take(
            "artifact tag",
            SHARED["gpu"]._replace(
                help="complete the stack proposed for this architecture from AMD's index (all: every one)",
                value="GFX",
            ),
            SHARED["for"]._replace(help="the system meant with --gpu, where it is not this one"),
            SHARED["write"],
        ),
        view="pins",
        example="--write",
    ),
    Verb(
        "pins.add",
        UPKEEP,
        "Pin one more file: download, hash, compare with its release's digest.",
        take("url! id license write"),
        view="pins",
        example="--url=https://example.org/layer.zip --id=layer --license=MIT",
        home="pins",
    ),
    Verb(
        "remove",
        UPKEEP,
        "Remove everything this workspace made.",
        take("", _REMOVE_YES),
        view="status",
        home="cleanup",
    ),
    Verb(
        "test",
        UPKEEP,
        "Run this project's own tests; further words go to pytest.",
        (Option("all", "also the slow tests and proofs"),),
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

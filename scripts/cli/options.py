"""The options that tasks take by name, a row each, and the types of a row. Standard library only."""

from __future__ import annotations

from typing import Final, NamedTuple

#: Options whose parameter ends with an underscore, because Python needs the word itself.
TAKEN: Final = frozenset({"all", "and", "compile", "for", "import", "open", "set", "with"})


class Option(NamedTuple):
    """One option.

    Attributes:
        name: as typed, without the dashes.
        value: what stands for its value in a usage line; empty for a switch. Two words: it takes two values.
        default: what the use case assumes; shown in the help.
        required: whether the verb refuses to run without it.
        many: whether it can be given several times.
    """

    name: str
    help: str
    value: str = ""
    default: str = ""
    required: bool = False
    many: bool = False

    @property
    def parameter(self) -> str:
        """The keyword of the use case."""
        name = self.name.replace("-", "_")
        return f"{name}_" if name in TAKEN else name

    @property
    def is_switch(self) -> bool:
        """Whether it takes no value."""
        return not self.value

    @property
    def is_list(self) -> bool:
        """Whether the use case gets a list of values."""
        return self.many or self.takes > 1

    @property
    def takes(self) -> int:
        """How many values follow it each time."""
        return len(self.value.split())

    @property
    def form(self) -> str:
        """How it is typed, for example ``--stack=ID``."""
        return f"--{self.name}={self.value}" if self.value else f"--{self.name}"


class Verb(NamedTuple):
    """One verb: a use case in ``scripts/app``, a view ``show_...`` in ``scripts/cli/views``.

    Attributes:
        name: as typed, for example ``pins.check``.
        group: the heading it stands under in ``--list``.
        summary: one sentence.
        options: in the order of the help; ``json`` is every verb's last.
        view: the module of ``scripts/cli/views`` that holds its view.
        example: what is typed behind its name.
        home: the module of ``scripts/app`` that holds its use case, where it has another name.
        bare: the option that can also be given as a bare word.
        rest: what follows belongs to a program, or to pytest; its name in a usage line.
    """

    name: str
    group: str
    summary: str
    options: tuple[Option, ...]
    view: str
    home: str = ""
    example: str = ""
    bare: str = ""
    rest: str = ""

    @property
    def module(self) -> str:
        """The name of its use case, as Python spells it."""
        return self.name.replace(".", "_").replace("-", "_")

    def option(self, name: str) -> Option | None:
        """Return the option of this name."""
        return next((option for option in self.options if option.name == name), None)


JSON: Final = Option("json", "print one JSON object on stdout; everything else goes to stderr")


SHARED: Final = {
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
        Option("supplied", "a bundle of `fetch --bundle`, or a folder with files you bring", "FILE|FOLDER"),
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
        Option("dynamic", "make one update in a PyTorch instead: forward, backward, optimizer step"),
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
        Option(
            "policy",
            "auto: switch on what goes around PyTorch's probes that failed with this stack on this GPU",
            "auto",
        ),
        Option("without", "safe settings to leave out, comma separated (for example math-sdp)", "NAMES"),
        Option(
            "expect-gpu",
            "end with 42 when the program says that it found no GPU, or was seen not to load the stack's "
            "driver; where that is not known, with its own code",
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
        Option(
            "for-gpu",
            "what to use on this GPU: a product's name, gfx1200, hipInfo's output or a file with it",
            "GPU",
        ),
        Option("only", "only this artifact, by its id", "ID"),
        Option("stale", "say which pins are behind what upstream names; no file is downloaded"),
        Option("compare", "hold the documents of two earlier runs side by side; nothing is run", "FILE FILE"),
        Option(
            "device",
            "cpu asks PyTorch's own CPU device instead, which shows whether the probes themselves are right",
            "NAME",
            "cuda",
        ),
        Option("quick", "only the subset that `setup` and `validate` run"),
        Option("fresh", "start again although an interrupted matrix could go on"),
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
            "one of ours (docs/workloads.md): gemm, fft, ppo and others; or a .toml file about your own",
            "NAME|FILE",
            "gemm",
        ),
        Option("size", "its size, for example the edge of the matrices", "NUMBER"),
        Option("trials", "how many times it is run, each in its own process (implies --record)", "NUMBER"),
        Option(
            "budget",
            "put each trial beside one of the device's own library; end with 3 if it may cost more than this",
            "PERCENT",
        ),
        Option("slowdown", "make B's workload slower by this much, to see whether that is found", "PERCENT"),
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


def take(names: str, *more: Option) -> tuple[Option, ...]:
    """Return options by name; a ``!`` marks a required one. ``json`` comes last, always."""
    taken = (SHARED[name.rstrip("!")]._replace(required=name.endswith("!")) for name in names.split())
    return (*taken, *more, JSON)

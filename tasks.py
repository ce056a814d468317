"""Invoke tasks: read the command line, call one use case, render, end with its exit code.

``invoke --list`` shows them, ``invoke --help TASK`` explains one. Every parameter is a string or a
switch, because Invoke passes nothing else faithfully; the use cases read them and complain by name.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

from invoke.collection import Collection
from invoke.context import Context
from invoke.exceptions import Exit, ParseError
from invoke.parser.argument import Argument
from invoke.program import Program
from invoke.tasks import Task
from invoke.tasks import task as invoke_task

sys.path.insert(0, str(Path(__file__).resolve().parent))

from scripts import __version__
from scripts.ui.commandline import HELP
from scripts.ui.streams import ready_streams

task = functools.partial(invoke_task, auto_shortflags=False)


class Spelled(str):
    """An option of one letter that keeps its two dashes: Invoke counts letters and would make it ``-a``."""

    __slots__ = ()

    def __len__(self) -> int:
        """Count as more than one."""
        return 2

    def _itself(self, *_words: str) -> Spelled:
        """Survive Invoke's translation of underscores."""
        return self

    lstrip = rstrip = replace = _itself  # type: ignore[assignment]  # accepts what str's own accept


class LongOptions(Task):  # type: ignore[type-arg]  # generic only for type checkers
    """A task whose options all have two dashes."""

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        """Respell options of one letter."""
        arguments = super().get_arguments(ignore_unknown_help)
        for argument in arguments:
            argument.names = tuple(Spelled(name) if len(name) == 1 else name for name in argument.names)
        return arguments


def verb(*options: str, **more: object) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function an Invoke task whose options are explained in one table."""
    return task(help={name: HELP[name] for name in (*options, "json")}, **more)


def call(name: str, options: dict[str, object]) -> None:
    """Perform the use case ``name`` with the task's parameters, and end with its exit code."""
    from scripts.ui.present import perform  # noqa: PLC0415 - `invoke --list` stays quick

    options.pop("c")
    as_json = bool(options.pop("json"))
    raise Exit(code=perform(name, options, argv=sys.argv, as_json=as_json))


@verb("stack", "gpu", "with", "yes", "offline", "mirror", "supplied", "only-proven", "force")
def setup(
    c: Context,
    stack="",
    gpu="",
    with_="",
    yes=False,
    offline=False,
    mirror="",
    supplied="",
    only_proven=False,
    force=False,
    json=False,
):
    """Choose a stack for this machine, fetch, verify, assemble, check, run, report."""
    call("setup", locals())


@verb()
def status(c: Context, json=False):
    """Show what is active, placed, and left over."""
    call("status", locals())


@verb("gpu", "hip-root", "from-hipinfo")
def scan(c: Context, gpu="", hip_root="", from_hipinfo="", json=False):
    """Show this machine: GPUs, drivers, HIP runtimes."""
    call("scan", locals())


@task(help={"log": HELP["read-log"], "exe": HELP["exe"], "code": HELP["code"], "json": HELP["json"]})
def doctor(c: Context, log="", exe="", code="", json=False):
    """Say whether anything is wrong here, and why a program fails."""
    call("doctor", locals())


@verb("stack", "gpu", "with", "yes", "offline", "mirror")
def fetch(c: Context, stack="", gpu="", with_="", yes=False, offline=False, mirror="", json=False):
    """Bring a stack's archives into the store, verified by hash."""
    call("fetch", locals())


@verb("stack", "gpu", "with", "yes", "offline", "mirror", "supplied", "force")
def stage(
    c: Context,
    stack="",
    gpu="",
    with_="",
    yes=False,
    offline=False,
    mirror="",
    supplied="",
    force=False,
    json=False,
):
    """Assemble a stack in the store, or repair it; it is not made active."""
    call("stage", locals())


@verb("stack", "timeout")
def check(c: Context, stack="", timeout="", json=False):
    """Ask whether a stack's CUDA libraries load here."""
    call("check", locals())


@verb("workload", "stack", "size", "timeout", "trials", "record")
def run(c: Context, workload="gemm", stack="", size="", timeout="", trials="", record=False, json=False):
    """Run a workload with a known answer."""
    call("run", locals())


@verb("records", "and", "baseline", "candidate", "warmup", "margin", "primary", "plot")
def compare(
    c: Context,
    records,  # without a default Invoke takes it as a bare word, too
    and_="",
    baseline="",
    candidate="",
    warmup="",
    margin="",
    primary="",
    plot="",
    json=False,
):
    """Compare two runtimes' trials: better, worse, same, or not to be told from noise."""
    call("compare", locals())


@verb("a", "b", "workload", "rounds", "size", "width", "margin", "timeout", klass=LongOptions)
def ab(
    c: Context,
    a="",
    b="",
    workload="gemm",
    rounds="",
    size="",
    width="",
    margin="",
    timeout="",
    json=False,
):
    """Measure two stacks in turn (A B B A) until the interval is narrow, and compare them."""
    call("ab", locals())


@task(
    iterable=["set_"],
    help={
        name: HELP[name]
        for name in (
            "exe",
            "stack",
            "via",
            "keep",
            "timeout",
            "set",
            "cwd",
            "log",
            "report",
            "explain",
            "strict",
            "no-profile",
            "args-file",
            "trace",
            "json",
        )
    },
)
def wrap(
    c: Context,
    exe="",
    stack="",
    via="auto",
    keep=False,
    timeout="",
    set_=None,
    cwd="",
    log="",
    report="",
    explain=False,
    strict=False,
    no_profile=False,
    args_file="",
    trace=False,
    json=False,
):
    """Run a program with a stack's CUDA libraries; what follows `--` are its arguments."""
    from scripts.ui.present import perform_wrap  # noqa: PLC0415 - `invoke --list` stays quick

    options = {name: value for name, value in locals().items() if name not in {"c", "json", "perform_wrap"}}
    raise Exit(code=perform_wrap(options, argv=sys.argv, as_json=json))


@verb("path", "stack", "timeout")
def precompile(c: Context, path="", stack="", timeout="", json=False):
    """Compile a program's device code now with the layer's own tool, so that its first run need not."""
    call("precompile", locals())


@verb("exe", "stack", "strict")
def preflight(c: Context, exe="", stack="", strict=False, json=False):
    """Read a program's files: what it needs, and what a stack has of that. Nothing is run."""
    call("preflight", locals())


@verb("exe", "target", "all", "ours", "theirs")
def unwrap(c: Context, exe="", target="", all_=False, ours=False, theirs=False, json=False):
    """Take back what was placed beside programs."""
    call("unwrap", locals())


@verb("exe", "stack", "args-file", "remove")
def shim(c: Context, exe="", stack="", args_file="", remove=False, json=False):
    """Write a script that starts a program with a stack by a double click, or remove it."""
    call("shim", locals())


@verb("stack", "deep")
def verify(c: Context, stack="", deep=False, json=False):
    """Read and hash what would be loaded: is it what the lock says?"""
    call("verify", locals())


@verb("import", "bundle")
def report(c: Context, import_="", bundle=False, json=False):
    """Show this machine's newest documents, file one that somebody sent, or bundle all for a bug report."""
    call("report", locals())


@verb("stack", "require", "exe", "report", "yes", "offline", "mirror", "supplied")
def validate(
    c: Context,
    stack="",
    require="",
    exe="",
    report="",
    yes=False,
    offline=False,
    mirror="",
    supplied="",
    json=False,
):
    """Climb the whole ladder with one stack here: verify, check, run, wrap, undo, prove the undo."""
    call("validate", locals())


@verb("for-gpu")
def stacks(c: Context, for_gpu="", json=False):
    """List the pinned stacks, whether they fit here, and what documents show."""
    call("stacks", locals())


@verb("stack")
def use(c: Context, stack="", json=False):
    """Make a staged stack the active one."""
    call("use", locals())


@verb("to")
def rollback(c: Context, to="", json=False):
    """Go back to the stack that was active before."""
    call("rollback", locals())


@verb("yes")
def remove(c: Context, yes=False, json=False):
    """Take away everything this workspace made."""
    call("remove", locals())


@verb(name="list")
def cache_list(c: Context, json=False):
    """Show what the store holds and who needs it."""
    call("cache.list", locals())


@verb("compile", "dry-run", name="prune")
def cache_prune(c: Context, compile_=False, dry_run=False, json=False):
    """Take away what no generation, placement or shim refers to."""
    call("cache.prune", locals())


@verb("only", "offline", name="check")
def pins_check(c: Context, only="", offline=False, json=False):
    """Hash upstream's bytes again and compare them with the lock; nothing is kept."""
    call("pins.check", locals())


@verb("artifact", "tag", "write", name="update")
def pins_update(c: Context, artifact="", tag="", write=False, json=False):
    """Ask releases for their digests and propose newer ones as new stacks beside the old."""
    call("pins.update", locals())


@verb("url", "id", "license", "write", name="add")
def pins_add(c: Context, url="", id="", license="", write=False, json=False):  # noqa: A002 - the options' names
    """Pin one more file: download, hash, compare with its release's digest."""
    call("pins.add", locals())


pins = Collection("pins", pins_check, pins_update, pins_add)
cache = Collection("cache", cache_list, cache_prune)
ns = Collection(
    *(setup, status, scan, doctor, fetch, stage, check, run, compare, ab, preflight, precompile, wrap),
    *(unwrap, verify, shim, report, validate, stacks, use, rollback, remove, pins, cache),
)


class FrontDoor(Program):
    """Invoke's program, whose complaint about a line also says what to do."""

    def parse_tasks(self) -> None:
        """Read the line."""
        try:
            super().parse_tasks()
        except ParseError as error:
            from scripts.ui.unreadable import complain  # noqa: PLC0415 - seldom needed

            raise Exit(code=complain(str(error), self.argv, list(ns.task_names))) from error


def main(arguments: list[str]) -> int:
    """Run tasks from anywhere; the same as ``invoke`` inside the checkout."""
    ready_streams()
    program = FrontDoor(name="cuda-on-amd", version=__version__, namespace=ns, binary="invoke")
    code = 0
    try:
        try:
            program.run(["invoke", *(arguments or ["--list"])])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
        sys.stdout.flush()
    except BrokenPipeError:  # `--list | head`: Python would complain again while closing stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code

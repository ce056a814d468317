"""The steps that `setup`, `fetch` and `stage` share: scan, select, summary, fetch, unpack, assemble.

Each step is timed and named, so that a person sees where time went and which one failed.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypedDict, Unpack

from msgspec import Struct, field
from msgspec.structs import replace

from scripts.app.context import Staged, Workspace, cache_of, host_of, lock_of
from scripts.app.download_summary import (
    DownloadRow,
    DownloadSummary,
    custom_settings,
    require_consent,
    summarize_downloads,
)
from scripts.app.evidence_lookup import worth_here
from scripts.errors import FetchError, HostError, IntegrityError, StagedFileError, UsageError
from scripts.host.hip import fitting_root
from scripts.host.hip_libraries import hip_libraries, kernels_for
from scripts.lock.reader import Resolved, resolve
from scripts.model import Artifact, ArtifactFormat, HipSource, Host, Lock, Runtime, Stack, Trust
from scripts.osal.fs import long_path
from scripts.osal.paths import user_path
from scripts.osal.process import run_captured
from scripts.osal.signals import EndedBySignal
from scripts.osal.text import size_text
from scripts.serialize import JsonRecord
from scripts.staging.assemble import (
    PlannedFile,
    RuntimePlan,
    assemble,
    discard_runtime,
    lay_out,
    plan_runtime,
)
from scripts.staging.build import native_files
from scripts.staging.runtimes import load_runtime, read_history, verify_runtime
from scripts.staging.select import Selection, select_for, select_stack
from scripts.store.archive import discard_changed, supplied_files, unpack
from scripts.store.cache import Cache
from scripts.store.fetch import FetchAction, FetchOptions, fetch, plan_fetch, present
from scripts.store.trees import UnpackedTree, load_tree


class FlowStep(JsonRecord, frozen=True, kw_only=True):
    """One step; ``status`` is ``done``, ``kept`` (it was so already), ``skipped`` or ``failed``."""

    name: str
    status: str
    seconds: float
    detail: str = ""


class StepNotes(Struct):
    """What a running step says about itself."""

    status: str = "done"
    detail: str = ""


class SetupRequest(Struct, frozen=True, kw_only=True):
    """What the person asked for, already read."""

    stack: str = ""
    gpu: str = ""
    parts: tuple[str, ...] = ()
    yes: bool = False
    only_proven: bool = False
    supplied: str = ""
    force: bool = False
    system: str = ""
    fetching: FetchOptions = field(default_factory=FetchOptions)


@contextmanager
def _nothing_half_kept() -> Iterator[None]:
    """Note on what stops a compilation that its finished files are not kept, unlike those of other steps."""
    try:
        yield
    except (KeyboardInterrupt, EndedBySignal) as stopped:
        stopped.add_note("the unfinished compilation begins again")
        raise


class Flow(Struct):
    """One walk through the steps; every method is one step and adds its line."""

    ws: Workspace
    request: SetupRequest
    steps: list[FlowStep] = field(default_factory=list)

    @contextmanager
    def step(self, name: str, begin: str = "") -> Iterator[StepNotes]:
        """Time a step, before which ``begin`` is noted; a step that raises is recorded as failed."""
        if begin:
            self.ws.progress.note(begin)
        notes, start = StepNotes(), time.perf_counter()
        try:
            yield notes
        except BaseException:
            notes.status = "failed"
            raise
        finally:
            seconds = round(time.perf_counter() - start, 3)
            self.steps.append(FlowStep(name=name, status=notes.status, seconds=seconds, detail=notes.detail))

    def scan(self) -> Host:
        """Look at the machine."""
        with self.step("scan") as notes:
            # With --for the GPU is another machine's, and nothing here is asked about it.
            host = host_of(self.ws, gpu="" if self.request.system else self.request.gpu)
            gpu = host.selected_gpu
            notes.detail = (
                f"{gpu.name} ({gpu.gfx or gpu.vendor})" if gpu else "no GPU that could run CUDA programs"
            )
            return host

    def take_bundle(self) -> None:
        """Take the archives of a bundle into the store, and mean its stack where none was named.

        A folder is left to the steps that ask for its files.
        """
        path = Path(self.request.supplied) if self.request.supplied else None
        if path is None or long_path(path).is_dir():
            return
        if not long_path(path).is_file():
            hint = "name a bundle of `invoke fetch --bundle=FILE`, or the folder with the files"
            raise UsageError("no-such-file", f"--supplied={path} does not exist", hint=hint)
        from scripts.store.bundle import read_facts, take_bundle  # noqa: PLC0415 - few runs bring one

        with self.step("bundle") as notes:
            lock, facts = lock_of(self.ws), read_facts(path)
            taken = take_bundle(path, cache_of(self.ws), lock.artifacts, progress=self.ws.progress)
            notes.status = "done" if taken else "kept"
            notes.detail = f"{len(taken)} archives of {facts.stack or 'no stack'} verified by hash"
            stack = self.request.stack or (facts.stack if facts.stack in lock.stacks else "")
            # Its own options are meant where its own stack is.
            parts = self.request.parts or (facts.options if stack == facts.stack else ())
            self.request = replace(self.request, stack=stack, parts=parts, supplied="")

    def select(self, host: Host) -> tuple[Lock, Selection, Resolved]:
        """Choose a stack, and look up all its parts."""
        with self.step("select") as notes:
            lock, asked = lock_of(self.ws), self.request
            if asked.system:  # of another machine only what was typed is known
                selection = select_for(
                    lock, worth_here(self.ws), os=asked.system, gfx=asked.gpu, want=asked.stack
                )
            else:
                selection = select_stack(
                    host,
                    lock,
                    worth_here(self.ws),
                    want=asked.stack,
                    only_proven=asked.only_proven,
                    force=asked.force,
                )
                kernels = kernel_notes(lock.stacks[selection.stack_id], host)
                selection = replace(selection, warnings=(*selection.warnings, *kernels))
            notes.detail = f"{selection.stack_id}: {selection.reason}"
            for warning in selection.warnings:
                self.ws.progress.note(warning)
            return lock, selection, resolve(lock, selection.stack_id, with_=asked.parts)

    def staged(self) -> tuple[Staged, Selection]:
        """Scan, select, fetch, verify and assemble."""
        host = self.scan()
        lock, selection, resolved = self.select(host)
        self.confirm_downloads(resolved)
        runtime = self.runtime(resolved)
        return Staged(lock=lock, stack=resolved.stack, runtime=runtime, host=host), selection

    def confirm_downloads(self, resolved: Resolved) -> DownloadSummary:
        """Show what will be downloaded, and ask for agreement; what is unpacked already costs nothing."""
        with self.step("bill") as notes:
            cache = cache_of(self.ws)
            absent = [a for a in resolved.artifacts if load_tree(a, cache) is None]
            summary = summarize_downloads(
                resolved.stack.id,
                tuple(plan_fetch(a, cache, self.request.fetching) for a in absent),
                custom_settings(lock_of(self.ws), resolved.stack),
            )
            require_consent(summary, yes=self.request.yes, ask=self.ws.ask)
            notes.status = "done" if summary.to_download else "kept"
            notes.detail = f"{len(summary.to_download)} to download, {summary.known_bytes:,} bytes"
            return summary

    def runtime(self, resolved: Resolved) -> Runtime:
        """Bring a stack's runtime here, every byte of it verified.

        What changed or vanished since it was assembled is reported and made again, from archives that are
        read and hashed again: the same bytes may lie in the unpacked tree under another name.

        Raises:
            StagedFileError: files vanish or change as soon as they are there.
        """
        plan = self.plan(resolved, self.obtain(resolved))
        try:
            return self.assemble(plan)
        except StagedFileError as error:
            self.ws.progress.note(f"{error.message}: {', '.join(error.context[1:])}; making them again")
            self.steps[-1] = replace(
                self.steps[-1], status="done", detail=f"{error.message}; made again below"
            )
        cache = cache_of(self.ws)
        discard_runtime(cache, plan.digest)
        self.distrust(resolved)
        self.confirm_downloads(resolved)
        return self.assemble(self.plan(resolved, self.obtain(resolved)))

    def distrust(self, resolved: Resolved) -> None:
        """Remove what an earlier run fetched and has changed since; the next step fetches it again."""
        for artifact in resolved.artifacts:
            discard_changed(artifact, cache_of(self.ws), progress=self.ws.progress)

    def obtain(self, resolved: Resolved) -> tuple[tuple[Artifact, UnpackedTree], ...]:
        """Fetch and unpack every part that is not here yet."""
        cache, progress = cache_of(self.ws), self.ws.progress
        trees = {a.id: tree for a in resolved.artifacts if (tree := load_tree(a, cache)) is not None}
        absent = [a for a in resolved.artifacts if a.id not in trees]
        published = [a for a in absent if a.format is not ArtifactFormat.SUPPLIED]
        # First what costs nothing: wrong files are reported before a download.
        for artifact in absent:
            if artifact.format is ArtifactFormat.SUPPLIED:
                trees[artifact.id] = self._supplied(artifact, resolved.stack)
        known = {a.id for a in published if a.sha256 and cache.blob_path(a.sha256).is_file()}
        with self.step("fetch", coming(published, cache)) as notes:
            blobs = [fetch(a, cache, options=self.request.fetching, progress=progress) for a in published]
            notes.status = "done" if blobs else "kept" if trees else "skipped"
            notes.detail = f"{len(blobs)} verified by hash" if blobs else "nothing to download"
        names = ", ".join(artifact.id for artifact in published)
        with self.step("unpack", f"Unpacking {names}" if names else "") as notes:
            notes.status = "done" if absent else "kept" if trees else "skipped"
            for artifact, blob in zip(published, blobs, strict=True):
                hashed = artifact.id not in known  # just now, while it arrived
                trees[artifact.id] = unpack(artifact, cache, blob, progress=progress, hashed=hashed)
            notes.detail = f"{sum(len(t.files) for t in trees.values()):,} files" if trees else ""
        return tuple((a, trees[a.id]) for a in resolved.artifacts)

    def _supplied(self, artifact: Artifact, stack: Stack) -> UnpackedTree:
        """Verify the files a person supplies for a part that is not published."""
        with self.step("supplied") as notes:
            tree = user_supplied_files(self.ws, artifact, stack, self.request.supplied)
            notes.status = "done" if self.request.supplied else "kept"
            notes.detail = f"{len(tree.files)} files are those the lock names"
        return tree

    def plan(self, resolved: Resolved, trees: tuple[tuple[Artifact, UnpackedTree], ...]) -> RuntimePlan:
        """Compile what is ours, and lay everything out."""
        with self.step("build") as notes:
            built, notes.status = self._native(resolved.stack)
            notes.detail = ", ".join(sorted(f.file.name for f in built)) or "nothing of ours in this stack"
        parts = [part for artifact, tree in trees for part in lay_out(resolved.stack, artifact, tree)]
        return plan_runtime(resolved.stack.id, parts, built)

    def _native(self, stack: Stack) -> tuple[tuple[PlannedFile, ...], str]:
        """Compile what is ours; a machine without a compiler gets one, if that is agreed to."""
        ws = self.ws
        build = partial(
            native_files, ws.root, stack, cache_of(ws), ws.environ, ws.platform, progress=ws.progress
        )
        try:
            with _nothing_half_kept():
                return build()
        except HostError as error:
            if error.reference != "no-compiler" or self.request.fetching.offline:
                raise
        provide_compiler(ws, yes=self.request.yes)
        with _nothing_half_kept():
            return build()

    def assemble(self, plan: RuntimePlan) -> Runtime:
        """Make the runtime, hashing every byte that is taken over, or verify the one that is there."""
        with self.step("assemble") as notes:
            cache = cache_of(self.ws)
            runtime, made = assemble(plan, cache, progress=self.ws.progress)
            notes.status = "done" if made else "kept"
            notes.detail = f"{len(runtime.files)} files, digest {runtime.digest[:12]}"
        with self.step("verify") as notes:
            if not made:
                self.ws.progress.note(f"Reading and hashing the {len(runtime.files)} files that are here")
                verify_runtime(runtime, progress=self.ws.progress)
            notes.detail = "every byte read and hashed"
        return runtime


def coming(artifacts: Sequence[Artifact], cache: Cache) -> str:
    """Say what will be downloaded; empty where everything is in the store."""
    absent = [artifact for artifact in artifacts if not present(artifact, cache)]
    size = sum(artifact.size or 0 for artifact in absent)
    return f"Fetching {', '.join(a.id for a in absent)} ({size_text(size)})" if absent else ""


class DownloadWords(TypedDict, total=False):
    """Options of every task that may download, as typed: ``setup``, ``stage``, ``fetch``, ``validate``."""

    stack: str
    yes: bool
    offline: bool
    mirror: str


class FetchWords(DownloadWords, total=False):
    """The same where a person chooses what a stack is made of: ``setup``, ``stage``, ``fetch``."""

    gpu: str
    with_: str


class StageWords(FetchWords, total=False):
    """The same where it is assembled: ``setup``, ``stage``."""

    supplied: str
    force: bool


def read_request(*, only_proven: bool = False, system: str = "", **words: Unpack[StageWords]) -> SetupRequest:
    """Read the options as typed."""
    supplied, mirror = words.get("supplied", ""), words.get("mirror", "")
    parts = tuple(part.strip() for part in words.get("with_", "").split(",") if part.strip())
    brought = str(user_path(supplied, "--supplied")) if supplied else ""
    place = mirror if not mirror or "://" in mirror else str(user_path(mirror, "--mirror"))
    # A folder that a person brings may hold archives too.
    mirrors = tuple(name for name in (place, brought if long_path(Path(brought)).is_dir() else "") if name)
    return SetupRequest(
        stack=words.get("stack", ""),
        gpu=words.get("gpu", ""),
        parts=parts,
        yes=words.get("yes", False),
        only_proven=only_proven,
        supplied=brought,
        force=words.get("force", False),
        system=system,
        fetching=FetchOptions(offline=words.get("offline", False), mirrors=mirrors),
    )


def user_supplied_files(ws: Workspace, artifact: Artifact, stack: Stack, supplied: str) -> UnpackedTree:
    """Return the files of a supplied part: from the folder that was named, else from an earlier set-up.

    Raises:
        IntegrityError: files in the folder are missing or differ; each is named, and each surplus one.
        UsageError: no folder was named, and no earlier set-up has the files.
    """
    if supplied:
        tree = supplied_files(artifact, Path(supplied), progress=ws.progress)
        for name in tree.surplus:
            ws.progress.note(f"{name} is not part of {artifact.id} and was left out")
        return tree
    for folder in _earlier(ws, artifact, stack):
        with suppress(IntegrityError):  # damaged since; `verify` says how
            return supplied_files(artifact, folder, progress=ws.progress)
    msg = f"{artifact.id} is not published anywhere: its files have to be supplied"
    names = tuple(member.name for member in artifact.members)
    raise UsageError("supply-files", msg, context=names, hint="name their folder: --supplied=FOLDER")


def _earlier(ws: Workspace, artifact: Artifact, stack: Stack) -> list[Path]:
    """Return folders of earlier set-ups that hold a part's files under their own names, newest first."""
    if artifact.root or any(member.name != member.path for member in artifact.members):
        return []
    digests = [generation.digest for generation in read_history(ws.stage).of(stack.id)]
    runtimes = [load_runtime(cache_of(ws), digest, stack=stack.id) for digest in dict.fromkeys(digests)]
    return [runtime.path for runtime in runtimes if runtime is not None and runtime.path is not None]


def kernel_notes(stack: Stack, host: Host, home: Path | None = None) -> tuple[str, ...]:
    """Say which libraries have kernels for other GPUs only; nothing where it cannot be seen.

    ``home`` is the HIP runtime that came with the stack; without it the installed one is looked at.
    """
    gpu = host.selected_gpu
    root = fitting_root(stack, host) if stack.hip.source is HipSource.SDK else None
    folder = home if home is not None else root.path if root is not None else None
    if gpu is None or not gpu.gfx or folder is None:
        return ()
    known = hip_libraries()
    return tuple(
        f"{known[name].label} in {folder} has kernels for other GPUs, none for {gpu.gfx}: "
        f"{known[name].cuda} will fail"
        for name, there in kernels_for(folder, gpu.gfx).items()
        if there is False
    )


LOCK: Final = "requirements-zig.lock"
#: The wheel for x86-64 Linux; the others are of the same order.
BYTES: Final = 101_083_562
SECONDS: Final = 1800


def provide_compiler(ws: Workspace, *, yes: bool) -> None:
    """Install the locked ``ziglang`` into the environment that runs us; pip refuses any other bytes.

    Raises:
        UsageError: the download was not agreed to.
        FetchError: pip could not install it.
    """
    row = DownloadRow(
        artifact="ziglang (a C compiler, from PyPI)",
        action=FetchAction.FETCH,
        bytes=BYTES,
        license="MIT",
        trust=Trust.UPSTREAM_DIGEST,
        note="needed once to build the CPU reference; this machine has no C compiler",
    )
    require_consent(DownloadSummary(stack="the C compiler", rows=(row,)), yes=yes, ask=ws.ask)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    ws.progress.note("Installing the C compiler ziglang with pip, once")
    with ws.progress.task("install ziglang", None):
        line = [*pip, "--require-hashes", "-r", str(ws.root / LOCK)]
        done = run_captured(line, timeout=SECONDS)
    if done.timed_out or done.returncode != 0:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()[-5:]
        msg = "pip could not install the C compiler ziglang"
        hint = "install gcc or clang from your system instead, or connect to the package index"
        raise FetchError("compiler-not-installed", msg, context=tuple(lines), hint=hint)
    importlib.invalidate_caches()  # so that this process sees what pip has just put there

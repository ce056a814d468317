"""What preflight must know of a stack: from the lock, from its staged files, and from this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from scripts.host.hip import fitting_root
from scripts.host.hip_libraries import RUNTIME, backends_in_files, backends_in_root, kernels_for
from scripts.launch.injection import LAUNCHER
from scripts.model import HipSource, Host, Lock, Runtime, Stack, StackKind
from scripts.preflight.coverage import Provider, ReportedVersions, StackFacts
from scripts.preflight.cuda_versions import reported_versions
from scripts.preflight.libraries import api_table


def stack_facts(
    lock: Lock, stack: Stack, host: Host, runtime: Runtime | None, environ: Mapping[str, str] | None = None
) -> StackFacts:
    """Put together what a stack has for programs; what is unknown stays ``None``.

    ``environ`` is what a program started now would inherit.
    """
    gpu = host.selected_gpu
    gfx = (gpu.gfx or "") if gpu is not None else ""
    names = _names(lock, stack, runtime)
    backends, places, hip = _hip(stack, host, runtime)
    return StackFacts(
        id=stack.id,
        kind=stack.kind,
        os=stack.requires.os or (host.os if stack.kind is StackKind.REFERENCE else ""),
        providers=_providers(lock, stack, runtime),
        api=api_table(stack.api) if stack.api else None,
        ptx=stack.ptx or "",
        ptx_assumed=bool(stack.ptx) and not any(_is_release(part, stack.ptx) for part in stack.parts),
        exports=_Exports(runtime) if not stack.api else {},
        backends=backends,
        kernels=kernels_for(places, gfx) if places is not None else {},
        machines=_machines(stack, names),
        gfx=gfx,
        hip=hip,
        launcher=LAUNCHER in names,
        reported=_reported(stack, environ or {}),
    )


def _reported(stack: Stack, environ: Mapping[str, str]) -> ReportedVersions | None:
    """Say which CUDA version and capability a stack's driver reports; what the lock sets comes first."""
    own = {policy.name: policy.value for policy in stack.env if policy.value is not None and not policy.only}
    return reported_versions(stack.id, (stack.ptx or "", stack.api or ""), {**environ, **own})


def _is_release(part: str, table: str | None) -> bool:
    """Whether an artifact (``zluda-windows-v6``) is the release that a table (``zluda-v6``) was read from."""
    name, _, release = (table or "").partition("-")
    return part.startswith(f"{name}-") and part.endswith(f"-{release}") and part.count("-v") == 1


def _providers(lock: Lock, stack: Stack, runtime: Runtime | None) -> dict[str, Provider]:
    """Say which file answers for which library: the staged files, else what the lock promises."""
    if runtime is not None:
        return {f.provides: Provider(file=f.name, needs=f.needs) for f in runtime.files if f.provides}
    return {
        member.provides: Provider(file=member.name, needs=member.needs)
        for part in stack.parts
        for member in lock.artifacts[part].members
        if member.provides
    }


def _names(lock: Lock, stack: Stack, runtime: Runtime | None) -> set[str]:
    if runtime is not None:
        return {file.name.lower() for file in runtime.files}
    return {member.name.lower() for part in stack.parts for member in lock.artifacts[part].members}


def _hip(
    stack: Stack, host: Host, runtime: Runtime | None
) -> tuple[dict[str, bool | None], Path | None, str]:
    """Say which HIP libraries are there, in which root, and how a person calls it."""
    if stack.hip.source is HipSource.PARTS:
        if runtime is None or runtime.path is None:
            return {}, None, "the stack's own HIP, which is not staged"
        return backends_in_files(f.name for f in runtime.files), runtime.path / "hip", "the stack's own HIP"
    root = fitting_root(stack, host) if stack.hip.source is not HipSource.NONE else None
    if root is None:
        return {}, None, f"HIP {stack.hip.range}".strip()
    found = backends_in_root(root.libraries)
    if any(name.lower().startswith(RUNTIME) for name in host.driver_files):
        found[RUNTIME] = True  # the display driver brings it
    return found, root.path, f"HIP {root.version or ''} in {root.path}"


def _machines(stack: Stack, names: Iterable[str]) -> frozenset[str]:
    """Say which processors' programs a stack can serve."""
    if stack.kind is StackKind.CONTROL:
        return frozenset({"x86_64", "x86", "aarch64"})
    return frozenset({"x86_64", *({"x86"} if f"32/{LAUNCHER}" in set(names) else ())})


class _Exports(Mapping[str, frozenset[str]]):
    """What the staged files really export, for stacks without a call table; read file by file when asked.

    Most programs need few of a stack's libraries and many need none, and reading takes time.
    """

    def __init__(self, runtime: Runtime | None) -> None:
        path = runtime.path if runtime is not None else None
        files = runtime.files if runtime is not None else ()
        self._files = {f.provides: path / f.name for f in files if f.provides and path is not None}
        self._read: dict[str, frozenset[str]] = {}

    def __getitem__(self, library: str) -> frozenset[str]:
        """Read one library's exports, once. A file that is no image answers for nothing."""
        if library not in self._read:
            from scripts.binary.image import Unreadable, read_image  # noqa: PLC0415 - see above

            image = read_image(self._files[library], exports=True)
            if isinstance(image, Unreadable):
                raise KeyError(library)
            self._read[library] = frozenset(image.exports)
        return self._read[library]

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

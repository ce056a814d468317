"""A runtime of a few files, and ``wrap`` over it in a process of its own: for what a real signal must show.

python -m tests.wrapping RUNTIME KIND wrap --exe=PROGRAM … -- ARGUMENTS
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from msgspec.structs import replace

from scripts.app.context import Staged, Workspace, workspace_from_environ
from scripts.app.wrap import leave, not_started_code, wrap
from scripts.app.wrap_placing import BesidePlacer
from scripts.cli.console import Out
from scripts.cli.parse import Call, read_line
from scripts.cli.views.wrap import show_wrap as show
from scripts.errors import ExitCode, WorkspaceError
from scripts.model import Host, Lock, Runtime, RuntimeFile, Stack, StackKind
from scripts.preflight.libraries import named


def runtime_in(folder: Path, *names: str, stack: str = "test-stack") -> Runtime:
    """Make a runtime of small files; DLLs provide what their name says."""
    files = []
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_bytes(b"x")
        data = path.read_bytes()
        meant = named(path.name) if ".so" in name else None
        provides = path.stem if path.suffix == ".dll" and "redirect" not in name else None
        provides = meant.key if meant is not None else provides
        digest = hashlib.sha256(data).hexdigest()
        files.append(RuntimeFile(name=name, sha256=digest, size=len(data), provides=provides))
    folder.mkdir(parents=True, exist_ok=True)
    return Runtime(stack=stack, digest="d" * 64, path=folder, files=tuple(files))


def staged_over(runtime: Runtime, *, kind: StackKind = StackKind.REFERENCE, **stack: object) -> Staged:
    """Return a staged stack without gpus over a runtime."""
    made = Stack(id=runtime.stack, kind=kind, **stack)  # type: ignore[arg-type]  # fields of Stack by name
    lock = Lock(path=Path("pins.lock"), digest="0" * 64, artifacts={}, stacks={made.id: made})
    host = Host(os="windows" if sys.platform == "win32" else "linux", machine="x86_64")
    return Staged(lock=lock, stack=made, runtime=runtime, host=host)


def workspace(root: Path, **changes: object) -> Workspace:
    """Return a workspace that lies in ``root``."""
    return replace(workspace_from_environ(dict(os.environ), root=root), **changes)  # type: ignore[arg-type] # fields of one test


def main(argv: list[str]) -> int:
    """Run ``wrap`` as the command line would."""
    folder, kind = Path(argv[1]), StackKind(argv[2])
    call = read_line(argv[argv.index("wrap") :])
    assert isinstance(call, Call)
    names = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
    staged = staged_over(runtime_in(folder, *names), kind=kind)
    try:
        ws = workspace(folder.parent)
        result = wrap(
            ws,
            program_args=call.arguments,
            placer=BesidePlacer(ws),
            staged=lambda _ws, _stack: staged,
            **call.options,  # type: ignore[arg-type]  # words of the command line
        )
    except WorkspaceError as error:
        sys.stderr.write(f"{error.reference}: {error.message}\n")
        return not_started_code(error)
    except KeyboardInterrupt:  # as `scripts.cli.present` ends
        return int(ExitCode.INTERRUPTED)
    show(result, Out())
    return leave(result)


if __name__ == "__main__":
    sys.exit(main(sys.argv))

"""What is known about some programs on translation layers: facts → what is set and shown, and why. Pure."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path, PurePath
from typing import Any, Final

from msgspec import Struct, field

from scripts.launch.environ import EnvChange

DATA: Final = Path(__file__).resolve().parents[1] / "data" / "apps.toml"
TORCH_POLICY: Final = "CUDA_AMD_TORCH_POLICY"
#: Options of Python that keep PYTHONPATH, and with it our settings, out.
ISOLATED: Final = ("I", "E")


class AppFacts(Struct, frozen=True, kw_only=True):
    """What is known of a program before it starts.

    Attributes:
        name: its file name.
        files: names beside it and beside the script that is its first argument.
        packages: Python packages of its environment, with versions.
        kinds: ids of what preflight took it for.
        gfx: the GPU's architecture, empty where unknown.
        stack: the stack's id.
        named_only: only what names this stack is meant for it.
        args: its arguments.
    """

    name: str
    files: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    gfx: str = ""
    stack: str = ""
    named_only: bool = False
    args: tuple[str, ...] = ()


class Setting(Struct, frozen=True, kw_only=True):
    """One thing that is set: an environment variable, or a policy for PyTorch."""

    why: str
    source: str
    env: str = ""
    value: str = ""
    torch: str = ""


class Applied(Struct, frozen=True, kw_only=True):
    """A profile that matches: by what, what it sets, and what it has to say."""

    id: str
    what: str
    sign: str
    settings: tuple[Setting, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """Everything that is shown; nothing is set without being shown."""
        said = [
            f"{self.what} (by {self.sign}): {s.torch or f'{s.env}={s.value}'} is set, because {s.why} "
            f"[{s.source}]; --no-profile leaves it out"
            for s in self.settings
        ]
        return (*said, *(f"{self.what} (by {self.sign}): {note}" for note in self.notes))


def matching(facts: AppFacts) -> tuple[Applied, ...]:
    """Return every profile that fits a program and has something for this GPU and stack."""
    found = []
    for row in document():
        sign = _sign(row, facts)
        if not sign:
            continue
        made = Applied(
            id=row["id"],
            what=row["what"],
            sign=sign,
            settings=tuple(
                Setting(**{key: value for key, value in s.items() if key not in {"gfx", "stacks"}})
                for s in row.get("set", ())
                if _here(s, facts)
            ),
            notes=tuple(f"{n['text']} [{n['source']}]" for n in row.get("note", ()) if _here(n, facts)),
        )
        if made.settings or made.notes:
            found.append(made)
    return tuple(found)


def changes(applied: Iterable[Applied], folder: PurePath) -> tuple[EnvChange, ...]:
    """Return the environment that profiles ask for; ``folder`` holds the start-up file for PyTorch."""
    made, policies = [], []
    for profile in applied:
        for setting in profile.settings:
            if setting.torch:
                policies.append(setting.torch)
            else:
                made.append(
                    EnvChange(
                        name=setting.env,
                        action="set",
                        value=setting.value,
                        why=f"{profile.what}: {setting.why}",
                    )
                )
    if policies:
        why = "PyTorch gets safe settings at its import"
        made.append(EnvChange(name=TORCH_POLICY, action="set", value=",".join(policies), why=why))
        made.append(EnvChange(name="PYTHONPATH", action="prepend", value=str(folder), why=why))
    return tuple(made)


def kept_out(applied: Iterable[Applied], args: Sequence[str]) -> tuple[str, ...]:
    """Say where Python's own options keep the settings for PyTorch out."""
    if not any(setting.torch for profile in applied for setting in profile.settings):
        return ()
    options = []
    for arg in args:
        if not arg.startswith("-") or arg in {"-c", "-m"}:
            break
        options += [letter for letter in ISOLATED if not arg.startswith("--") and letter in arg[1:]]
    return tuple(
        f"Python's option -{letter} keeps the safe settings for PyTorch out" for letter in options[:1]
    )


@cache
def document() -> tuple[dict[str, Any], ...]:
    """Read the table once."""
    return tuple(tomllib.loads(DATA.read_text(encoding="utf-8"))["app"])


def _sign(row: Mapping[str, Any], facts: AppFacts) -> str:
    """Return by what a program is recognised, empty where it is not."""
    if any(fnmatchcase(facts.name.lower(), pattern) for pattern in row.get("names", ())):
        return facts.name
    for pattern in row.get("files", ()):
        if hit := next((name for name in facts.files if fnmatchcase(name.lower(), pattern)), None):
            return hit
    for package in row.get("packages", ()):
        if package in facts.packages:
            return f"package {package} {facts.packages[package]}".rstrip()
    return next((f"its kind, {kind}" for kind in row.get("kinds", ()) if kind in facts.kinds), "")


def _here(entry: Mapping[str, Any], facts: AppFacts) -> bool:
    """Whether an entry is meant for this GPU and stack."""
    stacks = entry.get("stacks", ())
    return (not entry.get("gfx") or facts.gfx in entry["gfx"]) and (
        any(fnmatchcase(facts.stack, pattern) for pattern in stacks) or not (stacks or facts.named_only)
    )

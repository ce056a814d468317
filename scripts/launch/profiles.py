"""What is known about some programs on translation layers: facts → what is set and shown, and why. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Any, Final

from msgspec import Struct, field

from scripts.errors import UsageError
from scripts.launch.environ import EnvChange
from scripts.osal.text import names_like
from scripts.serialize import data_table

TABLE: Final = "apps.toml"
#: Keys of an entry that say where it holds, not what is set.
CONDITIONS: Final = frozenset({"gfx", "stacks", "has", "lacks"})
TORCH_POLICY: Final = "CUDA_AMD_TORCH_POLICY"
#: The folder in which each process that holds a policy reports what was in force.
TORCH_REPORT: Final = "CUDA_AMD_TORCH_REPORT"


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
        backends: by name whether the stack's HIP runtime has a library; unknown ones are absent or ``None``.
    """

    name: str
    files: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    gfx: str = ""
    stack: str = ""
    named_only: bool = False
    args: tuple[str, ...] = ()
    backends: Mapping[str, bool | None] = field(default_factory=dict)


class Setting(Struct, frozen=True, kw_only=True):
    """One thing that is set: an environment variable, or a policy for PyTorch."""

    why: str
    source: str
    env: str = ""
    value: str = ""
    torch: str = ""

    @property
    def name(self) -> str:
        """By what ``--without`` leaves it out."""
        return self.torch or self.env


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
            f"[{s.source}]; --without={s.name} leaves it out"
            for s in self.settings
        ]
        return (*said, *(f"{self.what} (by {self.sign}): {note}" for note in self.notes))


def matching(facts: AppFacts, *, without: Collection[str] = ()) -> tuple[Applied, ...]:
    """Return every profile that fits a program and has something for this GPU and stack.

    ``without`` names settings that are left out; a setting of two profiles is applied once.

    Raises:
        UsageError: ``unknown-setting``: no profile has a setting of such a name.
    """
    _refuse_unknown(without)
    found = []
    taken = set(without)
    for row, sign in _signs(facts):
        settings = []
        for entry in row.get("set", ()):
            setting = Setting(**{key: value for key, value in entry.items() if key not in CONDITIONS})
            if setting.name not in taken and _here(entry, facts):
                taken.add(setting.name)
                settings.append(setting)
        made = Applied(
            id=row["id"],
            what=row["what"],
            sign=sign,
            settings=tuple(settings),
            notes=tuple(f"{n['text']} [{n['source']}]" for n in row.get("note", ()) if _here(n, facts)),
        )
        if made.settings or made.notes:
            found.append(made)
    return tuple(found)


def refused_imports(facts: AppFacts) -> dict[str, str]:
    """Return the modules that a script must not import on this stack, and why: name → sentence."""
    entries = [
        entry for row, _sign in _signs(facts) for entry in row.get("refuse", ()) if _here(entry, facts)
    ]
    return {name: entry["why"] for entry in entries for name in entry["imports"]}


def recognised(facts: AppFacts) -> tuple[str, ...]:
    """Return the ids of every profile that fits a program, whether it has something to set or not."""
    return tuple(row["id"] for row, _sign in _signs(facts))


def changes(applied: Iterable[Applied], folder: PurePath) -> tuple[EnvChange, ...]:
    """Return the environment that profiles ask for; ``folder`` holds the start-up file for PyTorch."""
    applied = tuple(applied)
    made = [
        EnvChange(name=setting.env, action="set", value=setting.value, why=f"{profile.what}: {setting.why}")
        for profile in applied
        for setting in profile.settings
        if not setting.torch
    ]
    if policies := policies_of(applied):
        why = "PyTorch's settings are held from its import to the end"
        made.append(EnvChange(name=TORCH_POLICY, action="set", value=",".join(policies), why=why))
        made.append(EnvChange(name="PYTHONPATH", action="prepend", value=str(folder), why=why))
    return tuple(made)


def policies_of(applied: Iterable[Applied]) -> tuple[str, ...]:
    """Name the policies for PyTorch among what is applied."""
    return tuple(setting.torch for profile in applied for setting in profile.settings if setting.torch)


def cpu_words() -> tuple[dict[str, str], ...]:
    """Return what programs print when they found no device: ``pattern``, ``what``, ``source``."""
    return tuple(data_table(TABLE)["cpu_words"])


def setting_names() -> tuple[str, ...]:
    """Name every setting of every profile, for ``--without``."""
    named = (entry.get("torch") or entry["env"] for row in document() for entry in row.get("set", ()))
    return tuple(sorted(set(named)))


def torch_policies() -> tuple[str, ...]:
    """Name every policy for PyTorch that a profile has."""
    return tuple(
        sorted({entry["torch"] for row in document() for entry in row.get("set", ()) if "torch" in entry})
    )


def _refuse_unknown(without: Iterable[str]) -> None:
    unknown = sorted(set(without) - set(setting_names()))
    if unknown:
        msg = f"no known program has a setting {unknown[0]}"
        raise UsageError("unknown-setting", msg, hint=f"use one of: {', '.join(setting_names())}")


def document() -> tuple[dict[str, Any], ...]:
    """Return every program of the table."""
    return tuple(data_table(TABLE)["app"])


def _signs(facts: AppFacts) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the programs of the table that this may be, each with the sign by which it was recognised."""
    files: dict[str, str] = {}
    for name in facts.files:
        files.setdefault(name.lower(), name)
    for row in document():
        if sign := _sign(row, facts, files):
            yield row, sign


def _sign(row: Mapping[str, Any], facts: AppFacts, files: Mapping[str, str]) -> str:
    """Return by what a program is recognised, empty where it is not; ``files``: by their lower case."""
    if any(name in files for name in row.get("absent", ())):
        return ""
    if any(names_like((facts.name.lower(),), pattern) for pattern in row.get("names", ())):
        return facts.name
    for pattern in row.get("files", ()):
        if hits := names_like(files, pattern):
            return files[hits[0]]
    if (wanted := row.get("together")) and all(name in files for name in wanted):
        return " and ".join(wanted)
    for package in row.get("packages", ()):
        if package in facts.packages:
            return f"package {package} {facts.packages[package]}".rstrip()
    return next((f"its kind, {kind}" for kind in row.get("kinds", ()) if kind in facts.kinds), "")


def _here(entry: Mapping[str, Any], facts: AppFacts) -> bool:
    """Whether an entry is meant for this GPU and stack."""
    stacks = entry.get("stacks", ())
    if not any(fnmatchcase(facts.stack, pattern) for pattern in stacks) and (stacks or facts.named_only):
        return False
    if entry.get("gfx") and facts.gfx not in entry["gfx"]:
        return False
    versions = entry.get("versions", ())
    if versions and not any(fnmatchcase(facts.packages.get("torch", ""), pattern) for pattern in versions):
        return False
    # A back end that is not known to be there, or not to be there, fulfils neither condition.
    return all(facts.backends.get(name) is True for name in entry.get("has", ())) and all(
        facts.backends.get(name) is False for name in entry.get("lacks", ())
    )

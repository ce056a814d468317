"""Everything that static reading shows about one program."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from scripts.guards import guard_of
from scripts.preflight.cache import FileCache
from scripts.preflight.kernels import KernelStore
from scripts.preflight.libraries import named
from scripts.preflight.listing import Listing, is_shared, list_folder, merged
from scripts.preflight.needs import Closure, follow
from scripts.preflight.packages import Package, environments, installed, is_python
from scripts.preflight.packaging_detection import Recognised, guarded_kind, recognise


class Examined(Struct, frozen=True, kw_only=True):
    """What was read: the closure, the kinds that were recognised, the Python packages."""

    closure: Closure
    kinds: tuple[Recognised, ...] = ()
    packages: tuple[Package, ...] = ()


def examine(program: Path, *, cache: Path, kernels: KernelStore | None = None) -> Examined:
    """Read a program and everything it ships; ``cache`` is the folder that keeps the answers.

    With ``kernels`` every PTX text is checked, too, unless that store has the answer.

    Never raises for what lies in files: damage and limits are part of the answer.
    """
    look = FileCache(cache, program, kernels=kernels)
    packages = installed(environments(program)) if is_python(program) else ()
    shared = is_shared(program.parent) or is_python(program)
    listing = list_folder(program.parent, deep=not shared)
    alone = (
        shared or not look(program).format
    )  # what lies beside a file that is no program is not that file's
    shipped = _shipped(program, listing) if not alone else []
    shipped += [(package.name, path) for package in packages for path in package.files]
    everything = merged(listing, _by_name(packages))
    closure = follow(program, look, everything, others=[(o, p) for o, p in shipped if not named(p.name)])
    look.save()
    facts = closure.program.facts
    kinds = recognise(program.name, listing.beside, facts.sections, facts.signs)
    sign = guard_of(program)
    guarded = (guarded_kind(sign),) if sign is not None else ()
    return Examined(closure=closure, kinds=(*guarded, *kinds), packages=packages)


def _shipped(program: Path, listing: Listing) -> list[tuple[str, Path]]:
    """Return the libraries below a program that nothing may name; other programs are not part of it."""
    return [("", path) for path in listing.files if path != program and path.suffix.lower() != ".exe"]


def _by_name(packages: tuple[Package, ...]) -> Listing:
    """List the packages' files by name."""
    found: dict[str, tuple[Path, ...]] = {}
    for package in packages:
        for path in package.files:
            found[path.name.lower()] = (*found.get(path.name.lower(), ()), path)
    return Listing(by_name=found)

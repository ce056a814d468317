"""A library of NVIDIA's that a loader did not find: who brings it, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from scripts.preflight.libraries import Named, Part, libraries, named
from scripts.serialize import JsonRecord

#: From this version of CUDA on the names of packages on PyPI have no suffix for it.
_NO_SUFFIX: Final = 13


class MissingCudaLibrary(JsonRecord, frozen=True, kw_only=True):
    """One library that was not found.

    Attributes:
        name: its file name.
        title: what it is.
        stack: the stack that was asked; empty where none is active.
        served: that stack has it.
        others: the versions of it that the stack has instead.
        package: NVIDIA's package on PyPI with it; empty where that would not help or is not known.
    """

    name: str
    title: str
    stack: str = ""
    served: bool = False
    others: tuple[str, ...] = ()
    package: str = ""

    @property
    def outside(self) -> str:
        """What to do about it where the program was started without a stack."""
        if self.served:
            return (
                f"{self.name} comes with {self.stack}, whose folder is on the search path inside `wrap` "
                "alone: start the program with `invoke wrap`"
            )
        if not self.stack:
            return (
                f"{self.name} is {self.title}, which a stack may bring: set one up with `invoke setup`, "
                "then start the program with `invoke wrap`"
            )
        return self.inside

    @property
    def inside(self) -> str:
        """What provides it where the stack's folder is on the search path."""
        if self.served:
            return f"{self.name} is part of {self.stack}; check that its files are whole: `invoke verify`"
        if self.others:
            has = " and ".join(self.others)
            return (
                f"{self.stack} has {has}, not {self.name}: look for a build of the program for one of these"
            )
        if self.package:
            return (
                f"{self.stack} has no {self.name}; NVIDIA's package {self.package} has it: install that in "
                "the program's environment, and put the folder with the library on the search path"
            )
        return f"{self.stack} has no {self.name}, and no package of it is known to work here"


def missing_cuda_library(name: str, *, stack: str, provided: Collection[str]) -> MissingCudaLibrary | None:
    """Say who brings a library; ``None`` where it is none of NVIDIA's.

    Args:
        name: its file name.
        stack: the id of the stack in question, empty without one.
        provided: the libraries that the stack has, as pins.lock names them.
    """
    meant = named(name)
    if meant is None:
        return None
    served = meant.key in provided or (not meant.number and _any_number(meant, provided))
    others = () if served else tuple(sorted(_others(meant, provided)))
    return MissingCudaLibrary(
        name=name,
        title=meant.title,
        stack=stack,
        served=served,
        others=others,
        package="" if served or others else package_of(meant),
    )


def package_of(meant: Named) -> str:
    """Return NVIDIA's package on PyPI for a library that stays the program's own; empty where none helps.

    Of a library that a translation layer has to answer for, NVIDIA's own copy does not run on other GPUs.
    """
    library = meant.library
    helps = library.part in {Part.RUNTIME, Part.COMPILER, Part.CLIENT}
    if not library.package or not helps or not meant.cuda.isdigit():
        return ""
    return library.package + (f"-cu{meant.cuda}" if int(meant.cuda) < _NO_SUFFIX else "")


def _any_number(meant: Named, provided: Collection[str]) -> bool:
    return any(key.rstrip("0123456789") == meant.library.id for key in provided)


def _others(meant: Named, provided: Collection[str]) -> list[str]:
    """Return by title which versions of a library are there."""
    title = next((one.title for one in libraries() if one.id == meant.library.id), meant.library.id)
    numbers = [key.removeprefix(meant.library.id) for key in provided if key.startswith(meant.library.id)]
    return [f"{title} {number}" for number in numbers if number.isdigit()]

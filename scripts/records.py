"""Frozen records that cost nothing to define.

The standard library writes and compiles six methods for every frozen dataclass. A short run defines a
hundred of them and spent a third of its time there. The records of this package share their methods
instead. To a type checker, to ``replace``, ``fields`` and ``asdict`` they are ordinary dataclasses.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, TypeVar

T = TypeVar("T")


class _Shared:
    """What every record can do; the methods are copied into it, this is nobody's base."""

    #: All names, the defaults, and what makes a default anew.
    __record__: ClassVar[tuple[frozenset[str], Mapping[str, object], Mapping[str, Callable[[], object]]]]

    def __init__(self, /, **given: object) -> None:
        names, defaults, makers = self.__record__
        values = {**defaults, **given}
        for name, make in makers.items():
            if name not in given:
                values[name] = make()
        if values.keys() != names:
            odd = ", ".join(sorted(values.keys() ^ names))
            msg = f"{type(self).__qualname__}() lacks values for, or does not know: {odd}"
            raise TypeError(msg)
        self.__dict__.update(values)

    def __repr__(self) -> str:
        shown = (f"{f.name}={getattr(self, f.name)!r}" for f in _fields(self) if f.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        msg = f"cannot assign to field {name!r}"
        raise dataclasses.FrozenInstanceError(msg)

    def __delattr__(self, name: str) -> NoReturn:
        msg = f"cannot delete field {name!r}"
        raise dataclasses.FrozenInstanceError(msg)


_RECORD: Final = {"frozen": True, "kw_only": True}
_METHODS: Final = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")


def _fields(record: Any) -> tuple[dataclasses.Field[Any], ...]:  # noqa: ANN401 - made a dataclass below
    return dataclasses.fields(record)


def _values(record: object) -> tuple[object, ...]:
    """Return what two equal records have in common."""
    return tuple(getattr(record, f.name) for f in _fields(record) if f.compare)


def _record(cls: type[T]) -> type[T]:
    """Make a class a record.

    Raises:
        TypeError: it has what a standard dataclass would heed and a record would not.
    """
    cls.__doc__ = cls.__doc__ or ""  # or its whole signature would be spelled out for it
    made = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=True)(cls)
    fields = _fields(made)
    if hasattr(cls, "__post_init__") or not all(f.init for f in fields):
        msg = f"{cls.__qualname__} computes values of its own: use the standard dataclass"
        raise TypeError(msg)
    vars_ = {
        "__record__": (
            frozenset(f.name for f in fields),
            {f.name: f.default for f in fields if f.default is not dataclasses.MISSING},
            {f.name: f.default_factory for f in fields if f.default_factory is not dataclasses.MISSING},
        ),
        **{name: vars(_Shared)[name] for name in _METHODS if name not in vars(cls)},
    }
    for name, value in vars_.items():
        setattr(made, name, value)
    return made


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type[T] | None = None, /, **options: bool) -> object:
        """Make a record of what is frozen and takes keywords only, and a standard dataclass of others.

        A type checker sees the standard library's own function.
        """
        return _record if options == _RECORD else dataclasses.dataclass(cls, **options)


__all__ = ["dataclass"]

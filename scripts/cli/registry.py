"""One row of the registry: a verb, an option. Standard library only, see ``scripts/cli/verbs.py``."""

from __future__ import annotations

from typing import Final, NamedTuple

#: Options whose parameter ends with an underscore, because Python needs the word itself.
TAKEN: Final = frozenset({"all", "and", "compile", "for", "import", "set", "with"})


class Option(NamedTuple):
    """One option.

    Attributes:
        name: as typed, without the dashes.
        help: what it means.
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
        return self.name.replace(".", "_").replace("-", "_").replace("-", "_")

    def option(self, name: str) -> Option | None:
        """Return the option of this name."""
        return next((option for option in self.options if option.name == name), None)

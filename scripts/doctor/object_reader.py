"""What was missing or refused, and whose it is: files, libraries, symbols, devices, modules. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import msgspec

from scripts.doctor.log_sampling import LogSample
from scripts.serialize import data_table


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """Whose a name is: ``group`` is what verdicts decide by."""

    group: str
    owner: str
    meaning: str
    names: tuple[re.Pattern[str], ...] = ()


UNKNOWN: Final = Owner(group="unknown", owner="", meaning="")


class ObjectSighting(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was missing or refused.

    Attributes:
        name: without its folder.
        kind: ``library``, ``symbol``, ``device``, ``file`` or ``module``.
        state: ``missing`` or ``refused``.
        owner: whose it is.
        line: the position of its line in the sample.
        behind: what is missing stands behind it: it was found itself, or may have been.
    """

    name: str
    kind: str
    state: str
    owner: Owner
    line: int
    behind: bool = False


_LISTED: Final = (
    ".so|.dll|.pyd|.node|-l|.lib|.h|undefined|unresolved|no module named|/dev/|missing from|"
    "entry point|einsprungpunkt|libra|not found|cannot find|attributeerror|importerror|"
    "is not recognized|no such file"
)
_WORDS: Final = tuple(_LISTED.split("|"))
#: A file's name behind a folder; Windows' names may hold blanks only inside quotes.
_LIB: Final = r"((?:lib)?[\w+.-]{1,80}?(?:\.so(?:\.\d+){0,4}|\.dll|\.pyd|\.node|\.dylib))"
_PATH: Final = r"[\"'b`]{0,3}(?:[^\s\"'`<>|]{0,300}/)?"
_QUOTED_PATH: Final = r"[\"'`](?:[^\"'`<>|]{0,300}/)?"
_CANNOT: Final = (
    r"(?:cannot|can ?not|can't|could not|couldn't|unable to|failed to|fails to|failure to) (?:dynamically )?"
    r"(?:load|open|find|locate|dlopen)(?:ing)? "
)
_ARTICLES: Final = r"(?:the |any of |cuda |hip |dynamic |shared |native |library |libraries |dll |file ){0,5}"
_WITHOUT: Final = (
    r"\b(?:no|missing|lacks?|without|not find"
    r"|loadlibrary\w{0,4}(?: failed| error)?.{0,20}(?:for|on|of)) "
)
#: What stands before or behind a library that is not there. `behind`: the named one may be there itself.
_LIBRARIES: Final[tuple[tuple[re.Pattern[str], bool], ...]] = tuple(
    (re.compile(pattern), behind)
    for pattern, behind in (
        (rf"(?<![\w+.-]){_LIB}: cannot open shared object file", False),
        (rf"(?<![\w+.-]){_LIB} ?=> ?not found", False),
        (rf"could not find module {_QUOTED_PATH}{_LIB}", True),
        (rf"error loading {_QUOTED_PATH}{_LIB}", True),
        (rf"error loading {_PATH}{_LIB}", True),
        (rf"(?<![\w+.-]){_LIB}[\"'`]? (?:was|were|is|are|could) ?(?:not|missing)", False),
        (rf"(?<![\w+.-]){_LIB}[\"'`]?:? (?:not found|missing|cannot be (?:found|loaded))", False),
        (rf"{_CANNOT}{_ARTICLES}{_PATH}{_LIB}", True),
        (rf"{_WITHOUT}(?:the )?{_PATH}{_LIB}\b", False),
        (rf"loadlibrary\w{{0,4}}\(?{_PATH}{_LIB}", True),
        (rf"because {_PATH}{_LIB} was not found", False),
        (rf"(?:not found|missing|no such file) (?:at|in|under) {_PATH}{_LIB}", False),
        (rf"could not find the .{{1,60}} at (?:\w{{1,20}}\()?{_PATH}{_LIB}", False),
        (rf"由于找不到 ?{_PATH}{_LIB}|da {_PATH}{_LIB} nicht gefunden", False),
        (rf"failed to load (?:library )?{_PATH}{_LIB} with error: {_PATH}{_LIB}", False),
    )
)
_SYMBOL: Final = re.compile(
    r"undefined (?:hidden |weak )?symbol:? [\"'`]?(\w{2,120})|undefined reference to [\"'`](\w[\w:]{1,120})"
    r"|unresolved external symbol [\"'`]?(\w{2,120})|(\w{4,80}) is missing from .{0,40}(?:library|dll)"
    r"|(?:entry point|einsprungpunkt|point d.entrée).{0,40}?[\"'„ ](\w{4,80})[\"'“ ]"
    r"|function [\"'`](\w{4,80})[\"'`] not found|version [\"'`]([a-z_]+_[\d.]{1,12})[\"'`] not found"
)
_BUILD: Final = re.compile(
    r"cannot open (?:input )?file [\"'`]?([\w.+-]{1,60}\.(?:lib|obj|a))"
    r"|could not open [\"'`]?([\w.+-]{1,60}\.lib)"
    r"|(?:cannot|unable to) find (-l[\w+.-]{1,60})|library not found for (-l[\w+.-]{1,60})"
    r"|[\"'`]?([\w/.+-]{1,80}\.h(?:pp)?)[\"'`]?(?: file not found|: no such file| not found)"
    r"|([\w.+-]{1,40}\.(?:lib)) (?:is )?(?:missing|not found)"
)
_DEVICE: Final = re.compile(r"(/dev/(?:kfd|dri(?:/\w{1,20})?|dxg))\b(.{0,120})")
_DENIED: Final = re.compile(r"permission|denied|not permitted|cannot access|not accessible|no permission")
_ABSENT: Final = re.compile(
    r"no such|not found|missing|does not exist|doesn't exist|unable to open|failed to open"
)
_MODULE: Final = re.compile(r"(?:no module named|cannot import name) [\"'`]?([\w.]{2,60})")
_COMMAND: Final = re.compile(
    r"(?<![\w/.-])[\"'`]?([a-z][\w.+-]{1,40})[\"'`]?(?:: | )"
    r"(?:command not found|is not recognized as|not found on \$?path)"
)


def read_objects(sample: LogSample) -> tuple[ObjectSighting, ...]:
    """Find what was missing or refused, in the order of lines; each once."""
    found: dict[tuple[str, str], ObjectSighting] = {}
    for line in sorted({line for word in _WORDS for line in sample.holding(word)}):
        for sighting in _in_line(sample.plain[line], line):
            found.setdefault((sighting.name, sighting.state), sighting)
    return tuple(found.values())


def _in_line(text: str, line: int) -> Iterator[ObjectSighting]:
    for match in _DEVICE.finditer(text):
        around = text[max(0, match.start() - 60) : match.end()]
        denied = _DENIED.search(around)
        if denied or _ABSENT.search(around):
            state = "refused" if denied else "missing"
            yield _sighting(match[1], "device", line, state=state)
    for name, behind in _libraries(text):
        yield _sighting(name, "library", line, behind=behind)
    for pattern, kind in ((_SYMBOL, "symbol"), (_BUILD, "file"), (_MODULE, "module"), (_COMMAND, "file")):
        for match in pattern.finditer(text):
            yield _sighting(next(group for group in match.groups() if group), kind, line)


def _libraries(text: str) -> Iterator[tuple[str, bool]]:
    """Yield libraries that are not there, the ones that are named themselves before those of which one is."""
    if ".so" not in text and ".dll" not in text and ".pyd" not in text and ".node" not in text:
        return
    named: dict[str, bool] = {}
    for pattern, behind in _LIBRARIES:
        for match in pattern.finditer(text):
            name = next(group for group in reversed(match.groups()) if group)
            named[name] = named.get(name, True) and behind
    yield from sorted(named.items(), key=lambda item: item[1])


def _sighting(
    name: str, kind: str, line: int, *, state: str = "missing", behind: bool = False
) -> ObjectSighting:
    """Make a sighting; who owns the name is looked up."""
    return ObjectSighting(name=name, kind=kind, state=state, owner=owner_of(name), line=line, behind=behind)


def owner_of(name: str) -> Owner:
    """Look up whose a name is."""
    base = name if name.startswith("/dev/") else name.rpartition("/")[2]
    bare = re.sub(r"(?:\.so(?:\.\d+)*|\.dll|\.pyd|\.node|\.dylib|\.exe)$", "", base)
    forms = (bare, bare.removeprefix("lib"), base)
    known = (owner for owner in owners() if any(p.fullmatch(form) for form in forms for p in owner.names))
    return next(known, UNKNOWN)


@cache
def owners() -> tuple[Owner, ...]:
    """Read the table of owners once."""
    rows = data_table("owners.toml")["owner"]
    return msgspec.convert(rows, tuple[Owner, ...], dec_hook=lambda _, text: re.compile(text))

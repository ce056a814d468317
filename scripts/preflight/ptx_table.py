"""The PTX tables: which instructions a release of ZLUDA compiles, and what else decides over a kernel.

The grammar of each release is ``data/ptx/<release>.json`` (patterns in the order in which its parser tries
them); the rules beside the grammar are ``data/ptx/rules.toml``. Answers are kept by form: there are few.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from msgspec import Struct

from scripts.preflight.kernels import TABLES, having, releases, rules_file
from scripts.preflight.ptx_scan import Form

#: So many answers are kept; real files have hundreds.
MAX_KNOWN: Final = 1 << 16
#: Directives that the parser reads inside a function.
_READ: Final = frozenset({".reg", ".local", ".param", ".shared", ".global", ".const", ".pragma", ".loc"})
_MODIFIER: Final = re.compile(r"\.\w+(?:::\w+)*")
_ROUNDING: Final = re.compile(r"\.r[nzmp]i?")
#: Types as modifiers; the bytes of those that are floats.
_FLOATS: Final[Mapping[str, int]] = {
    **dict.fromkeys((".f16", ".bf16", ".f16x2", ".bf16x2", ".e4m3x2", ".e5m2x2"), 2),
    ".f32": 4,
    ".f64": 8,
}
_TYPES: Final = frozenset(
    (*_FLOATS, ".pred", ".e4m3", ".e5m2", ".tf32", ".s16x2", ".u16x2", ".b128", ".v2", ".v4", ".v8")
) | {f".{kind}{size}" for kind in "bsu" for size in (8, 16, 32, 64)}
_UNORDERED: Final = frozenset((".equ", ".neu", ".ltu", ".leu", ".gtu", ".geu", ".num", ".nan"))


class Rule(Struct, frozen=True, kw_only=True):
    """One rule beside the grammar; what its pattern is held against depends on where it stands in the file.

    Attributes:
        why: the reason in a few words.
        needs: a text that must be there for the pattern to match at all; empty where none is known.
        opcodes: the instructions that it is about.
        effect: what a special register costs: the ``function`` or the whole ``module``.
        releases: those that have it.
    """

    pattern: re.Pattern[str]
    why: str = ""
    needs: str = ""
    opcodes: frozenset[str] = frozenset()
    id: str = ""
    effect: str = ""
    releases: frozenset[str] = frozenset()


class _Modifier(Struct, frozen=True, kw_only=True):
    name: str
    optional: bool
    values: frozenset[str]


class _Pattern(Struct, frozen=True, kw_only=True):
    """One pattern of the grammar; ``closing`` modifiers stand last and in order, ``free`` ones in any."""

    free: tuple[_Modifier, ...]
    closing: tuple[_Modifier, ...]
    key: frozenset[str]
    least: int
    most: int
    policy: bool
    todo: frozenset[str]
    checks: frozenset[str]


class _Known:
    """Answers by form: most functions hold nothing but forms that are known to be fine."""

    def __init__(self, answer: Callable[[Form], str]) -> None:
        """``answer`` says what is wrong with a form, empty where nothing is."""
        self._answer = answer
        self._seen: set[Form] = set()
        self._bad: dict[Form, str] = {}

    def of(self, forms: Mapping[Form, int]) -> dict[Form, str]:
        """Return the forms with which something is wrong, in their order."""
        if not self._seen.issuperset(forms):
            if len(self._seen) > MAX_KNOWN:
                self._seen.clear()
                self._bad.clear()
            for form in forms:
                if form not in self._seen:
                    self._seen.add(form)
                    if why := self._answer(form):
                        self._bad[form] = why
        if self._bad.keys().isdisjoint(forms):
            return {}
        return {form: self._bad[form] for form in forms if form in self._bad}


class PtxTable:
    """What one release does with PTX."""

    def __init__(self, name: str, body: Mapping[str, Any]) -> None:
        """Take a table's data; ``name`` is its file's."""
        meta = body["_meta"]
        self.name = name
        self.release: str = meta["tag"]
        self.source = f"{meta['repository']}@{meta['commit']} ({meta['tag']})"
        self._grammar: dict[str, list[_Pattern]] = {}
        for row in body["instructions"]:
            self._grammar.setdefault(row["opcode"], []).append(_pattern(row))
        self._rules = {
            part: tuple(rule for rule in all_rules(part) if self.release in rule.releases)
            for part in ("header", "outside", "special", "later", "ends", "differs")
        }
        self._refusals = _Known(self._refuse)
        self._failures = _Known(self._fail)

    def rules(self, part: str) -> tuple[Rule, ...]:
        """Return the rules of one part of the file that hold for this release."""
        return self._rules[part]

    @property
    def reads_more(self) -> bool:
        """Whether its parser reads addresses of 32 bits and ``debug`` in a text's head."""
        return self.release != "v6-preview.69"

    def refused(self, forms: Mapping[Form, int]) -> dict[Form, str]:
        """Return the forms that the parser does not take, in their order, and why; types are not checked."""
        return self._refusals.of(forms)

    def failing(self, forms: Mapping[Form, int]) -> dict[Form, str]:
        """Return the forms that the parser takes and that make the whole module fail later, and why."""
        return self._failures.of(forms)

    def _fail(self, form: Form) -> str:
        rest = f"{form.modifiers} {form.shape}"
        hits = (r for r in self._rules["later"] if form.opcode in r.opcodes and r.pattern.match(rest))
        return next((rule.why for rule in hits), "")

    def unified(self, form: Form) -> bool:
        """Whether ``.unified`` behind the address makes this load unsupported."""
        pattern = self._chosen(form, _MODIFIER.findall(form.modifiers))
        return pattern is not None and "operand .unified" in pattern.todo

    def _chosen(self, form: Form, given: Sequence[str]) -> _Pattern | None:
        """Return the one pattern that the parser tries."""
        patterns = self._grammar.get(form.opcode, ())
        return next((p for p in patterns if not p.key or not p.key.isdisjoint(given)), None)

    def _refuse(self, form: Form) -> str:
        if not form.opcode:
            known = "." + form.modifiers[1:].partition(".")[0]
            return "" if known in _READ else "a directive that is not read"
        if form.opcode not in self._grammar:
            return "unknown opcode"
        given = _MODIFIER.findall(form.modifiers)
        pattern = self._chosen(form, given)
        used = _used(pattern, given) if pattern is not None else None
        if pattern is None or used is None:
            return "unknown modifiers"
        number = form.operands
        if not pattern.least <= number <= pattern.most:
            return f"{number} operands"
        hits = [m for m in pattern.todo if m == "always" or m in used or m in given]
        if pattern.policy and number == pattern.most:
            hits.append("a cache policy")
        if hits:
            return "not implemented" if "always" in hits else f"{' '.join(sorted(hits))} not implemented"
        return _conversion(given, used, pattern) or _comparison(given, pattern)


def _pattern(row: Mapping[str, Any]) -> _Pattern:
    modifiers = [
        _Modifier(name=m["name"], optional=m["optional"], values=frozenset(m["values"]))
        for m in row["modifiers"]
    ]
    cut = len(modifiers) - row["fixed_tail"]
    least, most = row.get("count", (0, 1 << 30))
    todo = frozenset(row.get("todo", ()))
    return _Pattern(
        free=tuple(modifiers[:cut]),
        closing=tuple(modifiers[cut:]),
        key=frozenset(row.get("key") or ()),
        least=least,
        most=most,
        policy="cache" in row["operands"] and any("cache" in item for item in todo),
        todo=todo,
        checks=frozenset(row.get("checks", ())),
    )


def linked() -> frozenset[str]:
    """Return the functions of other files that the linker finds."""
    return frozenset(rules_file()["linked"])


@cache
def of_system(function: str) -> bool:
    """Whether NVIDIA's driver brings a function."""
    return re.fullmatch(rules_file()["system"], function) is not None


@cache
def all_rules(part: str) -> tuple[Rule, ...]:
    """Return the rules of one part of the file, each with the releases that have it."""
    return tuple(
        Rule(
            **{key: row[key] for key in ("why", "needs", "id", "effect") if key in row},
            pattern=re.compile(row["pattern"], re.MULTILINE | re.ASCII),
            opcodes=frozenset(row.get("opcodes", ())),
            releases=frozenset(having(row)),
        )
        for row in rules_file()[part]
    )


def _used(pattern: _Pattern, given: Sequence[str]) -> set[str] | None:
    """Name the modifiers of a pattern that are given; ``None`` where some do not fit or are missing."""
    rest, used = list(given), set()
    for modifier in reversed(pattern.closing):
        if rest and rest[-1] in modifier.values:
            rest.pop()
            used.add(modifier.name)
        elif not modifier.optional:
            return None
    free = list(pattern.free)
    for word in rest:
        # The first modifier that may have this value takes it, even where a later one could as well.
        taker = next((m for m in pattern.free if word in m.values), None)
        if taker is None or taker not in free:
            return None
        free.remove(taker)
        used.add(taker.name)
    return used if all(m.optional for m in free) else None


def _conversion(given: Sequence[str], used: set[str], pattern: _Pattern) -> str:
    """Check the rounding of a conversion: needed where bits are lost, wrong where none are."""
    if "CvtDetails::new" not in pattern.checks:
        return ""
    types = [word for word in given if word in _TYPES]
    to, source = (types[0], ".f32") if ".f8x2type" in used else (types[-2], types[-1])
    rounds = any(_ROUNDING.fullmatch(word) for word in given)
    if ".ftz" in given and ".f32" not in {to, source}:
        return ".ftz without .f32"
    if to in _FLOATS and source in _FLOATS:
        if _FLOATS[to] < _FLOATS[source] and not rounds:
            return "no rounding mode"
        if _FLOATS[to] > _FLOATS[source] and rounds and not source.startswith(".e"):
            return "a rounding mode where none is needed"
    elif (to in _FLOATS or source in _FLOATS) and not rounds:
        return "no rounding mode"
    return ""


def _comparison(given: Sequence[str], pattern: _Pattern) -> str:
    if "SetpData::try_parse" not in pattern.checks:
        return ""
    kind = next(word for word in reversed(given) if word in _TYPES)
    if ".ftz" in given and kind != ".f32":
        return f".ftz on {kind}"
    if kind not in _FLOATS and not _UNORDERED.isdisjoint(given):
        return f"an unordered comparison on {kind}"
    return ""


@cache
def ptx_table(name: str) -> PtxTable | None:
    """Return a table by the name that a stack gives it; ``None`` where there is none: never another one's."""
    path = TABLES / f"{name}.json"
    return PtxTable(name, json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


@cache
def ptx_tables() -> tuple[PtxTable, ...]:
    """Return every table, oldest release first."""
    found = [table for path in TABLES.glob("*.json") if (table := ptx_table(path.stem)) is not None]
    return tuple(sorted(found, key=lambda table: releases().index(table.release)))

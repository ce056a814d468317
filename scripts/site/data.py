"""The data files that the scripts of the site read, made from a matrix. Pure.

A data file is a script that hands over one object, because a page that is opened from a folder may load
scripts and nothing else. Words stand once in ``start``; everything else names them by their place in its
lists:

* ``start``: GPUs, stacks, what was asked (program, capability), levels, outcomes. Part of the first view.
* ``gpu-GPU``: what is known of one GPU, one row a cell, in the order of the page; and its figures over time.
* ``on-GPU--STACK``: the documents behind the cells of one GPU and stack.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping
from functools import cached_property
from itertools import groupby
from typing import Final

from msgspec import Struct

from scripts.evidence.document import Provenance
from scripts.evidence.matrix import DocumentFact, FigurePoint, Matrix
from scripts.evidence.merging import Cell, Observation
from scripts.model import HipSource, Level, Outcome, Stack
from scripts.serialize import pick

LEVELS: Final = tuple(Level)
OUTCOMES: Final = tuple(Outcome)
WHO: Final = tuple(Provenance)
#: So many documents of a cell are listed, newest first; what the cell rests on is always among them.
MOST_DOCUMENTS: Final = 12
#: So many newest figures of a series are drawn.
MOST_POINTS: Final = 200
OTHER_FAMILY: Final = "other"
_PLAIN_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.]*(?:-[a-z0-9.]+)*")
_LONGEST_NAME: Final = 60


class GpuModel(Struct, frozen=True, kw_only=True):
    """One product of the list of GPUs: its name, architecture and family."""

    name: str
    gfx: str
    family: str


class SiteContent(Struct, frozen=True, kw_only=True, dict=True):
    """All that the site is made from.

    Attributes:
        matrix: what the documents show.
        models: the list of GPUs, newest family first.
        stacks: the stacks of the lock, in its order.
        advice: what to use, for each architecture in one sentence a system, by the system's name.
        filler: words of a product's name that people leave out.
    """

    matrix: Matrix
    models: tuple[GpuModel, ...] = ()
    stacks: tuple[Stack, ...] = ()
    advice: Mapping[str, Mapping[str, str]] = {}
    filler: frozenset[str] = frozenset()

    @cached_property
    def gpus(self) -> tuple[str, ...]:
        """Every GPU: the list's order, then those that only documents name."""
        listed = dict.fromkeys(model.gfx for model in self.models)
        named = dict.fromkeys(cell.gpu for cell in self.matrix.cells)
        return (*listed, *sorted(named.keys() - listed.keys()))

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """The products of each GPU: as documents name it, then those of the list."""
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for fact in sorted(self.matrix.documents, key=lambda fact: fact.gpu_name):
            if fact.counts and fact.gpu_name != fact.gpu:
                found[fact.gpu][fact.gpu_name] = None
        for model in self.models:
            found[model.gfx][model.name] = None
        return {gpu: list(names) for gpu, names in found.items()}

    @cached_property
    def families(self) -> dict[str, str]:
        """The family of each GPU."""
        counted = (fact for fact in self.matrix.documents if fact.counts)
        found = {fact.gpu: fact.vendor.upper() or OTHER_FAMILY for fact in counted}
        return {**found, **{model.gfx: model.family for model in self.models}}

    @cached_property
    def stack_ids(self) -> tuple[str, ...]:
        """Every stack: the lock's, then combinations in words, then what is not named."""
        pinned = dict.fromkeys(stack.id for stack in self.stacks)
        named = {cell.stack for cell in self.matrix.cells} - pinned.keys()
        return (*pinned, *sorted(named - {""}), *(("",) if "" in named else ()))

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All cells in the order of the page: by GPU, stack, program, capability."""
        gpu_at, stack_at = _places(self.gpus), _places(self.stack_ids)

        def place(cell: Cell) -> tuple[int, int, str, str]:
            return gpu_at[cell.gpu], stack_at[cell.stack], cell.application, cell.capability

        return tuple(sorted(self.matrix.cells, key=place))

    @cached_property
    def cells_of(self) -> dict[str, tuple[Cell, ...]]:
        """The cells of each GPU that has some, in the order of the page."""
        return {gpu: tuple(group) for gpu, group in groupby(self.cells, key=lambda cell: cell.gpu)}

    @cached_property
    def counted(self) -> Counter[str]:
        """How many documents that count each GPU has."""
        return Counter(fact.gpu for fact in self.matrix.documents if fact.counts)

    @cached_property
    def asked(self) -> tuple[tuple[str, str], ...]:
        """Every pair of program and capability, sorted."""
        figures = ((point.application, point.capability) for point in self.matrix.figures)
        return tuple(sorted({*((cell.application, cell.capability) for cell in self.cells), *figures}))


def data_files(content: SiteContent) -> dict[str, bytes]:
    """Return every data file by its name below ``data``."""
    places = _Lookup(content)
    series = _series(content, places)
    found: dict[str, object] = {"start": _start(content, series.keys())}
    for gpu in {*series, *content.cells_of}:
        rows = [places.row(cell) for cell in content.cells_of.get(gpu, ())]
        found[f"gpu-{_file_part(gpu)}"] = {"rows": rows, "series": series.get(gpu, [])}
    found |= _details(content, places)
    return {f"{name}.js": _script(name, data) for name, data in sorted(found.items())}


def detail_file(gpu: str, stack: str) -> str:
    """Return the name of the file with the documents about one GPU and stack."""
    return f"on-{_file_part(gpu)}--{_file_part(stack)}"


class _Lookup:
    """Where each word stands in the lists of ``start``."""

    def __init__(self, content: SiteContent) -> None:
        self.gpu = _places(content.gpus)
        self.stack = _places(content.stack_ids)
        self.asked = _places(content.asked)

    def row(self, cell: Cell) -> list[object]:
        """Return one cell as the page reads it."""
        return [
            self.gpu[cell.gpu],
            self.stack[cell.stack],
            self.asked[cell.application, cell.capability],
            _level(cell.level),
            OUTCOMES.index(cell.outcome),
            WHO.index(cell.provenance),
            cell.seen,
            cell.count,
            int(cell.conflict),
        ]


def _start(content: SiteContent, drawn: Container[str]) -> dict[str, object]:
    """Return the lists; ``drawn`` are the GPUs that have figures."""
    on_stack = Counter(cell.stack for cell in content.cells)
    known = {stack.id: stack for stack in content.stacks}
    gpus = [
        {
            "id": gpu,
            "file": _file_part(gpu),
            "family": content.families.get(gpu, OTHER_FAMILY),
            "names": content.names.get(gpu, []),
            "cells": len(content.cells_of.get(gpu, ())),
            "figures": gpu in drawn,
            "advice": content.advice.get(gpu, {}),
        }
        for gpu in content.gpus
    ]
    return {
        "gpus": gpus,
        "stacks": [_stack(id_, known.get(id_), on_stack[id_]) for id_ in content.stack_ids],
        "what": content.asked,
        "levels": LEVELS,
        "outcomes": OUTCOMES,
        "who": WHO,
        "filler": sorted(content.filler),
        "total": len(content.cells),
    }


def _stack(id_: str, stack: Stack | None, cells: int) -> dict[str, object]:
    """Return what the page of a stack says of it."""
    base: dict[str, object] = {"id": id_, "file": _file_part(id_), "cells": cells}
    if stack is None:
        return {**base, "pinned": False, "kind": "", "os": "", "hip": "", "gfx": [], "parts": [], "note": ""}
    source = stack.hip.source
    hip = "" if source is HipSource.NONE else f"{source.value} {stack.hip.range}".strip()
    facts = {"pinned": True, "kind": stack.kind.value, "os": stack.requires.os or "any", "hip": hip}
    return {**base, **facts, **pick(stack, "gfx=requires.gfx parts note")}


def _details(content: SiteContent, places: _Lookup) -> dict[str, object]:
    """Return the documents behind every cell, a file for each GPU and stack."""
    facts = {fact.document: fact for fact in content.matrix.documents}
    found: dict[str, object] = {}
    for (gpu, stack), group in groupby(content.cells, key=lambda cell: (cell.gpu, cell.stack)):
        listed: dict[str, int] = {}
        cells: dict[str, object] = {}
        for cell in group:
            kept = listed_observations(cell)
            for observation in kept:
                listed.setdefault(observation.document, len(listed))
            cells[str(places.asked[cell.application, cell.capability])] = {
                "rests": listed[cell.document],
                "hidden": cell.count - len(kept),
                "results": [[listed[o.document], *_observation(o)] for o in kept],
            }
        documents = [_document(facts[hash_]) for hash_ in listed]
        found[detail_file(gpu, stack)] = {"cells": cells, "documents": documents}
    return found


def listed_observations(cell: Cell) -> list[Observation]:
    """Choose what is listed of a cell: the newest, what it rests on, and the newest of either side."""
    kept = list(cell.observations[:MOST_DOCUMENTS])
    for passed in (True, False):
        kept += [o for o in cell.observations if (o.outcome is Outcome.PASS) is passed][:1]
    kept += [o for o in cell.observations if o.document == cell.document]
    chosen = {o.document for o in kept}
    return [o for o in cell.observations if o.document in chosen]


def _observation(observation: Observation) -> list[object]:
    outcome = OUTCOMES.index(observation.outcome)
    return [observation.seen, _level(observation.level), outcome, observation.detail]


def _document(fact: DocumentFact) -> dict[str, object]:
    return {
        **pick(fact, "hash=document paths who=provenance reporter url gpu=gpu_name os driver hip"),
        "level": _level(fact.level),
        "outcome": OUTCOMES.index(fact.outcome),
        **pick(fact, "idle=not_exercised notes"),
    }


def _series(content: SiteContent, places: _Lookup) -> dict[str, list[object]]:
    """Return the figures over time of each GPU. A figure without a date has no place in time."""
    dated = (p for p in content.matrix.figures if p.seen and p.gpu in places.gpu and p.stack in places.stack)
    found: dict[str, list[object]] = {}
    ordered = sorted(dated, key=lambda point: (_in_series(point), point.seen, point.document))
    for key, group in groupby(ordered, key=_in_series):
        gpu, stack, application, capability, metric, unit = key
        found.setdefault(gpu, []).append(
            {
                "key": [places.stack[stack], places.asked[application, capability], metric],
                "unit": unit,
                "points": [[p.seen, p.value, WHO.index(p.provenance)] for p in list(group)[-MOST_POINTS:]],
            }
        )
    return found


def _in_series(point: FigurePoint) -> tuple[str, ...]:
    return (point.gpu, point.stack, point.application, point.capability, point.metric, point.unit)


def _script(name: str, data: object) -> bytes:
    """Return a script that hands over one object; no text in it can end the script or open a comment."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    safe = text.replace("<", "\\u003c")
    return f'matrixChunk("{name}",{safe});\n'.encode("ascii")


def _file_part(name: str) -> str:
    """Return a name as part of a file's name; what is not plain becomes a hash."""
    if len(name) <= _LONGEST_NAME and _PLAIN_NAME.fullmatch(name):
        return name
    return f"x{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _places(items: Iterable[object]) -> dict[object, int]:
    return {item: place for place, item in enumerate(items)}


def _level(level: Level | None) -> int:
    return -1 if level is None else level.rank

"""What is read without asking ``jsonschema`` follows the schema, and what follows it is read so."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.evidence.evidence_io import SCHEMA, well_formed
from tests.test_bad_documents import damaged, document, places
from tools.many_documents import many_documents

VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def follows(value: Any) -> bool:
    """Ask the schema; what no file can hold (NaN, half a character) is never read without asking."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return VALIDATOR.is_valid(value)


def parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def measured() -> dict[str, Any]:
    """A document with everything that one can hold."""
    attempt = {"capability": "gemm", "number": 1, "outcome": "pass", "seconds": 1.5, "detail": ""}
    figure = {"capability": "gemm", "metric": "time", "value": 2.5, "unit": "s"}
    changes = {"provenance": "measured", "source": None, "attempts": [attempt], "figures": [figure]}
    return {**document(), **changes, "combination": "ZLUDA with HIP"}


@pytest.mark.slow
@pytest.mark.parametrize("made", [document, measured])
def test_on_a_document_with_each_value_made_wrong_both_agree(made: Any) -> None:
    values = [value for text in damaged(made()) if (value := parsed(text)) is not None]
    verdicts = [well_formed(value) is not None for value in values]
    assert verdicts == [follows(value) for value in values]
    assert 50 < sum(verdicts) < len(verdicts) / 3


@pytest.mark.slow
def test_on_invented_documents_both_agree() -> None:
    values = [value for _, text in many_documents(120) if (value := parsed(text)) is not None]
    verdicts = [well_formed(value) is not None for value in values]
    assert verdicts == [follows(value) for value in values]
    assert sum(verdicts) >= 118


LONG = ("a" * 64, "a" * 120, "a" * 200, "a" * 201, "a" * 4001, "gfx1200", "gfx1200\n", "linux\n")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(-3, 3)
    | st.text("ab.\n\x7f\u202e", max_size=3)
    | st.sampled_from(LONG),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
PLACES = [path for path in places(measured()) if path]


@given(st.sampled_from(PLACES), VALUES)
def test_whatever_stands_in_a_place_both_agree(path: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(measured())
    inner: Any = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert (well_formed(data) is not None) == follows(data)


def test_what_is_damaged_here_is_good_before() -> None:
    assert well_formed(document()) is not None
    assert well_formed(measured()) is not None


GPU = {"gpu": {"name": "RX", "gfx": "gfx1200", "pci_id": None, "vendor": ""}}


@pytest.mark.parametrize(
    "changes",
    [
        {"provenance": "reported"},
        {"source": {"name": "a page", "url": "https://example.org", "date": ""}},
        {"lock": None},
        {"simulated": True},
        {"not_exercised": ["fft", "fft"]},
        {"attachments": ["a.txt", "a.txt"]},
        {"attachments": ["../a"]},
        {"notes": ["a\nb"]},
        {"notes": ["\u202e"]},
        {"notes": [], "more": 1},
        {"attempts": []},
        {"figures": []},
        {"combination": ""},
        {"format": True},
        {"format": 1.5},
        {"level": "best"},
        {"outcome": "good"},
        {"created": "2026-10-01T00:00:00.500000Z"},
        {"created": "2026-10-01T00:00:00+01:00"},
        {"subject": {"stack": "S", "digest": None, "application": "", **GPU}},
        {"subject": {"stack": "s", "digest": None, **GPU}},
        {"machine": {"os": "plan9", "machine": "", "driver": None, "hip_roots": []}},
    ],
    ids=repr,
)
def test_what_the_schema_refuses_is_not_read_without_asking(changes: dict[str, Any]) -> None:
    data = {**measured(), **changes}
    assert not VALIDATOR.is_valid(data)
    assert well_formed(data) is None


@pytest.mark.parametrize("made", [{**document(), "simulated": True}, {**document(), "created": "2026-02-30"}])
def test_so_are_a_simulated_report_and_a_day_that_is_none(made: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(made)
    assert well_formed(made) is None

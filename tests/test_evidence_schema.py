"""The schema turned into functions decides as ``jsonschema`` decides, and refuses to guess."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.evidence.evidence_io import SCHEMA
from scripts.evidence.schema_check import PLAIN, compile_schema
from tests.test_bad_documents import damaged, document
from tools.many_documents import many_documents

EVIDENCE = json.loads(SCHEMA.read_text(encoding="utf-8"))


def agree(schema: Any, value: Any) -> bool:
    """Ask both; return what they say."""
    quick = compile_schema(schema)(value)
    assert quick == jsonschema.Draft202012Validator(schema).is_valid(value), value
    return quick


def parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


@pytest.mark.slow
def test_on_a_document_with_each_value_made_wrong_both_agree() -> None:
    quick, slow = compile_schema(EVIDENCE), jsonschema.Draft202012Validator(EVIDENCE)
    values = [value for text in damaged(document()) if (value := parsed(text)) is not None]
    verdicts = [quick(value) for value in values]
    assert verdicts == [slow.is_valid(value) for value in values]
    assert 50 < sum(verdicts) < len(verdicts) / 3


@pytest.mark.slow
def test_on_invented_documents_both_agree() -> None:
    values = [value for _, text in many_documents(120) if (value := parsed(text)) is not None]
    assert sum(agree(EVIDENCE, value) for value in values) >= 118


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text("ab\n", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
PARTS: tuple[dict[str, Any], ...] = (
    *({"type": name} for name in ("object", "array", "string", "boolean", "null", "number", "integer")),
    {"type": ["string", "null"]},
    {"type": "string", "minLength": 1, "maxLength": 2, "pattern": "a", "not": {"pattern": "b"}},
    {"type": "string", "not": {"pattern": "^a"}},
    {"const": 1}, {"const": True}, {"const": "a"}, {"enum": ["a", "b", None]}, {"pattern": "^a"},
    {"minLength": 2}, {"maxLength": 1}, {"minItems": 1}, {"maxItems": 1}, {"minimum": 1}, {"maximum": 0.5},
    {"items": {"type": "integer"}}, {"required": ["a", "b"]},
    {"items": {"type": "string"}, "uniqueItems": True},
    {"properties": {"a": {"type": "null"}, "b": {}}, "additionalProperties": False},
    {"properties": {"a": {"minimum": 1}}},
    {"allOf": [{"type": "string"}, {"minLength": 1}]}, {"oneOf": [{"type": "integer"}, {"minimum": 1}]},
    {"not": {"type": "array"}},
    {"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "null"}},
    {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}},
    {"$ref": "#/$defs/x", "$defs": {"x": {"type": "string"}}},
)  # fmt: skip


@given(st.sampled_from(PARTS), JSON)
def test_every_keyword_means_what_it_means_elsewhere(schema: Any, value: Any) -> None:
    agree(schema, value)


def test_every_keyword_is_among_the_parts() -> None:
    asked = {word for part in PARTS for word in part}
    assert set(PLAIN) <= asked


@pytest.mark.parametrize(
    "schema",
    [
        {"format": "date"},
        {"prefixItems": []},
        {"additionalProperties": {"type": "string"}},
        {"properties": {"a": {"anyOf": [{}]}}},
        {"enum": [1, 2]},
        {"type": "string", "not": {"const": "a"}},
    ],
    ids=lambda schema: next(iter(schema)),
)
def test_what_it_does_not_know_it_refuses_to_compile(schema: Any) -> None:
    with pytest.raises(ValueError, match="cannot be compiled"):
        compile_schema(schema)

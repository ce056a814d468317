"""A stack's bill of materials: valid by CycloneDX's own schema, whole, and the same each time."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import cyclonedx.schema._res
import jsonschema
import pytest
import referencing

from scripts.lock.reader import read_lock
from scripts.lock.sbom import sbom_of
from tests.checkout import Checkout
from tools import sboms

LOCK = read_lock(Path(__file__).parents[1] / "pins.lock")
HOME = "http://cyclonedx.org/schema/"


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft7Validator:
    """CycloneDX's schema with the two that it refers to."""
    folder = files(cyclonedx.schema._res)
    names = ("bom-1.6", "spdx", "jsf-0.82", "cryptography-defs")
    found = {name: json.loads((folder / f"{name}.SNAPSHOT.schema.json").read_text("utf-8")) for name in names}
    registry = referencing.Registry().with_resources(
        (f"{HOME}{name}.SNAPSHOT.schema.json" if name == "bom-1.6" else f"{HOME}{name}.schema.json", resource)
        for name, content in found.items()
        for resource in (referencing.Resource.from_contents(content),)
    )
    registry = registry.with_resources(
        (f"{HOME}{name}.SNAPSHOT.schema.json", referencing.Resource.from_contents(content))
        for name, content in found.items()
    )
    return jsonschema.Draft7Validator(found["bom-1.6"], registry=registry)


@pytest.mark.parametrize("stack", LOCK.stacks)
def test_every_stack_has_a_valid_document(stack: str, schema: jsonschema.Draft7Validator) -> None:
    document = sbom_of(LOCK, LOCK.stacks[stack])
    assert [error.message for error in schema.iter_errors(document)] == []


def test_the_schema_refuses_what_is_wrong(schema: jsonschema.Draft7Validator) -> None:
    document = sbom_of(LOCK, LOCK.stacks["cpu-reference"])
    assert list(schema.iter_errors({**document, "components": [{"type": "nonsense"}]}))


@pytest.mark.parametrize("stack", LOCK.stacks)
def test_nothing_that_the_lock_says_is_left_out(stack: str) -> None:
    text = json.dumps(sbom_of(LOCK, LOCK.stacks[stack]))
    wanted = [
        *LOCK.stacks[stack].parts,
        *(id_ for ids in LOCK.stacks[stack].optional.values() for id_ in ids),
    ]
    for id_ in wanted:
        artifact = LOCK.artifacts[id_]
        hashes = [artifact.sha256, *(member.sha256 for member in artifact.members)]
        for fact in (
            *filter(None, hashes),
            *artifact.urls,
            artifact.license,
            *(m.path for m in artifact.members),
        ):
            assert json.dumps(fact)[1:-1] in text


def test_optional_parts_are_marked() -> None:
    stack = next(stack for stack in LOCK.stacks.values() if stack.optional)
    scopes = {part["bom-ref"]: part["scope"] for part in sbom_of(LOCK, stack)["components"]}  # type: ignore[attr-defined]  # a list of objects
    for ids in stack.optional.values():
        assert {scopes[id_] for id_ in ids} == {"optional"}
    assert {scopes[id_] for id_ in stack.parts} == {"required"}


@pytest.mark.slow
def test_the_task_prints_the_document_alone(checkout: Checkout) -> None:
    plain = checkout.run("stacks", "--sbom=zluda-v6p69-sdk64")
    assert json.loads(plain.stdout) == checkout.json("stacks", "--sbom=zluda-v6p69-sdk64")
    refused = checkout.run("stacks", "--sbom=zluda-v6p69-sdk99")
    assert refused.returncode == 2
    assert "zluda-v6p69-sdk64" in refused.stderr


def test_a_release_carries_the_document_of_every_stack(tmp_path: Path) -> None:
    assert sboms.main(tmp_path / "components") == 0
    found = {path.name: json.loads(path.read_text("utf-8")) for path in (tmp_path / "components").iterdir()}
    assert found == {f"{stack.id}.cdx.json": sbom_of(LOCK, stack) for stack in LOCK.stacks.values()}

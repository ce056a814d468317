"""What a stack brings, as a CycloneDX 1.6 document: its archives, the files in them, hashes and licences.

Everything comes from the lock, nothing is downloaded, and equal locks give equal documents: there is no time
in them, and the serial number is made of the lock's digest and the stack's name.
Format: https://cyclonedx.org/docs/1.6/json/
"""

from __future__ import annotations

import uuid
from typing import Final

from scripts.model import Artifact, HipSource, Lock, Member, Stack

SCHEMA: Final = "http://cyclonedx.org/schema/bom-1.6.schema.json"
#: Licences of the lock that are SPDX expressions; what else stands there is a sentence.
EXPRESSIONS: Final = frozenset({"MIT", "Apache-2.0", "MIT OR Apache-2.0", "BSD-3-Clause"})
_PREFIX: Final = "cuda-on-amd:"
Json = dict[str, object]


def sbom_of(lock: Lock, stack: Stack) -> Json:
    """Return the bill of materials of one stack; optional parts have the scope ``optional``."""
    optional = {id_ for ids in stack.optional.values() for id_ in ids} - set(stack.parts)
    names = [*stack.parts, *sorted(optional)]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"{lock.digest}/{stack.id}")
    reference = f"stack:{stack.id}"
    return {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": _stack(stack, reference, lock)},
        "components": [
            _artifact(lock.artifacts[name], "optional" if name in optional else "required") for name in names
        ],
        "dependencies": [
            {"ref": reference, "dependsOn": list(stack.parts)},
            *({"ref": name} for name in names),
        ],
    }


def _stack(stack: Stack, reference: str, lock: Lock) -> Json:
    """Describe the stack itself, and what it needs that it does not bring."""
    needs = {
        "sha256-of-lock": lock.digest,
        "signer-of-lock": lock.signer,
        "kind": stack.kind.value,
        "system": stack.requires.os,
        "gpus": " ".join(stack.requires.gfx),
        "hip-from": "" if stack.hip.source is HipSource.NONE else stack.hip.source.value,
        "hip-range": stack.hip.range,
    }
    return {
        "type": "platform",
        "bom-ref": reference,
        "name": stack.id,
        "version": lock.digest[:12],
        **({"description": stack.note} if stack.note else {}),
        "properties": _properties(needs),
    }


def _artifact(artifact: Artifact, scope: str) -> Json:
    """Describe one archive; its files are components inside it."""
    facts = {
        "trust": artifact.trust.value,
        "format": artifact.format.value,
        "bytes": "" if artifact.size is None else str(artifact.size),
        "source": artifact.source,
    }
    component: Json = {
        "type": "file",
        "bom-ref": artifact.id,
        "name": artifact.id,
        "scope": scope,
        "licenses": [_licence(artifact.license)],
        "properties": _properties(facts),
    }
    if artifact.note:
        component["description"] = artifact.note
    if artifact.sha256 is not None:
        component["hashes"] = [_hash(artifact.sha256)]
    if artifact.urls:
        component["externalReferences"] = [{"type": "distribution", "url": url} for url in artifact.urls]
    if artifact.members:
        component["components"] = [_member(artifact, member) for member in artifact.members]
    return component


def _member(artifact: Artifact, member: Member) -> Json:
    """Describe one file of an archive; its hash is known where the lock carries one."""
    component: Json = {"type": "file", "bom-ref": f"{artifact.id}#{member.path}", "name": member.path}
    if member.sha256 is not None:
        component["hashes"] = [_hash(member.sha256)]
    facts = {"provides": member.provides or "", "needs": " ".join(member.needs)}
    if properties := _properties(facts):
        component["properties"] = properties
    return component


def _licence(text: str) -> Json:
    return {"expression": text} if text in EXPRESSIONS else {"license": {"name": text or "unknown"}}


def _hash(digest: str) -> Json:
    return {"alg": "SHA-256", "content": digest}


def _properties(facts: dict[str, str]) -> list[Json]:
    """Return the facts that are known, under names of ours."""
    return [{"name": f"{_PREFIX}{name}", "value": value} for name, value in facts.items() if value]

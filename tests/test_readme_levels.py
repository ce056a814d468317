"""README and ``stacks`` never contradict each other on what a stack is worth: both read the documents."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from msgspec import Struct

from scripts.app.context import ROOT, Workspace, workspace_from_environ
from scripts.app.evidence_lookup import Proof, Worth
from scripts.app.stacks import StacksResult, stacks
from scripts.model import Host, Level


class ReadmeRow(Struct, frozen=True, kw_only=True):
    """One row of README's table; ``documents`` are those it links, with who saw what they say."""

    gpu: str
    stack: str
    levels: frozenset[str]
    failed: bool
    documents: dict[str, str]

    @property
    def highest(self) -> int:
        """The rank of the best that it shows."""
        return max((Level(level).rank for level in self.levels), default=-1)


def rows_of(page: str) -> list[ReadmeRow]:
    """Read the table as a person would."""
    found = []
    for line in page.splitlines():
        if not line.startswith("|") or "[document](" not in line:
            continue
        gpu, stack, shown, lacking, seen = (cell.strip() for cell in line.strip("|").split(" | "))
        documents = {
            match[2]: match[1] for match in re.finditer(r"(\w+) [^<]*?\[document\]\(([^)]+)\)", seen)
        }
        found.append(
            ReadmeRow(
                gpu=next(iter(re.findall(r"\((gfx\w+)\)", gpu)), gpu),
                stack=stack.strip("`"),
                levels=frozenset(re.findall(r"\*\*(\w+)\*\*", shown)),
                failed="**" in lacking,
                documents=documents,
            )
        )
    return found


def contradictions(page: str, listed: StacksResult) -> list[str]:
    """Name every statement of ``stacks`` that the page does not make as well, and the other way round."""
    rows, found = {(row.stack, row.gpu): row for row in rows_of(page)}, []
    for stack in listed.rows:
        name = stack.stack.id
        found += [_document(name, proof, rows.get((name, proof.gfx))) for proof in stack.proofs]
        found += [_worth(name, worth, rows.get((name, worth.gfx))) for worth in stack.worth]
    named = {row.stack.id: {proof.path for proof in row.proofs} for row in listed.rows}
    for row in rows.values():
        missing = set(row.documents) - named.get(row.stack, set(row.documents))
        found += [f"{row.stack}: README has {path}, `stacks` does not" for path in sorted(missing)]
    return [fault for fault in found if fault]


def _document(stack: str, proof: Proof, row: ReadmeRow | None) -> str:
    """Say where README and a document that ``stacks`` names differ; empty where they do not."""
    if row is None or proof.path not in row.documents:
        return f"{stack}: {proof.path} is not in README"
    if row.documents[proof.path] != proof.provenance:
        return f"{stack}: {proof.path} is {proof.provenance}, README has {row.documents[proof.path]}"
    if proof.outcome != "pass":
        return "" if row.failed else f"{stack}: {proof.path} is {proof.outcome}, README shows no failure"
    shown = proof.level is not None and proof.level.value in row.levels
    return "" if shown else f"{stack}: {proof.path} is {proof.level}, README shows {sorted(row.levels)}"


def _worth(stack: str, worth: Worth, row: ReadmeRow | None) -> str:
    """Say where README and the worth that ``stacks`` gives differ; empty where they do not."""
    if row is None:
        return f"{stack}: {worth.sentence}, README has nothing"
    if (worth.outcome != "pass" or worth.against) and not row.failed:
        return f"{stack}: {worth.sentence}, README shows no failure"
    if worth.outcome == "pass" and (worth.level is None or worth.level.rank != row.highest):
        return f"{stack}: {worth.sentence}, README shows {sorted(row.levels)}"
    return ""


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StacksResult:
    monkeypatch.setattr("scripts.app.stacks.host_of", lambda _ws: Host(os="windows", machine="x86_64"))
    ws: Workspace = workspace_from_environ(dict(os.environ), root=ROOT)
    return stacks(ws)


def test_the_readme_and_stacks_say_the_same(listed: StacksResult) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(rows_of(page)) >= 5
    assert sum(len(row.proofs) for row in listed.rows) >= 4
    assert contradictions(page, listed) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("**integrated**: ppo-training", "**functional**: ppo-training", "integrated"),
        ("**loadable**: cublas, cublaslt, cufft", "**integrated**: cublas, cublaslt, cufft", "is loadable"),
        ("(gfx1200) | `zluda-v6p69-sdk64`", "(gfx1200) | `zluda-v6-sdk64`", "is not in README"),
        ("measured 2026-11-30", "reported 2026-11-30", "is measured, README has reported"),
        (
            "**incorrect**: sdpa-memory-efficient | reported 2026-09-21",
            "- | reported 2026-09-21",
            "no failure",
        ),
    ],
    ids=["too low", "too high", "a stack", "who saw it", "a failure"],
)
def test_a_contradiction_is_found(listed: StacksResult, old: str, new: str, says: str) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert old in page
    assert any(says in fault for fault in contradictions(page.replace(old, new), listed))

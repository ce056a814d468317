"""README and ``stacks`` never contradict each other on what a stack is worth: both read the documents."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from msgspec import Struct
from scripts.evidence.index import load_evidence

from scripts.app.context import ROOT, Workspace, workspace_from_environ
from scripts.app.evidence_lookup import Proof
from scripts.app.stacks import StacksResult, stacks
from scripts.model import Host, Level
from tools.readme_table import status_table


class ReadmeRow(Struct, frozen=True, kw_only=True):
    """One row of README's table."""

    gpu: str
    stack: str
    levels: frozenset[str]
    failed: bool
    measured: bool


def rows_of(page: str) -> dict[str, ReadmeRow]:
    """Read the table as a person would: by document."""
    found = {}
    for line in page.splitlines():
        document = re.search(r"\[document\]\((evidence/[^)]+)\)", line)
        if line.startswith("|") and document is not None:
            gpu, stack, shown, lacking, seen = (cell.strip() for cell in line.strip("|").split(" | "))
            found[document[1]] = ReadmeRow(
                gpu=gpu,
                stack=stack.strip("`"),
                levels=frozenset(re.findall(r"\*\*(\w+)\*\*", shown)),
                failed="**" in lacking,
                measured=seen.startswith("measured"),
            )
    return found


def contradictions(page: str, listed: StacksResult) -> list[str]:
    """Name every statement of ``stacks`` that the page does not make as well, and the other way round."""
    rows, found = rows_of(page), []
    for row in listed.rows:
        found += [_about(row.stack.id, proof, rows.get(proof.path)) for proof in row.proofs]
        for worth in row.worth:
            shown = rows.get(worth.document)
            if worth.level is not None and (shown is None or worth.level.value not in shown.levels):
                found.append(f"{row.stack.id}: {worth.sentence}, README has {shown}")
            silent = [path for path in worth.against if path not in rows or not rows[path].failed]
            found += [f"{row.stack.id}: {path} is against it, README shows no failure" for path in silent]
    named = {row.stack.id: {proof.path for proof in row.proofs} for row in listed.rows}
    found += [
        f"{shown.stack}: README has {path}, `stacks` does not"
        for path, shown in rows.items()
        if path not in named.get(shown.stack, {path})
    ]
    return [fault for fault in found if fault]


def _about(stack: str, proof: Proof, shown: ReadmeRow | None) -> str:
    """Say where a row of README and a document that ``stacks`` names differ; empty where they do not."""
    if shown is None or shown.stack != stack:
        return f"{stack}: {proof.path}, README has {shown}"
    if shown.measured is not (proof.provenance == "measured"):
        return f"{stack}: {proof.path} is {proof.provenance}, README says otherwise"
    if proof.outcome == "pass" and proof.level is not lowest(shown):
        return f"{stack}: {proof.path} is {proof.level}, README has {shown}"
    if proof.outcome != "pass" and not shown.failed:
        return f"{stack}: {proof.path} is {proof.outcome}, README shows no failure"
    return ""


def lowest(shown: ReadmeRow) -> Level | None:
    """Return the lowest level of a row: what a document as a whole is worth."""
    return min(map(Level, shown.levels), key=lambda one: one.rank, default=None)


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
    assert contradictions(status_table(load_evidence(ROOT / "evidence")), listed) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("**integrated**: ppo-training", "**loadable**: ppo-training", "is integrated, README has"),
        ("| `zluda-v6p69-sdk64` | **loadable**", "| `zluda-v6-sdk64` | **loadable**", "`stacks` does not"),
        ("measured 2026-11-30", "reported 2026-11-30", "is measured, README says otherwise"),
        ("**incorrect**: sdpa-memory-efficient; **unavailable**", "unavailable", "README shows no failure"),
    ],
    ids=["a level", "a stack", "who saw it", "a failure"],
)
def test_a_contradiction_is_found(listed: StacksResult, old: str, new: str, says: str) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert old in page
    assert any(says in fault for fault in contradictions(page.replace(old, new), listed))

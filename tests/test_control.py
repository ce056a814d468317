"""The control: its steps run in a clone of a commit, and what is committed of them is what it claims."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from scripts.app.context import workspace_from_environ
from scripts.app.stack_process import revision_of
from scripts.evidence.document import Document, Provenance
from scripts.evidence.evidence_io import read_document
from scripts.evidence.merging import PROBES
from scripts.probing.catalogue import Probe, probes
from tools.control import clone
from tools.probes_page import passed_on_cuda

ROOT = Path(__file__).resolve().parents[1]
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not there")


def commit(folder: Path, text: str) -> None:
    """Put one file into a repository and commit it."""
    (folder / "file").write_text(text, encoding="utf-8")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "file"), (*who, "commit", "-qm", "One file")):
        subprocess.run(["git", "-C", str(folder), *words], check=True, timeout=60)


@needs_git
def test_a_changed_checkout_is_cloned_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "source"
    source.mkdir()
    commit(source, "committed")
    (source / "file").write_text("changed", encoding="utf-8")
    before = revision_of(workspace_from_environ(os.environ, root=source))
    assert before is not None
    assert before.dirty
    cloned = clone(source, tmp_path / "clone")
    after = revision_of(workspace_from_environ(os.environ, root=cloned))
    assert after is not None
    assert (after.commit, after.dirty) == (before.commit, False)
    assert (cloned / "file").read_text(encoding="utf-8") == "committed"
    assert "not in it: M file" in capsys.readouterr().out


def shown() -> list[Document]:
    """Return the committed documents of probes on NVIDIA's own CUDA; reading checks their form."""
    every = [read_document(path) for path in sorted((ROOT / "evidence").glob("*.json"))]
    return [d for d in every if (d.subject.stack, d.subject.application) == ("native-cuda", PROBES)]


def test_the_documents_of_real_cuda_were_measured_at_a_clean_commit() -> None:
    assert shown()
    for document in shown():
        assert document.provenance is Provenance.MEASURED
        assert not document.simulated
        assert document.subject.gpu is not None
        assert document.subject.gpu.vendor == "nvidia"
        assert document.lock is not None
        assert not document.lock.custom
        assert document.revision is not None
        assert not document.revision.dirty
        assert {a.capability for a in document.attempts} == {r.capability for r in document.results}


@pytest.fixture(scope="module")
def passed() -> set[str]:
    return set(passed_on_cuda())


@pytest.mark.parametrize("probe", probes().values(), ids=lambda probe: probe.name)
def test_every_probe_passes_on_real_cuda_or_says_why_not(probe: Probe, passed: set[str]) -> None:
    assert (probe.name in passed) is not bool(probe.unshown)

"""The summary says what a download costs before the first byte, and only a clear yes counts."""

from __future__ import annotations

import builtins
import doctest
import io
from pathlib import Path

import pytest

from scripts.app.download_summary import (
    DownloadSummary,
    custom_settings,
    require_consent,
    summarize_downloads,
)
from scripts.cli import console
from scripts.cli.console import Out
from scripts.cli.views.setup import ask_about_download
from scripts.errors import UsageError
from scripts.model import Artifact, ArtifactFormat, EnvPolicy, Lock, Stack, StackKind, Trust
from scripts.osal import text
from scripts.store.fetch import FetchAction, FetchPlan


def plan(name: str, size: int | None, action: FetchAction = FetchAction.FETCH) -> FetchPlan:
    artifact = Artifact(
        id=name,
        urls=("https://example.org/file.zip",),
        sha256="0" * 64,
        size=size,
        format=ArtifactFormat.ZIP,
        root="",
        license="MIT",
        source="example",
        trust=Trust.SINGLE_REPORT,
        note="nobody has checked it",
    )
    fetched = size if action is FetchAction.FETCH else 0
    disk = None if fetched is None else 4 * fetched
    return FetchPlan(artifact=artifact, action=action, download_bytes=fetched, disk_bytes=disk, urls=())


EXACT = summarize_downloads("s", (plan("layer", 2_000_000), plan("here", 7, FetchAction.HAVE)))
OPEN = summarize_downloads("s", (plan("layer", 2_000_000), plan("unknown", None)))


def asked(summary: DownloadSummary, answer: str, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, str]:
    def typed() -> str:
        if answer == "end":
            raise EOFError
        return answer

    monkeypatch.setattr(builtins, "input", typed)
    err = io.StringIO()
    return ask_about_download(summary, Out(io.StringIO(), err)), err.getvalue()


def test_the_bill_shows_size_disk_licence_and_trust(monkeypatch: pytest.MonkeyPatch) -> None:
    _, shown = asked(EXACT, "n", monkeypatch)
    for word in ("layer", "2.0 MB", "MIT", "single report", "nobody has checked it", "about 8.0 MB\n"):
        assert word in shown
    assert "here" not in shown, "what costs nothing is not on the summary"


def test_an_unpublished_size_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    _, shown = asked(OPEN, "n", monkeypatch)
    assert "not published" in shown
    assert "about 8.0 MB or more" in shown
    assert "Download 2.0 MB or more for s? [y/N]" in shown


@pytest.mark.parametrize(
    ("answer", "agreed"),
    [("y", True), (" YES ", True), ("", False), ("n", False), ("j", False), ("end", False)],
)
def test_only_a_clear_yes_counts(answer: str, monkeypatch: pytest.MonkeyPatch, *, agreed: bool) -> None:
    assert asked(EXACT, answer, monkeypatch)[0] is agreed


def test_nothing_to_download_asks_nobody() -> None:
    require_consent(summarize_downloads("s", (plan("here", 7, FetchAction.HAVE),)), yes=False, ask=None)


def test_without_anybody_to_ask_the_bill_is_the_error() -> None:
    with pytest.raises(UsageError, match=r"2\.0 MB and files of unpublished size") as caught:
        require_consent(OPEN, yes=False, ask=None)
    assert caught.value.reference == "consent-needed"
    assert len(caught.value.context) == len(OPEN.to_download)


SETS = summarize_downloads("s", (), ("ZLUDA_CC=8.6",))


def test_what_a_custom_lock_sets_is_shown_and_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    agreed, shown = asked(SETS, "n", monkeypatch)
    assert not agreed
    assert "ZLUDA_CC=8.6" in shown
    assert "Use s? [y/N]" in shown
    with pytest.raises(UsageError, match="sets variables") as caught:
        require_consent(SETS, yes=False, ask=None)
    assert caught.value.context == ("the custom lock sets ZLUDA_CC=8.6",)
    require_consent(SETS, yes=True, ask=None)


@pytest.mark.parametrize("custom", [False, True])
def test_only_a_custom_lock_is_asked_about(tmp_path: Path, *, custom: bool) -> None:
    policy = EnvPolicy(name="ZLUDA_CC", value="8.6", why="explicit")
    removed = EnvPolicy(name="CUDA_PATH", value=None, why="none")
    stack = Stack(id="s", kind=StackKind.TRANSLATION, env=(policy, removed))
    lock = Lock(path=tmp_path, digest="", artifacts={}, stacks={"s": stack}, custom=custom)
    assert custom_settings(lock, stack) == (("ZLUDA_CC=8.6",) if custom else ())


def test_the_examples_in_the_words_are_true() -> None:
    assert doctest.testmod(console) == doctest.TestResults(failed=0, attempted=3)
    assert doctest.testmod(text) == doctest.TestResults(failed=0, attempted=2)

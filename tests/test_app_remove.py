"""``remove`` takes what is ours by name, wherever its folders were pointed at, and nothing else."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from scripts.app.cleanup import IN_CHECKOUT, IN_STAGE, IN_STATE, TESTS, remove
from scripts.app.context import Workspace
from scripts.app.wrap_placing import registry_of, shims_here
from scripts.cli.console import Out
from scripts.cli.views.status import show_remove
from scripts.errors import ConflictError
from scripts.evidence.document import Provenance
from scripts.staging.runtimes import activate, remember_stage
from scripts.staging.state_folder import SHIMS
from scripts.store.cache import Cache
from tests.checkout import COMPILED


def workspace(folder: Path) -> Workspace:
    return Workspace(
        root=folder,
        lock_path=folder / "pins.lock",
        custom_lock=False,
        cache_root=folder / "store",
        stage=folder / "stage",
        state_root=folder / "state",
        environ={},
        platform=sys.platform,
    )


def fill(ws: Workspace) -> None:
    activate(ws.stage, stack="one", digest="a" * 64, lock="l", reason="setup")
    remember_stage(ws.state_root, ws.stage)
    Cache(ws.cache_root).ensure()
    for folder, names in ((ws.stage, IN_STAGE), (ws.state_root, IN_STATE)):
        for name in names:
            if not Path(name).suffix:
                (folder / name).mkdir()
                (folder / name / "x").write_text("ours", encoding="utf-8")
        (folder / f".{names[0]}.0123abcd.tmp").write_text("half", encoding="utf-8")
    for name in ("README.md", ".gitignore"):
        (ws.stage / name).write_text("tracked", encoding="utf-8")


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_everything_of_ours_goes(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    fill(ws)
    result = remove(ws, yes=True)
    assert result.done
    assert result.kept == ()
    assert names(tmp_path) == ["stage/.gitignore", "stage/README.md"]
    assert not ws.state_root.exists()
    assert not ws.cache_root.exists()


def test_without_consent_nothing_goes(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    fill(ws)
    before = names(tmp_path)
    assert not remove(ws).done
    assert names(tmp_path) == before


def test_beside_another_checkout_only_our_own_shims_leave_the_list(tmp_path: Path) -> None:
    ws, other = workspace(tmp_path), tmp_path / "other" / "stage"
    fill(ws)
    activate(other, stack="one", digest="a" * 64, lock="l", reason="setup")
    remember_stage(ws.state_root, other)
    shims = [folder / "shims" / "hello-one.sh" for folder in (ws.stage, other)]
    moved = other / "shims" / "moved-one.sh"
    for path in (*shims, moved):
        path.parent.mkdir(exist_ok=True)
        path.write_text("ours", encoding="utf-8")
        registry_of(ws).add(SHIMS, path, program="hello", stack="one", digest="a" * 64)
    moved.unlink()
    remove(ws)
    assert len(shims_here(ws)) == 3, "without consent the list stays"
    remove(ws, yes=True)
    assert not shims[0].exists()
    assert [shim.path for shim in shims_here(ws)] == [shims[1], moved]
    assert shims[1].exists()


@pytest.mark.parametrize("which", ["stage", "state", "store"])
def test_a_strangers_file_beside_ours_stays(tmp_path: Path, which: str) -> None:
    ws = workspace(tmp_path)
    fill(ws)
    mine = tmp_path / which / "thesis" / "chapter.txt"
    mine.parent.mkdir()
    mine.write_text("dear", encoding="utf-8")
    result = remove(ws, yes=True)
    assert mine.read_text(encoding="utf-8") == "dear"
    assert str(mine.parent) not in result.paths
    tracked = ["stage/.gitignore", "stage/README.md"]
    assert names(tmp_path) == sorted([*tracked, f"{which}/thesis/chapter.txt"])
    assert any("thesis" in line for line in result.kept) is (which == "stage")


def test_a_state_folder_that_is_a_home_keeps_everything_in_it(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    home = ws.state_root
    for name in (".ssh/id_ed25519", "Documents/a.txt", "registry.txt"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("dear", encoding="utf-8")
    before = names(home)
    remove(ws, yes=True)
    assert names(home) == before


@pytest.mark.posix_only
def test_a_stage_that_leads_elsewhere_is_left_alone(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    mine = tmp_path / "documents" / "reports" / "year.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("dear", encoding="utf-8")
    ws.stage.symlink_to(tmp_path / "documents")
    with pytest.raises(ConflictError) as caught:
        remove(ws, yes=True)
    assert caught.value.reference == "stage-is-a-link"
    assert mine.read_text(encoding="utf-8") == "dear"
    assert ws.stage.is_symlink()


@pytest.mark.posix_only
def test_links_below_the_stage_go_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    fill(ws)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "a.txt").write_text("dear", encoding="utf-8")
    (ws.stage / "reports" / "link").symlink_to(mine)
    (ws.state_root / "registry-v1" / "link").symlink_to(mine)
    remove(ws, yes=True)
    assert (mine / "a.txt").read_text(encoding="utf-8") == "dear"


def test_where_nothing_is_left_nothing_is_proposed(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    for filled in (False, True):
        if filled:
            fill(ws)
        out = io.StringIO()
        show_remove(remove(ws), Out(out, out))
        assert ("invoke remove --yes" in out.getvalue()) is filled
        assert ("there is nothing to remove" in out.getvalue()) is not filled


def test_what_tools_left_in_the_checkout_goes_and_its_environment_is_named(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    fill(ws)
    for name in (*IN_CHECKOUT, ".venv", "scripts/__pycache__", "scripts/cli/__pycache__", "mine"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x").write_text("made", encoding="utf-8")
    (tmp_path / "scripts" / "own.py").write_text("source", encoding="utf-8")
    shown = remove(ws)
    assert {str(tmp_path / name) for name in IN_CHECKOUT} < set(shown.paths)
    result = remove(ws, yes=True)
    assert names(tmp_path) == [".venv/x", "mine/x", "scripts/own.py", "stage/.gitignore", "stage/README.md"]
    assert [line.startswith(f"{tmp_path / '.venv'}: ") for line in result.kept] == [True]


def test_what_the_tests_compiled_is_named_and_stays(tmp_path: Path) -> None:
    ws = replace(workspace(tmp_path / "checkout"), caches=tmp_path)
    assert remove(ws).kept == ()
    folder = tmp_path / TESTS
    folder.mkdir()
    assert TESTS in COMPILED.parts
    (line,) = remove(ws, yes=True).kept
    assert line.startswith(f"{folder}: compiled by the tests")
    assert f"'{folder}'" in line or f'"{folder}"' in line
    assert folder.is_dir()


FOREIGN = {
    "an environment": ("my-tools/pyvenv.cfg", "my-tools/lib/site-packages/rich/__pycache__"),
    "a plain folder": ("experiments/train.py", "experiments/__pycache__"),
    "a repository": ("their-project/.git/HEAD", "their-project/src/__pycache__"),
    "an environment below ours": ("tools/env/pyvenv.cfg", "tools/env/lib/__pycache__"),
    "a repository below ours": ("scripts/theirs/.git/HEAD", "scripts/theirs/__pycache__"),
}


@pytest.mark.parametrize(("marker", "compiled"), FOREIGN.values(), ids=FOREIGN)
def test_compiled_modules_of_the_users_own_folders_stay(tmp_path: Path, marker: str, compiled: str) -> None:
    ws = workspace(tmp_path)
    fill(ws)
    theirs = tmp_path / compiled / "a.cpython-312.pyc"
    own = ("__pycache__", "tools/__pycache__", "native/a/__pycache__")
    ours = [tmp_path / name / "a.pyc" for name in own]
    for path in (tmp_path / marker, theirs, *ours):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")
    result = remove(ws, yes=True)
    assert theirs.is_file()
    assert str(theirs.parent) not in result.paths
    assert not any(path.exists() for path in ours)


@pytest.mark.posix_only
def test_compiled_modules_behind_a_link_stay(tmp_path: Path) -> None:
    ws = workspace(tmp_path)
    theirs = tmp_path / "elsewhere" / "__pycache__" / "a.pyc"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("x", encoding="utf-8")
    (tmp_path / "scripts").mkdir()
    for name in ("__pycache__", "scripts/__pycache__"):
        (tmp_path / name).symlink_to(theirs.parent)
    (tmp_path / "tools").symlink_to(theirs.parent.parent)
    remove(ws, yes=True)
    assert theirs.is_file()


def test_an_environment_that_runs_us_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ws = workspace(tmp_path)
    inside = tmp_path / ".nox" / "tests"
    inside.mkdir(parents=True)
    monkeypatch.setattr(sys, "prefix", str(inside))
    result = remove(ws, yes=True)
    assert inside.is_dir()
    assert result.kept[0].startswith(str(tmp_path / ".nox"))


@pytest.mark.parametrize(
    ("simulated", "stays"), [(False, True), (True, False)], ids=["measured", "simulated"]
)
def test_a_document_that_was_measured_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, simulated: bool, stays: bool
) -> None:
    ws = workspace(tmp_path)
    fill(ws)
    report = ws.stage / "reports" / "20261201T000000Z-one"
    report.mkdir()
    for name in ("evidence.json", "gemm.log"):
        (report / name).write_text("{}", encoding="utf-8")
    document = SimpleNamespace(provenance=Provenance.MEASURED, simulated=simulated)
    monkeypatch.setattr("scripts.app.cleanup.read_document", lambda *_a, **_k: document)
    result = remove(ws, yes=True)
    assert (report / "evidence.json").exists() is stays
    assert not (report / "gemm.log").exists()
    assert [str(report / "evidence.json") in line for line in result.kept] == ([True] if stays else [])


@pytest.mark.slow
@pytest.mark.posix_only
def test_what_a_running_program_uses_stays(tmp_path: Path) -> None:
    """A real run: while it goes on nothing is removed, after it was killed the note of it is forgotten."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    (runtime / "libcuda.so.1").write_bytes(b"ours")
    line = [sys.executable, "-m", "tests.wrapping", str(runtime), "reference", "wrap"]
    ws = workspace(tmp_path / "checkout")
    fill(ws)
    with subprocess.Popen(
        [*line, f"--exe={shutil.which('sh')}", "--via=env", "--", "-c", "echo ready; exec sleep 60"],
        cwd=Path(__file__).resolve().parents[1],
        env={**os.environ, "CUDA_AMD_STATE": str(ws.state_root)},
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        before = names(tmp_path)
        with pytest.raises(ConflictError) as caught:
            remove(ws, yes=True)
        assert caught.value.reference == "stack-in-use"
        assert "sh with test-stack" in " ".join(caught.value.context)
        assert names(tmp_path) == before
        child.terminate()
        child.wait()
    assert remove(ws, yes=True).done

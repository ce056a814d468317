"""``wrap --via=beside`` as a person types it: explained first, gone afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checkout import Checkout

pytestmark = pytest.mark.posix_only  # a script is the program here; Windows has its own tests of placing


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "ein Programm ü"
    folder.mkdir()
    (folder / "libcuda.so.1").write_bytes(b"the program's own")
    path = folder / "app"
    path.write_text('#!/bin/sh\nls "$(dirname "$0")"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


def names(program: Path) -> list[str]:
    return sorted(path.name for path in program.parent.iterdir())


@pytest.mark.slow
def test_explaining_names_every_file_and_changes_nothing(ready: Checkout, program: Path) -> None:
    before = names(program)
    told = ready.json("wrap", f"--exe={program}", "--via=beside", "--explain")
    notes = "\n".join(told["notes"])
    assert f"would replace (the original is kept and put back): {program.parent / 'libcuda.so.1'}" in notes
    assert f"would create: {program.parent / 'libcublas.so.12'}" in notes
    assert names(program) == before


@pytest.mark.slow
def test_what_is_placed_is_there_while_it_runs_and_gone_afterwards(ready: Checkout, program: Path) -> None:
    before = names(program)
    done = ready.run("wrap", f"--exe={program}", "--via=beside")
    assert done.returncode == 0, done.stderr
    assert "libcublas.so.12" in done.stdout.split()
    assert names(program) == before
    assert (program.parent / "libcuda.so.1").read_bytes() == b"the program's own"
    assert ready.json("status")["placements"] == []


@pytest.mark.proof
def test_what_is_kept_is_shown_by_status_and_taken_back_by_unwrap(ready: Checkout, program: Path) -> None:
    before = names(program)
    done = ready.run("wrap", f"--exe={program}", "--keep")
    assert done.returncode == 0
    assert f'invoke unwrap --target="{program.parent}"' in done.stderr
    (placed,) = ready.json("status")["placements"]
    assert Path(placed["target"]) == program.parent
    assert ready.run("unwrap", "--all").returncode == 0
    assert names(program) == before
    assert (program.parent / "libcuda.so.1").read_bytes() == b"the program's own"


@pytest.mark.proof
@pytest.mark.parametrize("how", ["rm -rf", "rm -rf journal"], ids=["folder", "journal"])
def test_a_program_that_removes_the_record_does_not_pass_for_an_undo(
    ready: Checkout, program: Path, how: str
) -> None:
    before = names(program)
    state = f'"$(dirname "$0")/.cuda-amd{"/journal" if "journal" in how else ""}"'
    program.write_text(f"#!/bin/sh\nrm -rf {state}\n", encoding="utf-8")
    done = ready.run("wrap", f"--exe={program}", "--via=beside")
    assert done.returncode == 41, done.stderr
    assert "vanished" in done.stderr
    placed = ready.json("status")["placements"]
    if "journal" in how:  # the originals were still there
        assert placed == []
    else:
        assert "libcuda.so.1:" in done.stderr
        assert [status["standing"] for status in placed] == ["lost: its record vanished"]
        assert ready.run("unwrap", "--all").returncode == 41
        assert ready.run("unwrap", "--all", "--theirs").returncode == 0
        assert ready.json("status")["placements"] == []
    assert names(program) == before

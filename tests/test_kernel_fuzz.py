"""Damaged PTX and containers never crash the checker; ``python -m tools.kernel_fuzz`` does 100,000."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from scripts.preflight.kernels import KernelStore
from scripts.preflight.look import look
from tests.fatbins import PTX, container, entry
from tests.preflight_programs import dll, ship
from tests.ptx_texts import kernel, text
from tools import kernel_fuzz
from tools.kernel_fuzz import SLOWEST, fuzz


def test_damaged_modules_are_answered_in_bounded_time() -> None:
    found = fuzz(600, 7)
    assert (found.modules, found.crashes) == (600, [])
    assert found.files >= 100
    assert found.slowest <= SLOWEST


def test_a_crash_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def crashing(data: bytes) -> None:
        if b"lop3" in data:
            raise IndexError

    monkeypatch.setattr(kernel_fuzz, "check_text", crashing)
    found = fuzz(50, 1)
    assert found.crashes
    assert found.crashes[0].startswith("IndexError: ")


@pytest.mark.parametrize("claim", [1 << 62, 1 << 40, 1 << 32])
def test_an_entry_that_claims_more_than_there_is_ends_with_the_file(tmp_path: Path, claim: int) -> None:
    """Found by fuzzing: it was read piece by piece to the end of the claim."""
    data = bytearray(container(entry(PTX, 86, text(kernel("a")))))
    struct.pack_into("<Q", data, 24, claim)
    path = tmp_path / "module.fatbin"
    path.write_bytes(data)
    look(path, KernelStore(tmp_path / "kernels"))


def test_containers_in_the_code_of_others_are_no_containers(tmp_path: Path) -> None:
    """Each may claim all that follows: to read them all would take the square of the size."""
    inner = container(entry(PTX, 86, text(kernel("a"))))
    for _ in range(20):
        inner = container(entry(PTX, 86, inner))
    data = {".data": inner + container(entry(PTX, 86, text(kernel("b"))))}
    path = ship(tmp_path, {"app.dll": dll(sections=data)})
    (code,) = look(path).code
    assert code.modules == 2

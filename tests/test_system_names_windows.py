"""A second name for a folder leads where it says, and only from a place that nobody else can change."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts.errors import LaunchError

if sys.platform == "win32":
    from scripts.osal.ascii_alias_windows import (
        PRIVATE,
        is_private,
        private_folder,
        private_junction,
        short_name,
    )

pytestmark = pytest.mark.windows_only

ME, OTHER = "S-1-5-21-1-2-3-1001", "S-1-5-21-1-2-3-1002"
ACES = "(A;OICI;FA;;;OW)(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"


@pytest.mark.parametrize(
    ("owner", "access", "private"),
    [
        (ME, "D:P" + ACES, True),
        (ME, "D:PAI" + ACES, True),
        (ME, "D:P(A;OICI;FA;;;BA)(A;OICI;FA;;;OW)(A;OICI;FA;;;SY)", True),
        (OTHER, "D:P" + ACES, False),
        (ME, "D:" + ACES, False),
        (ME, "D:AI" + ACES, False),
        (ME, "D:P" + ACES + "(A;OICI;FA;;;BU)", False),
        (ME, "D:P(A;OICI;FA;;;OW)", False),
        (ME, "", False),
        (ME, "D:NO_ACCESS_CONTROL", False),
    ],
)
def test_only_an_own_folder_with_a_closed_list_is_private(owner: str, access: str, private: bool) -> None:
    assert is_private(owner, access, ME) is private


def test_what_we_ask_for_is_private() -> None:
    assert is_private(ME, PRIVATE, ME)


def test_a_junction_is_made_in_a_private_folder_or_refused(tmp_path: Path) -> None:
    target = tmp_path / "Jürgen"
    target.mkdir()
    try:
        link = private_junction(target, tmp_path)
    except LaunchError:  # Wine keeps no access lists, and so nothing there is private
        [folder] = [p for p in tmp_path.iterdir() if p.name.startswith("cuda-on-amd-")]
        assert not list(folder.iterdir()), "a junction was made in a folder that was refused"
        return
    assert link.samefile(target)
    assert str(link.relative_to(tmp_path)).isascii()


def test_a_folder_that_was_there_with_another_list_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "Jürgen"
    target.mkdir()
    private_folder(tmp_path).mkdir()
    with pytest.raises(LaunchError) as caught:
        private_junction(target, tmp_path)
    assert caught.value.reference == "junction-unsafe"
    assert not list(private_folder(tmp_path).iterdir())


def test_a_short_name_is_the_same_folder_or_none(tmp_path: Path) -> None:
    folder = tmp_path / "a folder with a long name"
    folder.mkdir()
    short = short_name(folder)
    assert short is None or Path(short).samefile(folder)
    assert short_name(tmp_path / "no") is None

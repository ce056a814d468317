"""The tables about GPUs and HIP releases are whole, agree with themselves, and never guess."""

from __future__ import annotations

import re

import pytest
from packaging.version import Version

from scripts.host import gpu, hip_libraries, support
from scripts.host.support import SupportLevel
from scripts.serialize import data_table

MODELS = data_table(gpu.TABLE)
HIP = data_table(hip_libraries.TABLE)


@pytest.mark.parametrize(
    ("device", "revision", "gfx", "integrated"),
    [
        pytest.param("744c", "c8", "gfx1100", False, id="rx-7900-xtx"),
        pytest.param("7590", "C0", "gfx1200", False, id="rx-9060-xt"),
        pytest.param("1114", "c3", "gfx1152", True, id="840m-of-krackan-1"),
        pytest.param("1902", "c0", "gfx1153", True, id="840m-of-krackan-2"),
        pytest.param("73ff", "c1", "gfx1032", False, id="rx-6600-xt"),
        pytest.param("73ff", "df", "gfx1031", False, id="rx-6750-gre-10gb"),
        pytest.param("7340", "c7", "gfx1012", False, id="rx-5500"),
        pytest.param("163f", "ae", "gfx1033", True, id="steam-deck"),
        pytest.param("163f", "77", "gfx1033", True, id="any-revision-of-an-apu"),
        pytest.param("1506", "c1", "gfx1036", True, id="mendocino"),
        pytest.param("164e", "d8", "gfx1036", True, id="raphael"),
        pytest.param("150e", "00", "gfx1150", True, id="strix-point"),
        pytest.param("731f", "c1", "gfx1010", False, id="rx-5700-xt"),
        pytest.param("687f", "1", "gfx900", False, id="a-revision-is-two-digits"),
    ],
)
def test_the_id_decides(device: str, revision: str, gfx: str, integrated: bool) -> None:
    known = gpu.identify(device, revision)
    assert (known.gfx, known.integrated, known.why_unknown) == (gfx, integrated, "")


@pytest.mark.parametrize(
    ("device", "revision", "words"),
    [
        ("73ff", "99", ("73FF", "99", "gfx1031, gfx1032")),
        ("744c", "", ("744C", "00")),
        ("ffff", "00", ("FFFF", "not in our table")),
        ("", "", ("not in our table",)),
    ],
)
def test_an_id_that_is_not_listed_is_unknown_with_the_reason(
    device: str, revision: str, words: tuple[str, ...]
) -> None:
    known = gpu.identify(device, revision)
    assert (known.gfx, known.integrated) == (None, None)
    assert all(word in known.why_unknown for word in words)


def test_every_model_has_ids_and_named_sources() -> None:
    assert len(MODELS["model"]) == 216
    for model in MODELS["model"]:
        assert re.fullmatch(r"gfx[0-9a-f]{3,4}", model["gfx"])
        assert model["pci"], model["name"]
        assert all(re.fullmatch(r"[0-9A-F]{4}:([0-9A-F]{2}|\*)", key) for key in model["pci"])
        assert set(model["source"]) <= set(MODELS["sources"])


def test_no_id_stands_for_two_architectures() -> None:
    owners: dict[str, set[tuple[str, bool]]] = {}
    for model in MODELS["model"]:
        for key in model["pci"]:
            owners.setdefault(key, set()).add((model["gfx"], model["integrated"]))
    assert {key: chips for key, chips in owners.items() if len(chips) > 1} == {}


def test_a_chip_is_integrated_in_all_its_models_or_in_none() -> None:
    kinds: dict[str, set[bool]] = {}
    for model in MODELS["model"]:
        kinds.setdefault(model["gfx"], set()).add(model["integrated"])
    assert all(len(kind) == 1 for kind in kinds.values())


@pytest.mark.parametrize(
    ("gfx", "version", "verdict"),
    [
        ("gfx1200", "6.4.2", SupportLevel.RUNTIME_AND_LIBRARIES),
        ("gfx1200", "6.2.4", SupportLevel.NONE),
        ("gfx1101", "5.7.1", SupportLevel.NONE),
        ("gfx1101", "6.1", SupportLevel.RUNTIME_AND_LIBRARIES),
        ("gfx1032", "6.4.43483.0", SupportLevel.RUNTIME),
        ("gfx1030", "7.1.1-12", SupportLevel.RUNTIME_AND_LIBRARIES),
        ("gfx1030", "7.2.0", SupportLevel.NONE),
        ("gfx1150", "7.1.1", SupportLevel.NONE),
        ("gfx1150", "7.2", SupportLevel.RUNTIME_AND_LIBRARIES),
        ("gfx1103", "7.2.0", SupportLevel.NONE),
        ("gfx906", "6.4", SupportLevel.NONE),
        ("gfx1200", "7.14.0a20260612", SupportLevel.UNKNOWN),
        ("gfx1200", "10.1.0", SupportLevel.UNKNOWN),
        ("gfx1200", "", SupportLevel.UNKNOWN),
        ("gfx1200", "latest", SupportLevel.UNKNOWN),
        ("gfx942", "6.4.2", SupportLevel.UNKNOWN),
    ],
)
def test_support(gfx: str, version: str, verdict: SupportLevel) -> None:
    said = support.support(gfx, version)
    assert said.verdict is verdict
    assert gfx in said.sentence
    assert bool(said.source) is (verdict is not SupportLevel.UNKNOWN)


def test_the_support_table_is_whole_and_sourced() -> None:
    columns = {tuple(row) for row in HIP["support"].values()}
    assert len(columns) == 1
    versions = columns.pop()
    assert set(versions) <= {sdk.version for sdk in support.releases()} & set(HIP["sources"])
    assert {cell for row in HIP["support"].values() for cell in row.values()} == {
        "RL",
        "R",
        "none",
        "unlisted",
    }


def test_releases_stand_oldest_first() -> None:
    versions = [Version(sdk.version) for sdk in support.releases()]
    assert versions == sorted(versions)
    for sdk in support.releases():
        major, minor = Version(sdk.version).release[:2]
        assert sdk.root == f"HIP_PATH_{major}{minor}"
        assert sdk.runtime == ("amdhip64.dll" if major < 6 else f"amdhip64_{major}.dll")


def test_where_to_get_names_the_newest_release_in_the_range() -> None:
    assert "HIP SDK 6.4.2 (release 25.Q3" in support.where_to_get(">=6.4,<7")
    assert "HIP SDK 7.2.0" in support.where_to_get(">=7")
    assert support.where_to_get(">=8") == "Install a HIP runtime of version >=8."


def test_driver_notes_belong_to_an_architecture_and_name_the_report() -> None:
    assert "ROCm/TheRock#8379" in support.driver_notes("gfx1201")[0]
    assert support.driver_notes("gfx1010") == ()

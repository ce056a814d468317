"""What people call a GPU: which architecture it is, and when a name does not say."""

from __future__ import annotations

import pytest

from scripts.app.advice import find_gpu
from scripts.host.gpu import named_models


def test_every_product_is_found_by_its_own_name_in_any_case() -> None:
    for name, gfx in sorted(named_models()):
        for text in (name, name.upper(), f"  {name.lower()} "):
            assert gfx in find_gpu(text).gfx, text


@pytest.mark.parametrize(
    ("text", "gfx"),
    [
        ("rx7900xtx", ("gfx1100",)),
        ("RX 7900 XT", ("gfx1100",)),
        ("AMD Radeon(TM) 890M Graphics", ("gfx1150",)),
        ("9060 xt", ("gfx1200",)),
        ("R9700", ("gfx1201",)),
        ("RX 6700 XT", ("gfx1031",)),
        ("rx 580", ("gfx803",)),
        ("RX 460", ("gfx803",)),
        ("Vega 64", ("gfx900",)),
        ("Radeon VII", ("gfx906",)),
        ("MI50", ("gfx906",)),
        ("MI100", ("gfx908",)),
        ("MI250", ("gfx90a",)),
        ("MI300X", ("gfx942",)),
        ("Radeon 840M", ("gfx1152", "gfx1153")),
        ("GFX1201", ("gfx1201",)),
        ("gfx90c", ("gfx90c",)),
        ("GeForce RTX 4090", ()),
        ("AMD Radeon(TM) Graphics", ()),
        ("", ()),
        ("é" * 1000, ()),
    ],
)
def test_names_as_people_write_them(text: str, gfx: tuple[str, ...]) -> None:
    assert find_gpu(text).gfx == gfx


def test_an_exact_name_goes_before_longer_ones() -> None:
    assert find_gpu("RX 9070").names == ("AMD Radeon RX 9070",)
    assert len(find_gpu("907").names) == 0


ONE_LINE = (
    "device# 0 Name: AMD Radeon RX 9070 XT gcnArchName: gfx1201 isIntegrated: 0 "
    "device# 1 Name: AMD Radeon(TM) Graphics gcnArchName: gfx1036 isIntegrated: 1"
)
QUOTED = (
    "> device#                           0\n> Name:      AMD Radeon RX 9070 XT\n"
    "> gcnArchName: gfx1201:xnack-\n> device#  1\n> Name: AMD Radeon(TM) Graphics\n> gcnArchName:  gfx1036\n"
)


@pytest.mark.parametrize("text", [ONE_LINE, QUOTED], ids=["one line", "quoted"])
def test_hipinfo_is_read_as_it_was_pasted(text: str) -> None:
    match = find_gpu(text)
    assert match.gfx == ("gfx1201", "gfx1036")
    assert match.names == ("AMD Radeon RX 9070 XT", "AMD Radeon(TM) Graphics")

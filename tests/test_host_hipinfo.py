"""hipInfo's output is read in every shape people send it; what it does not say stays unknown."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.host import hipinfo
from scripts.host.hipinfo import Device, HipInfo
from scripts.osal.text import decoded

DATA = Path(__file__).parent / "data" / "hipinfo"
WHOLE = ("two-devices-xnack", "integrated-first", "renumbered")
GIB = 1 << 30


def sample(name: str) -> str:
    return decoded((DATA / f"{name}.txt").read_bytes())


def read(name: str) -> HipInfo:
    return hipinfo.parse(sample(name))


def essence(info: HipInfo) -> list[tuple[object, ...]]:
    return [(d.number, d.name, d.bus, d.gfx, d.integrated, d.memory_bytes) for d in info.devices]


RX5700 = (0, "AMD Radeon RX 5700", 200, "gfx1010", False, round(7.98 * GIB))
R890M = (1, "AMD Radeon(TM) 890M Graphics", 202, "gfx1150", True, round(13.11 * GIB))
RAPHAEL = (0, "AMD Radeon(TM) Graphics", 18, "gfx1036", True, round(12.20 * GIB))
XTX = (1, "AMD Radeon RX 7900 XTX", 3, "gfx1100", False, round(23.98 * GIB))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("two-devices-xnack", [RX5700, R890M]),
        ("integrated-first", [RAPHAEL, XTX]),
        ("renumbered", [(0, *XTX[1:])]),
        ("one-line", [(0, *XTX[1:4], None, XTX[5])]),
        ("findstr-gfx1100-first", [(None, None, None, g, None, None) for g in ("gfx1100", "gfx1036")]),
        ("select-string", [(None, None, None, g, None, None) for g in ("gfx1032", "gfx1035")]),
        ("partial-rx470", [(None, "Radeon RX 470 Series", 6, None, None, 8 * GIB)]),
        ("partial-780m", [(None, "AMD Radeon 780M Graphics", 102, None, None, round(25.16 * GIB))]),
        (
            "partial-8060s",
            [(None, "AMD Radeon(TM) 8060S Graphics", 244, "gfx1151", None, round(107.87 * GIB))],
        ),
        ("stopped-after-device-0", [RAPHAEL]),
        ("error-100", []),
        ("error-100-therock", []),
        ("nothing", []),
    ],
)
def test_published_outputs(name: str, expected: list[tuple[object, ...]]) -> None:
    assert essence(read(name)) == expected


def test_every_published_output_is_in_the_table() -> None:
    table = (DATA / "README.md").read_text(encoding="utf-8")
    assert all(f"`{path.name}`" in table for path in DATA.glob("*.txt"))


def test_features_are_kept_apart_from_the_architecture() -> None:
    assert [d.features for d in read("two-devices-xnack").devices] == [":xnack-", ""]


@pytest.mark.parametrize(
    ("arch", "gfx", "features"),
    [
        ("gfx906:sramecc+:xnack-", "gfx906", ":sramecc+:xnack-"),
        ("gfx90c:xnack-", "gfx90c", ":xnack-"),
        ("GFX1201", "gfx1201", ""),
        ("gfx90a:sramecc+:xnack+", "gfx90a", ":sramecc+:xnack+"),
        ("AMD Radeon", None, ""),
    ],
)
def test_architectures(arch: str, gfx: str | None, features: str) -> None:
    (device,) = hipinfo.parse(f"device#   0\nName:   A card\ngcnArchName:   {arch}\npeers:\n").devices
    assert (device.gfx, device.features) == (gfx, features)


def test_the_number_of_old_releases_counts_only_for_a_known_architecture() -> None:
    old = "device#  0\nName:  A card\ngcnArch:  {}\n"
    assert hipinfo.parse(old.format("1030")).devices[0].gfx == "gfx1030"
    assert hipinfo.parse(old.format("910")).devices[0].gfx is None


def test_an_error_ends_the_list_and_is_said() -> None:
    stopped = read("stopped-after-device-0")
    assert stopped.error == "HIP error 1, invalid argument"
    assert stopped.notes == (
        "hipInfo stopped after 1 device(s): HIP error 1, invalid argument. Others may exist.",
        "hipInfo names device 1 as a neighbour but does not describe it.",
    )
    assert read("error-100").notes == (
        "hipInfo listed no device: HIP error 100, no ROCm-capable device is detected.",
    )


def test_nothing_printed_is_said() -> None:
    assert "printed nothing" in read("nothing").notes[0]


def test_a_crash_without_a_word_shows_in_the_neighbours() -> None:
    text = sample("integrated-first")
    cut = hipinfo.parse(text[: text.index("device#                           1")])
    assert [d.number for d in cut.devices] == [0]
    assert "device 1" in cut.notes[0]


def test_another_program_s_output_is_not_recognised() -> None:
    for text in (
        "Der Befehl »hipInfo« ist entweder falsch geschrieben oder konnte nicht gefunden werden.\n",
        "Number of platforms:  1\n  Platform Name:  AMD Accelerated Parallel Processing\n  Board name:\n",
        "<!DOCTYPE html><title>404</title>",
    ):
        assert not hipinfo.parse(text).recognised


def test_rocminfo_s_marketing_name_is_not_a_name() -> None:
    info = hipinfo.parse("  Marketing Name:          AMD Radeon RX 7900 GRE\n  Vendor Name:   AMD\n")
    assert info.devices == ()


# ------------------------------------------------------------------ shapes


def quote(text: str) -> str:
    return textwrap.indent(text, "> ", lambda _line: True)


def table(text: str) -> str:
    return "".join(f"| {line} |\n" for line in text.splitlines())


def wrap(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 72, break_on_hyphens=False, break_long_words=False)


def stamped(text: str) -> str:
    return "".join(
        f"2026-11-30T12:00:0{n % 10}.123Z [info] {line}\n" for n, line in enumerate(text.splitlines())
    )


def noisy(text: str) -> str:
    noise = "[W1130 12:00:00] Failed to get device count: no device (error code: 100), trying gfx1036\n"
    return "".join(noise + line for line in text.splitlines(keepends=True))


def reordered(text: str) -> str:
    """The fields of each block in another order, its number still first."""
    blocks = text.split("device#      ")
    turned = []
    for block in blocks[1:]:
        head, *lines = block.splitlines()
        turned.append("\n".join([f"device#      {head}", *sorted(line for line in lines if ":" in line)]))
    return "\n".join(turned)


SHAPES = {
    "as-printed": str,
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "quoted": quote,
    "quoted-twice": lambda text: quote(quote(text)),
    "table": table,
    "indented": lambda text: textwrap.indent(text, "    "),
    "one-line": lambda text: " ".join(text.split()),
    "wrapped": wrap,
    "quoted-wrapped": lambda text: quote(wrap(text)),
    "time-stamps": stamped,
    "log-lines-between": noisy,
    "single-blanks": lambda text: "\n".join(" ".join(line.split()) for line in text.splitlines()),
    "tabs": lambda text: text.replace(":  ", ":\t"),
    "coloured": lambda text: text.replace("Name:", "\x1b[1;32mName:\x1b[0m"),
    "no-rules": lambda text: text.replace("-" * 80, ""),
    "decimal-comma": lambda text: text.replace(".98 GB", ",98 GB").replace(".11 GB", ",11 GB"),
    "no-break-spaces": lambda text: text.replace(":  ", ":\u00a0 "),
    "reordered": reordered,
    "pasted-twice": lambda text: text + "\n" + text,
}
ENCODINGS = {
    "utf-8": lambda text: text.encode(),
    "utf-8-mark": lambda text: text.encode("utf-8-sig"),
    "utf-16": lambda text: text.encode("utf-16"),
    "utf-16-be-mark": lambda text: b"\xfe\xff" + text.encode("utf-16-be"),
    "utf-16-le-bare": lambda text: text.encode("utf-16-le"),
    "utf-16-be-bare": lambda text: text.encode("utf-16-be"),
    "cp1252": lambda text: ("Eingabe: größer\n" + text).encode("cp1252"),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_say_the_same(name: str, shape: str) -> None:
    assert essence(hipinfo.parse(SHAPES[shape](sample(name)))) == essence(read(name))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_encodings_say_the_same(encoding: str) -> None:
    data = ENCODINGS[encoding](sample("integrated-first"))
    assert essence(hipinfo.parse(decoded(data))) == [RAPHAEL, XTX]


def test_a_log_line_inside_a_field_does_not_hide_it() -> None:
    text = (
        "device#                           0\n"
        "Name:                             AMD Radeon RX 7900 XTX\n"
        "isIntegrated:                     \nWARNING: gfx cache is cold\n0\n"
        "warning: no devicegcnArchName:                      \n[W] slow start\n gfx1100\n"
    )
    (device,) = hipinfo.parse(text).devices
    assert (device.gfx, device.integrated) == ("gfx1100", False)


@pytest.mark.parametrize("value", ["2", "", "yes", "0x1", "1.5", "-1"])
def test_an_odd_flag_is_unknown(value: str) -> None:
    (device,) = hipinfo.parse(f"device#  0\nName:  A\nisIntegrated:  {value}\n").devices
    assert device.integrated is None


def test_two_filtered_runs_in_one_file_are_two_devices() -> None:
    first, second = (
        sample("renumbered"),
        sample("renumbered").replace("pciBusID:                         3", "pciBusID: 9"),
    )
    info = hipinfo.parse(first + second)
    assert [(d.number, d.bus) for d in info.devices] == [(0, 3), (0, 9)]
    assert [gpu.index for gpu in hipinfo.gpus(info)] == [0, 1]


def test_printed_numbers_are_kept() -> None:
    text = "device#  2\nName:  A\ngcnArchName:  gfx1100\n"
    (gpu,) = hipinfo.gpus(hipinfo.parse(text))
    assert (gpu.index, gpu.hip_index) == (2, 2)


def test_what_is_not_printed_is_unknown_with_a_reason() -> None:
    (gpu,) = hipinfo.gpus(read("partial-780m"))
    assert (gpu.gfx, gpu.integrated, gpu.driver) == (None, None, None)
    assert set(gpu.why_unknown) == {"gfx", "integrated", "hip_index", "driver"}


def test_a_nameless_device_is_called_by_its_architecture() -> None:
    assert [gpu.name for gpu in hipinfo.gpus(read("select-string"))] == ["AMD gfx1032", "AMD gfx1035"]


WORDS = (
    st.text(alphabet="ABCXT 0123456789()", min_size=1, max_size=20)
    .map(lambda s: " ".join(s.split()))
    .filter(bool)
)


@st.composite
def machines(draw: st.DrawFn) -> list[Device]:
    count = draw(st.integers(1, 4))
    return [
        Device(
            number=number,
            name="AMD Radeon " + draw(WORDS),
            bus=number * 7 + draw(st.integers(0, 6)),
            slot=0,
            gfx=draw(st.sampled_from(["gfx90c", "gfx906", "gfx1010", "gfx1036", "gfx1100", "gfx1201"])),
            features=draw(st.sampled_from(["", ":xnack-", ":sramecc+:xnack-"])),
            integrated=draw(st.booleans()),
            memory_bytes=draw(st.integers(1, 400)) * GIB,
            peers=frozenset(range(count)),
        )
        for number in range(count)
    ]


def printed(devices: list[Device]) -> str:
    def field(label: str, value: object) -> str:
        return f"{label:<34}{value}\n"

    everyone = " ".join(f"device#{d.number}" for d in devices)
    return "\n" + "".join(
        "-" * 80
        + "\n"
        + field("device#", d.number)
        + field("Name:", d.name)
        + field("pciBusID:", d.bus)
        + field("pciDeviceID:", 0)
        + field("multiProcessorCount:", 48)
        + field("totalGlobalMem:", f"{(d.memory_bytes or 0) / GIB:.2f} GB")
        + field("isIntegrated:", int(bool(d.integrated)))
        + field("arch.hasDoubles:", 1)
        + field("gcnArchName:", f"{d.gfx}{d.features}")
        + field("peers:", "")
        + field("non-peers:", everyone)
        + "\n"
        + field("memInfo.total:", "1.00 GB")
        for d in devices
    )


@settings(max_examples=60, deadline=None)
@given(machines(), st.sampled_from(sorted(set(SHAPES) - {"decimal-comma"})))
def test_any_machine_in_any_shape_is_read_back(devices: list[Device], shape: str) -> None:
    assert list(hipinfo.parse(SHAPES[shape](printed(devices))).devices) == devices


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    info = hipinfo.parse(decoded(data + sample("renumbered").encode()[: len(data)]))
    hipinfo.gpus(info)

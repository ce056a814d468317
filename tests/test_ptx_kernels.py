"""The kernels of whole files: containers, choice among texts, reports, and what people read of them."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.binary import payload
from scripts.preflight import look as devicecode
from scripts.preflight.coverage import Verdict
from scripts.preflight.kernels import KernelReport, KernelStore, KernelTally, demangled, tally
from scripts.preflight.look import look
from scripts.preflight.needs import FileFacts
from scripts.preflight.unusable import kernel_fate, missing_sentence, short_name
from scripts.preflight.verdict import better_stack
from tests.fatbins import PTX, container, cubin, entry, ptx, sass
from tests.preflight_programs import dll, exe, judged, ship, zluda
from tests.ptx_texts import function, kernel, text

TABLE = "zluda-v7-preview.9"
LOP3 = "lop3.b32 %r1, %r2, %r3, %r4, 1;"


def image(*parts: str, sm: int = 86, way: str = "zstd") -> bytes:
    return entry(PTX, sm, text(*parts), way=way)


def report_of(tmp_path: Path, *containers: bytes, section: str = ".nv_fatb") -> KernelReport:
    path = ship(tmp_path / "p", {"app.dll": dll(sections={section: b"".join(containers)})})
    store = KernelStore(tmp_path / "kernels")
    facts = look(path, store)
    report = store.get(facts.device)
    assert report is not None
    return report


def counted(tmp_path: Path, *containers: bytes, table: str = TABLE, section: str = ".nv_fatb") -> KernelTally:
    return tally("app.dll", report_of(tmp_path, *containers, section=section), table)


@pytest.mark.parametrize("way", ["", "lz4", "zstd"], ids=["plain", "lz4", "zstd"])
@pytest.mark.parametrize("section", [".nv_fatb", ".data"], ids=str)
def test_kernels_are_read_however_they_are_packed(tmp_path: Path, way: str, section: str) -> None:
    one = counted(tmp_path, container(image(kernel("a"), kernel("b", LOP3), way=way)), section=section)
    assert (one.total, [k.name for k in one.missing], one.causes) == (2, ["b"], (("lop3.b32", 1),))
    assert (one.instructions, one.refused, one.types_unchecked) == (3, 1, 2)


def test_the_last_text_without_a_dropped_kernel_is_taken_whatever_its_number(tmp_path: Path) -> None:
    good, bad = kernel("a"), kernel("a", LOP3)
    for images, missing, target in (
        ((image(good, sm=50), image(bad, sm=90)), 0, "sm_50"),
        ((image(good, sm=90), image(bad, sm=50)), 0, "sm_90"),
        ((image(bad, sm=50), image(good, sm=90)), 0, "sm_90"),
        ((image(bad, kernel("b", LOP3), sm=90), image(bad, sm=50)), 1, "sm_50"),
        ((image(bad, sm=90), image(bad, sm=50)), 1, "sm_50"),
        ((image(bad, sm=90), image(kernel("b", "add.s32 %r1, %r2, ~1;"), sm=50)), 1, "sm_90"),
    ):
        one = counted(tmp_path, container(*images))
        assert (len(one.missing), (*one.missing, *one.fine)[0].target) == (missing, target)


def test_a_text_that_cannot_be_read_costs_all_its_kernels_where_there_is_no_other(tmp_path: Path) -> None:
    one = counted(tmp_path, container(image(kernel("a"), kernel("b", "mov.b64 {_, %r1}, %rd1;"))))
    assert [(k.name, k.state, k.cause) for k in one.missing] == [
        ("a", "text", "a bare _"),
        ("b", "text", "a bare _"),
    ]


def test_a_module_that_fails_costs_all_its_kernels_although_an_older_text_would_do(tmp_path: Path) -> None:
    """The choice is made by what the parser drops; what later passes refuse comes too late for it."""
    bad = image(kernel("a"), kernel("b", "mov.u64 %rd1, %clock64;"), sm=90)
    one = counted(tmp_path, container(image(kernel("a"), kernel("b"), sm=50), bad))
    assert [(k.state, k.cause) for k in one.missing] == [("module", "%clock64")] * 2


def test_each_release_makes_its_own_choice(tmp_path: Path) -> None:
    report = report_of(tmp_path, container(image(kernel("a"), sm=50), image(kernel("a", "exit;"), sm=90)))
    taken = {table: tally("x", report, table).fine[0].target for table in ("zluda-v6-preview.69", "zluda-v6")}
    assert taken == {"zluda-v6-preview.69": "sm_50", "zluda-v6": "sm_90"}
    assert (report.texts, report.of) == (2, 2)


def test_older_texts_are_left_packed_where_the_newest_will_do(tmp_path: Path) -> None:
    report = report_of(tmp_path, container(*(image(kernel("a"), sm=sm) for sm in (50, 60, 70, 90))))
    assert (report.texts, report.of) == (1, 4)


def test_equal_containers_count_once(tmp_path: Path) -> None:
    one = container(image(kernel("a")))
    report = report_of(tmp_path, one, one, container(image(kernel("b"))))
    assert [c.copies for c in report.containers] == [2, 1]
    assert tally("x", report, TABLE).total == 2


def test_kernels_for_linking_are_counted_apart(tmp_path: Path) -> None:
    declared = ".extern .func _Z3addv()\n;\n"
    one = counted(tmp_path, container(image(declared, kernel("a", "call _Z3addv, ();")), image(kernel("b"))))
    assert (one.total, one.linking) == (1, 0)
    one = counted(tmp_path, container(image(declared, kernel("a", "call _Z3addv, ();"))))
    assert (one.total, one.linking) == (0, 1)


def test_relocatable_code_has_no_kernels_that_could_be_loaded(tmp_path: Path) -> None:
    path = ship(tmp_path / "p", {"app.dll": dll(sections={"__nv_rel": container(image(kernel("a")))})})
    assert look(path).device == ""


def test_ptx_text_in_data_is_read_to_its_end_and_counted_once(tmp_path: Path) -> None:
    data = b"\0\0" + text(kernel("a", LOP3)) + b"\0more" + container(image(kernel("b"), way="lz4"))
    one = counted(tmp_path, data, section=".data")
    assert (one.total, [k.name for k in one.missing]) == (2, ["a"])


def test_debug_information_that_spells_ptx_is_none(tmp_path: Path) -> None:
    lines = text(kernel("a")).replace(b"\n", b"\0")
    facts = look(ship(tmp_path / "p", {"app.dll": dll(sections={".data": b"\0" + lines})}))
    assert (facts.code, facts.device) == ((), "")


def test_a_text_in_a_container_in_data_is_counted_once(tmp_path: Path) -> None:
    facts = look(ship(tmp_path / "p", {"app.dll": dll(sections={".data": b"\0" * 8 + container(ptx())})}))
    assert [(c.section, c.modules, [n for *_, n in c.ptx]) for c in facts.code] == [("data", 1, [1])]


def test_machine_code_in_data_without_a_container_is_found(tmp_path: Path) -> None:
    facts = look(
        ship(tmp_path / "p", {"app.dll": dll(sections={".data": b"\0" * 8 + cubin(86, ["a", "b"])})})
    )
    (code,) = facts.code
    assert (code.section, code.sass, code.sass_only, code.kernels_lost) == ("data", ((86, "", 1),), 1, 2)


def test_limits_are_said_in_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devicecode, "MAX_STRAYS", 3)
    data = b"\0" * 8 + b"".join(container(ptx(sm)) for sm in (50, 60, 70, 80, 86))
    (code,) = look(ship(tmp_path / "p", {"app.dll": dll(sections={".data": data})})).code
    assert (code.modules, code.complete, code.limit) == (3, False, "read 3 of 5 containers in its data")


def test_totals_are_those_of_a_walk_of_the_bytes(tmp_path: Path) -> None:
    """The bytes are walked by the format alone, with none of the package's readers."""
    data = b"".join(container(ptx(50 + n % 9, way="lz4")) + container(sass(86)) for n in range(3_000))
    kinds, at = {1: 0, 2: 0}, 0
    while (at := data.find(b"\x50\xed\x55\xba", at)) >= 0:
        kinds[struct.unpack_from("<H", data, at + 16)[0]] += 1
        at += 4
    (code,) = look(ship(tmp_path / "p", {"app.dll": dll(sections={".data": b"\0" * 8 + data})})).code
    assert (
        (sum(n for *_, n in code.ptx), sum(n for *_, n in code.sass))
        == (kinds[1], kinds[2])
        == (3_000, 3_000)
    )
    assert (code.modules, code.sass_only, code.complete) == (6_000, 3_000, True)


@pytest.mark.posix_only
def test_sections_beyond_256_mib_are_read(tmp_path: Path) -> None:
    """Three such sections: what is read of a file at first ends before all of them."""
    path = ship(
        tmp_path / "p",
        {"app.dll": dll(sections={".a": b"a", ".b": b"b", ".c": b"c", ".nv_fatb": b"x" * 512})},
    )
    data = bytearray(path.read_bytes())
    table = data.index(b".nv_fatb")
    far, code = 300 << 20, container(image(kernel("a", LOP3)), sass())
    struct.pack_into("<II", data, table + 16, -(-len(code) // 512) * 512, far)
    for name in (b".a\0", b".b\0", b".c\0"):
        struct.pack_into("<I", data, data.index(name + b"\0" * 5) + 20, far - 4096)
    with path.open("wb") as file:
        file.write(data)
        file.seek(far)
        file.write(code.ljust(-(-len(code) // 512) * 512, b"\0"))
    facts = look(path, KernelStore(tmp_path / "kernels"))
    assert ".nv_fatb" in facts.sections
    assert [c.modules for c in facts.code if c.section == ".nv_fatb"] == [1]


def test_text_that_is_too_large_is_said(tmp_path: Path) -> None:
    huge = entry(PTX, 86, text(kernel("a")), way="zstd", claims=payload.MAX_WHOLE + 1)
    one = counted(tmp_path, container(huge), container(image(kernel("b"))))
    assert (one.total, one.unread) == (1, ("it is larger than 64 MiB",))


@pytest.mark.parametrize(
    "spoil",
    [lambda p: p.write_bytes(b"{"), lambda p: p.write_bytes(b"[" * 10_000), lambda p: p.unlink()],
    ids=["cut", "deep", "gone"],
)
def test_a_report_is_kept_by_content_and_made_again_where_it_is_damaged(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    data = dll(sections={".nv_fatb": container(image(kernel("a", LOP3)))})
    here, there = (ship(tmp_path / name, {"app.dll": data}) for name in ("one", "two"))
    folder = tmp_path / "kernels"
    facts = look(here, KernelStore(folder))
    (kept,) = folder.iterdir()
    stamp = kept.stat().st_mtime_ns
    assert look(there, KernelStore(folder)) == facts
    assert kept.stat().st_mtime_ns == stamp, "the same content is not checked twice"
    spoil(kept)
    assert KernelStore(folder).get(facts.device) is None
    look(here, KernelStore(folder))
    assert KernelStore(folder).get(facts.device) is not None


def test_other_tables_make_other_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "kernels"
    path = ship(tmp_path / "p", {"app.dll": dll(sections={".nv_fatb": container(image(kernel()))})})
    device = look(path, KernelStore(folder)).device
    monkeypatch.setattr("scripts.preflight.kernels.tables_digest", lambda: "newer")
    assert KernelStore(folder).get(device) is None


MANGLED = "_Z6vectorIfEvPT_S1_"


def test_names_are_shown_as_their_authors_wrote_them() -> None:
    assert demangled(MANGLED) == "void vector<float>(float*, float*)"
    assert short_name(MANGLED) == "vector<…>"
    assert short_name("_ZN2at6native3addEPfi") == "add"
    assert [demangled(name) for name in ("plain", "_Zbad", "")] == ["plain", "_Zbad", ""]
    assert len(short_name("k" * 500)) == 60


def test_the_sentence_says_how_many_which_and_why(tmp_path: Path) -> None:
    lost = [kernel("b", LOP3), kernel("c", LOP3), kernel("d", "brkpt;")]
    one = counted(tmp_path, container(image(kernel("a"), *lost)))
    sentence = "3 of 4 kernels in app.dll would be missing: `b` and 2 more; they use `lop3.b32`, `brkpt`"
    assert missing_sentence(one) == sentence


def test_one_kernels_fate(tmp_path: Path) -> None:
    parts = (kernel(MANGLED, LOP3), kernel("fine"))
    files = [("app.dll", report_of(tmp_path, container(image(*parts))))]
    stack = zluda(ptx=TABLE)
    for asked in (MANGLED, "vector", "vector<float>"):
        found = kernel_fate(asked, files, stack)
        assert found is not None
        assert (
            "`vector<…>` in app.dll was dropped because of `lop3.b32` (unknown opcode, line "
            in found.sentence
        )
        assert found.sentence.endswith("not seen on a GPU")
    fine = kernel_fate("fine", files, stack)
    assert fine is not None
    assert "is compiled" in fine.sentence
    assert kernel_fate("other", files, stack) is None
    assert kernel_fate(MANGLED, files, zluda(ptx="")) is None


def test_a_program_whose_every_kernel_is_dropped_is_refused(tmp_path: Path) -> None:
    imports = {"nvcuda.dll": ["cuInit"]}
    for parts, word in (((kernel("a", LOP3),), "refuses"), ((kernel("a", LOP3), kernel("b")), "partial")):
        code = {".nv_fatb": container(image(*parts))}
        found = judged(ship(tmp_path / word, {"app.exe": exe(imports, sections=code)}), tmp_path)
        assert found.verdict == word
        assert "would be missing" in found.reasons[0].text


def test_a_stack_without_a_table_says_unknown(tmp_path: Path) -> None:
    code = {".nv_fatb": container(image(kernel("a", LOP3)))}
    program = ship(tmp_path / "p", {"app.exe": exe({"nvcuda.dll": ["cuInit"]}, sections=code)})
    found = judged(program, tmp_path, zluda(ptx=""))
    assert found.verdict is Verdict.UNKNOWN
    assert "there is no PTX table for it" in found.reasons[0].text


def test_what_differs_without_a_word_is_said(tmp_path: Path) -> None:
    helper = function("helper", "clz.b64 %r1, %rd1;")
    code = {".nv_fatb": container(image(helper, kernel("a", "call helper, ();")))}
    program = ship(tmp_path / "p", {"app.exe": exe({"nvcuda.dll": ["cuInit"]}, sections=code)})
    found = judged(program, tmp_path, zluda(ptx="zluda-v6-preview.69"))
    assert found.verdict is Verdict.PARTIAL
    assert "may compute something else without a word: clz.b64" in found.reasons[0].text
    later = judged(program, tmp_path, zluda(ptx=TABLE))
    assert not any("without a word" in reason.text for reason in later.reasons)


def test_a_stack_with_more_kernels_is_better_and_one_with_fewer_is_not() -> None:
    assert better_stack((), (), zluda(), 40, 3) == "it has 37 more kernels"
    assert better_stack((), (), zluda(), 3, 40) == ""
    assert better_stack((), (), zluda(), None, 0) == ""


def test_a_bare_ptx_file_is_checked(tmp_path: Path) -> None:
    path = ship(tmp_path / "p", {"k.ptx": text(kernel("a", LOP3))})
    store = KernelStore(tmp_path / "kernels")
    facts = look(path, store)
    report = store.get(facts.device)
    assert report is not None
    assert len(tally("k.ptx", report, TABLE).missing) == 1
    assert isinstance(facts, FileFacts)

from __future__ import annotations

import json
import subprocess
import sys
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scripts.errors import UsageError
from scripts.evidence.document import (
    CEILING,
    IDLE,
    SEVERITY,
    Document,
    DocumentSource,
    Provenance,
    Revision,
    build_document,
    lowest,
    speaks_of,
    within_ceiling,
    worst,
)
from scripts.evidence.evidence_io import (
    MAX_BYTES,
    OPTIONAL,
    REFERENCE,
    SCHEMA,
    dump,
    from_json,
    read_document,
    report_folder,
    to_json,
    write_document,
)
from scripts.lock.reader import read_lock
from scripts.model import (
    CapabilityResult,
    Gpu,
    HipRoot,
    Host,
    Level,
    Lock,
    Outcome,
    Runtime,
    RuntimeFile,
    Stack,
    StackKind,
)
from scripts.osal.redaction import Redactor

WHEN = datetime(2026, 11, 30, 15, 0, 7, tzinfo=UTC)
REDACTOR = Redactor(user="gwendolyn", home="/home/gwendolyn", host="tower-of-gwen")


def result(
    capability: str, level: Level | None, outcome: Outcome = Outcome.PASS, detail: str = ""
) -> CapabilityResult:
    return CapabilityResult(capability=capability, level=level, outcome=outcome, detail=detail)


GOOD = (
    result("nvcuda", Level.LOADABLE),
    result("gemm-f32", Level.FUNCTIONAL),
    result("cudnn9", Level.DETECTED, Outcome.UNAVAILABLE, "no MIOpen.dll"),
)


def document(kind: StackKind = StackKind.TRANSLATION, **changes: Any) -> Document:
    gpu = Gpu(
        index=1,
        name="AMD Radeon RX 9060 XT",
        vendor="amd",
        gfx="gfx1200",
        driver="32.0.1",
        pci_id="1002:7590",
    )
    host = Host(
        os="windows",
        machine="AMD64",
        gpus=(gpu,),
        selected=1,
        hip_roots=(HipRoot(path=Path("/home/gwendolyn/ROCm"), version="6.4", source="HIP_PATH"),),
    )
    arguments: dict[str, Any] = {
        "host": host,
        "stack": Stack(id="zluda-v6p69-sdk64", kind=kind),
        "lock": Lock(path=Path("pins.lock"), digest="a" * 64, artifacts={}, stacks={}),
        "runtime": Runtime(
            stack="zluda-v6p69-sdk64",
            digest="b" * 64,
            path=Path("x"),
            files=(RuntimeFile(name="nvcuda.dll", sha256="c" * 64, size=1),),
        ),
        "revision": Revision(commit="d" * 40, dirty=False),
        "created": WHEN,
        "results": GOOD,
        "not_exercised": ("compute-sanitizer",),
        "attachments": ("check.log",),
        "redactor": REDACTOR,
    }
    return build_document(**{**arguments, **changes})


HOST = Host(
    os="windows",
    machine="AMD64",
    gpus=(
        Gpu(index=0, name="AMD Radeon(TM) Graphics", vendor="amd", gfx="gfx1036", driver="32.0.1"),
        Gpu(
            index=1,
            name="AMD Radeon RX 9060 XT",
            vendor="amd",
            gfx="gfx1200",
            driver="32.0.1",
            pci_id="1002:7590",
        ),
    ),
    selected=1,
    hip_roots=(HipRoot(path=Path("C:/ROCm"), version="6.4", source="HIP_PATH"),),
)
RUNTIME = Runtime(stack="zluda-v6p69-sdk64", digest="b" * 64, path=Path("x"), files=())


@pytest.mark.parametrize(
    ("host", "runtime", "speaks"),
    [
        (HOST, RUNTIME, True),
        (replace(HOST, selected=0), RUNTIME, False),
        (replace(HOST, selected=None, gpus=()), RUNTIME, False),
        (replace(HOST, gpus=tuple(replace(g, driver="33.0.0") for g in HOST.gpus)), RUNTIME, False),
        (replace(HOST, hip_roots=()), RUNTIME, False),
        (HOST, replace(RUNTIME, digest="c" * 64), False),
        (HOST, replace(RUNTIME, stack="zluda-v6p69-parts"), False),
    ],
    ids=["the same", "another GPU", "no GPU", "another driver", "no SDK", "other files", "another stack"],
)
def test_a_document_speaks_of_what_it_was_made_on(host: Host, runtime: Runtime, speaks: bool) -> None:
    again = from_json(json.loads(dump(document(host=HOST))))
    assert speaks_of(again, host=host, runtime=runtime) is speaks


def test_a_simulated_document_speaks_of_every_gpu_alike() -> None:
    again = from_json(json.loads(dump(document(StackKind.REFERENCE, host=HOST))))
    assert speaks_of(again, host=replace(HOST, selected=0), runtime=RUNTIME)
    assert not speaks_of(again, host=HOST, runtime=replace(RUNTIME, digest="c" * 64))


def test_the_cpu_reference_never_speaks_of_a_gpu() -> None:
    subject = {**raw()["subject"], "stack": REFERENCE}
    assert refusal(raw(subject=subject)).startswith("$.simulated: ")
    assert from_json(raw(subject={**subject, "gpu": None}, simulated=True)).simulated


def test_the_name_of_the_cpu_reference_is_the_locks() -> None:
    lock = read_lock(Path(__file__).resolve().parents[1] / "pins.lock")
    assert [id_ for id_, stack in lock.stacks.items() if stack.kind is StackKind.REFERENCE] == [REFERENCE]


def raw(**changes: Any) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(dump(document()))
    return {**data, **changes}


def refusal(data: object) -> str:
    with pytest.raises(UsageError) as caught:
        from_json(data)
    assert caught.value.reference == "evidence-invalid"
    return caught.value.context[0]


def test_an_address_that_cannot_be_read_is_refused() -> None:
    source = {"name": "a page", "url": "https://[::1", "date": ""}
    assert refusal(raw(provenance="reported", source=source)) == "$.source.url: it is no address"


# -- the rules -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("results", "level", "outcome"),
    [
        ((), None, Outcome.NOT_REACHED),
        (GOOD, Level.LOADABLE, Outcome.PASS),
        ((result("a", Level.INTEGRATED), result("b", Level.DETECTED)), Level.DETECTED, Outcome.PASS),
        (
            (result("a", Level.INTEGRATED), result("b", None, Outcome.NOT_REACHED)),
            Level.INTEGRATED,
            Outcome.PASS,
        ),
        ((result("b", None, Outcome.UNAVAILABLE),), None, Outcome.NOT_REACHED),
        (
            (result("a", Level.FUNCTIONAL), result("b", Level.LOADABLE, Outcome.INCORRECT)),
            Level.LOADABLE,
            Outcome.INCORRECT,
        ),
        ((result("a", Level.FUNCTIONAL), result("b", None, Outcome.ERROR)), None, Outcome.ERROR),
        ((result("a", Level.FUNCTIONAL), result("b", None, Outcome.TIMEOUT)), None, Outcome.TIMEOUT),
        (
            (result("a", Level.FUNCTIONAL, Outcome.HANG_AFTER_RESULT),),
            Level.FUNCTIONAL,
            Outcome.HANG_AFTER_RESULT,
        ),
        ((result("a", None, Outcome.TIMEOUT), result("b", None, Outcome.INCORRECT)), None, Outcome.INCORRECT),
    ],
    ids=[
        "nothing",
        "good",
        "minimum",
        "not-reached",
        "only-unavailable",
        "incorrect",
        "error",
        "timeout",
        "hang",
        "worst",
    ],
)
def test_level_is_the_minimum_of_what_was_exercised_and_failures_lower_it(
    results: tuple[CapabilityResult, ...], level: Level | None, outcome: Outcome
) -> None:
    assert (lowest(results), worst(results)) == (level, outcome)


def test_every_outcome_has_a_ceiling_and_a_place() -> None:
    assert set(CEILING) == set(Outcome)
    assert set(SEVERITY) | IDLE == set(Outcome)
    assert not set(SEVERITY) & IDLE


_RESULTS = st.builds(
    CapabilityResult,
    capability=st.sampled_from([f"cap-{n}" for n in range(40)]),
    level=st.sampled_from([None, *Level]),
    outcome=st.sampled_from(list(Outcome)),
    detail=st.text(max_size=40),
)


@pytest.mark.slow
@given(st.lists(_RESULTS, max_size=8))
@settings(max_examples=150)
def test_no_document_claims_more_than_any_exercised_result_showed(results: list[CapabilityResult]) -> None:
    made = document(results=results)
    for before, after in zip(results, made.results, strict=True):
        assert after == within_ceiling(after)
        if before.level is not None and after.level is not None:
            assert after.level.rank <= before.level.rank
        if after.outcome not in IDLE and made.level is not None:
            assert after.level is not None
            assert made.level.rank <= after.level.rank
    if made.outcome is Outcome.PASS:
        assert all(r.outcome in {Outcome.PASS, *IDLE} for r in made.results)


@pytest.mark.parametrize(
    ("outcome", "claimed", "kept"),
    [
        (Outcome.PASS, Level.INTEGRATED, Level.INTEGRATED),
        (Outcome.HANG_AFTER_RESULT, Level.INTEGRATED, Level.FUNCTIONAL),
        (Outcome.CRASH_AFTER_RESULT, Level.INTEGRATED, Level.FUNCTIONAL),
        (Outcome.INCORRECT, Level.FUNCTIONAL, Level.LOADABLE),
        (Outcome.REFUSED, Level.FUNCTIONAL, Level.LOADABLE),
        (Outcome.ERROR, Level.INTEGRATED, Level.LOADABLE),
        (Outcome.TIMEOUT, Level.DETECTED, Level.DETECTED),
        (Outcome.NOT_REACHED, Level.DETECTED, None),
    ],
)
def test_a_result_never_claims_more_than_its_outcome_allows(
    outcome: Outcome, claimed: Level, kept: Level | None
) -> None:
    assert within_ceiling(result("x", claimed, outcome)).level is kept


# -- building --------------------------------------------------------------------------------------


def test_a_measured_document_carries_its_keys() -> None:
    data = to_json(document())
    assert data["subject"] == {
        "stack": "zluda-v6p69-sdk64",
        "digest": "b" * 64,
        "gpu": {"name": "AMD Radeon RX 9060 XT", "gfx": "gfx1200", "pci_id": "1002:7590", "vendor": "amd"},
        "application": "",
    }
    assert data["created"] == "2026-11-30T15:00:07Z"
    assert (data["provenance"], data["source"], data["simulated"]) == ("measured", None, False)
    assert data["lock"] == {"digest": "a" * 64, "custom": False}
    assert data["files"] == [{"name": "nvcuda.dll", "sha256": "c" * 64, "how": "staged"}]
    assert data["not_exercised"] == ["compute-sanitizer", "cudnn9"]
    assert (data["level"], data["outcome"]) == ("loadable", "pass")


def test_a_reference_stack_never_speaks_about_the_gpu_in_the_machine() -> None:
    made = document(kind=StackKind.REFERENCE)
    assert made.simulated
    assert made.subject.gpu is None
    tampered = {**to_json(made), "subject": to_json(document())["subject"]}
    assert refusal(json.loads(json.dumps(tampered))).startswith("$.subject.gpu")


def test_a_machine_without_a_selected_gpu_has_no_gpu_key() -> None:
    assert document(host=Host(os="linux", machine="x86_64")).subject.gpu is None


def test_text_from_the_machine_is_redacted_and_folded_to_one_line() -> None:
    dirty = result("nvcuda", None, Outcome.ERROR, "no\n\x1b[31m/home/gwendolyn/zluda\x07 on tower-of-gwen")
    text = dump(document(results=(dirty,), notes=("by gwendolyn",))).decode()
    assert "gwen" not in text
    assert "no <home>/zluda on <host>" in text
    assert "\x1b" not in text


# -- reading and writing ---------------------------------------------------------------------------


@pytest.mark.slow
@given(st.lists(_RESULTS, max_size=6, unique_by=lambda r: r.capability), st.text(max_size=30))
@settings(max_examples=100)
def test_documents_survive_the_round_trip(results: list[CapabilityResult], application: str) -> None:
    sound = [r for r in results if not (r.outcome is Outcome.PASS and r.level is None)]
    made = document(results=sound, application=application)
    assert from_json(json.loads(dump(made))) == made


def test_a_reported_document_survives_the_round_trip() -> None:
    made = replace(
        document(),
        provenance=Provenance.REPORTED,
        source=DocumentSource(name="a person", url="https://example.org/x", date="2026-09-13"),
        lock=None,
        revision=None,
    )
    assert from_json(json.loads(dump(made))) == made


def test_writing_names_the_folder_by_time_and_stack_and_never_reuses_one(tmp_path: Path) -> None:
    made = document()
    folders = [report_folder(tmp_path / "reports", stack=made.subject.stack, created=WHEN) for _ in range(2)]
    assert [f.name for f in folders] == [
        "20261130T150007Z-zluda-v6p69-sdk64",
        "20261130T150007Z-zluda-v6p69-sdk64-2",
    ]
    path = write_document(folders[0], made)
    assert path == folders[0] / "evidence.json"
    assert read_document(path) == made
    assert b"\r" not in path.read_bytes()
    assert [p.name for p in folders[0].iterdir()] == ["evidence.json"]


def test_a_document_that_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    twice = document(results=(GOOD[0], GOOD[0]))
    with pytest.raises(UsageError, match="not a valid evidence document"):
        write_document(tmp_path, twice)
    assert list(tmp_path.iterdir()) == []


def test_the_schema_is_a_valid_schema_and_every_object_in_it_is_closed() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)

    def walk(node: object) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
                always = node["properties"].keys() - set(OPTIONAL)
                assert node["required"] == sorted(always)
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(schema)
    assert schema["$defs"]["capability"]["properties"]["outcome"]["enum"] == [
        *(o.value for o in Outcome if o.value in schema["properties"]["outcome"]["enum"])
    ]
    assert set(schema["properties"]["outcome"]["enum"]) == {o.value for o in Outcome}
    assert schema["properties"]["level"]["enum"] == [*(v.value for v in Level), None]


def _set(path: str, value: object) -> dict[str, Any]:
    data = deepcopy(raw())
    *steps, last = path.split(".")
    node: Any = data
    for step in steps:
        node = node[int(step)] if step.isdigit() else node[step]
    if value is _GONE:
        del node[last]
    else:
        node[int(last) if last.isdigit() else last] = value
    return data


_GONE = object()


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("format", 0, "$.format"),
        ("format", "1", "$.format"),
        ("level", "integrated", "$.level"),
        ("level", None, "$.level"),
        ("outcome", "error", "$.outcome"),
        ("created", "yesterday", "$.created"),
        ("created", "2026-13-41T00:00:00Z", "$.created"),
        ("created", "2026-11-30T15:00:07Z\n", "$.created"),
        ("extra", 1, "$"),
        ("simulated", "no", "$.simulated"),
        ("source", {"name": "x", "url": "https://x.org", "date": ""}, "$.source"),
        ("lock", None, "$.lock"),
        ("lock.digest", "A" * 64, "$.lock.digest"),
        ("subject.stack", "../../evil", "$.subject.stack"),
        ("subject.gpu.gfx", "gfx1200; rm", "$.subject.gpu.gfx"),
        ("subject.gpu.name", "RX\x1b[2J", "$.subject.gpu.name"),
        ("subject.gpu.name", "RX\u202egpj.exe", "$.subject.gpu.name"),
        ("subject.gpu.name", _GONE, "$.subject.gpu"),
        ("machine.os", "beos", "$.machine.os"),
        ("attachments.0", "../check.log", "$.attachments[0]"),
        ("attachments.0", "check.log\n", "$.attachments[0]"),
        ("attachments.0", "C:check.log", "$.attachments[0]"),
        ("files.0.sha256", "c" * 63, "$.files[0].sha256"),
        ("capabilities.0.level", "superb", "$.capabilities[0].level"),
        ("capabilities.0.level", None, "$.capabilities[0].level"),
        ("capabilities.0.outcome", "timeout", "$.outcome"),
        ("capabilities.1.outcome", "incorrect", "$.capabilities[1].level"),
        ("capabilities.1.outcome", "not-reached", "$.capabilities[1].level"),
        ("capabilities.1.capability", "nvcuda", "$.capabilities[1].capability"),
        ("capabilities.0.detail", "x" * 5000, "$.capabilities[0].detail"),
        ("capabilities", {}, "$.capabilities"),
        ("provenance", "guessed", "$.provenance"),
    ],
    ids=lambda v: str(v)[:30] if isinstance(v, str) else None,
)
def test_a_tampered_document_is_refused_with_the_path_of_the_fault(
    path: str, value: object, where: str
) -> None:
    assert refusal(_set(path, value)).split(": ")[0] == where


@pytest.mark.parametrize("data", [None, [], "x", 1, {}, {"format": True}], ids=repr)
def test_what_is_no_document_at_all_is_refused(data: object) -> None:
    assert refusal(data).startswith("$")


def test_reported_needs_a_public_source() -> None:
    assert refusal(raw(provenance="reported")).startswith("$.source")
    bad = {"name": "x", "url": "http://x.org", "date": ""}
    assert refusal(raw(provenance="reported", source=bad)).startswith("$.source")


def test_a_newer_format_is_told_apart_from_a_broken_one() -> None:
    with pytest.raises(UsageError) as caught:
        from_json(raw(format=2))
    assert caught.value.reference == "evidence-newer"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"{", "not JSON"),
        (b"\xff\xfe{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"format": NaN}', "NaN"),
        (b'{"format": 1, "format": 1}', "same key twice"),
        (b" " * (MAX_BYTES + 1), "larger than"),
    ],
    ids=["torn", "utf-16", "deep", "nan", "twice", "huge"],
)
def test_strange_files_are_refused_before_they_are_believed(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "strange.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_document(path)
    assert caught.value.reference == "evidence-invalid"
    assert says in caught.value.context[0]


@pytest.mark.parametrize("data", [None, [], {}, {"format": 1}, {"created": 1}], ids=repr)
def test_what_is_no_document_is_refused(data: object) -> None:
    with pytest.raises(UsageError) as caught:
        from_json(data)
    assert caught.value.reference == "evidence-invalid"


def test_reading_good_files_does_not_load_the_schema_library() -> None:
    code = (
        "import sys, pathlib; from scripts.evidence.store import open_store;"
        "done = open_store().ingest(pathlib.Path('evidence'));"
        "assert done.added and not done.faults; assert 'jsonschema' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_document(tmp_path / "none.json")
    assert caught.value.reference == "evidence-unreadable"


def test_a_mark_from_notepad_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "saved.json"
    path.write_bytes(b"\xef\xbb\xbf" + dump(document()))
    assert read_document(path) == document()


def test_the_page_about_evidence_names_every_level_and_outcome_with_its_ceiling() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "evidence.md").read_text(encoding="utf-8")
    for level in Level:
        assert f"| `{level}` |" in page
    for outcome, ceiling in CEILING.items():
        (row,) = (x for x in page.splitlines() if x.startswith(f"| `{outcome}` |"))
        assert row.endswith(f"| `{ceiling}` |" if ceiling else "| none |")

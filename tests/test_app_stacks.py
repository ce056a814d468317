"""What a stack is worth: derived from documents, each word with the document behind it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.app.advice import advise
from scripts.app.context import Workspace
from scripts.app.evidence_lookup import STORE, Proof, Worth, evidence_store, known_by_stack, worth_here
from scripts.app.stacks import StackRow, StacksResult, stacks
from scripts.app.verify import verify
from scripts.cli.console import Out
from scripts.cli.views.stacks import show_stacks as show
from scripts.errors import UsageError
from scripts.evidence.document import Document, Provenance
from scripts.evidence.evidence_io import dump
from scripts.evidence.store import open_store
from scripts.lock.reader import read_lock
from scripts.model import Level, Outcome, Stack, StackKind
from tests.test_validate import GOOD, LOADS, WRONG, document
from tools.many_documents import many_documents

REPORTED = Provenance.REPORTED


@pytest.fixture
def known(tmp_path: Path) -> Callable[..., dict[str, tuple[list[Worth], list[Proof]]]]:
    """File documents under numbers, and ask what they say."""

    def ask(*documents: Document) -> dict[str, tuple[list[Worth], list[Proof]]]:
        folder = tmp_path / "evidence"
        folder.mkdir()
        for number, made in enumerate(documents):
            (folder / f"{number}.json").write_bytes(dump(made))
        with open_store() as store:
            assert store.ingest(folder).faults == ()
            return known_by_stack(store)

    return ask


Known = Callable[..., dict[str, tuple[list[Worth], list[Proof]]]]


@pytest.mark.parametrize(
    ("documents", "sentence", "shown_by", "against"),
    [
        pytest.param([document(LOADS, day=1)], "loadable (measured)", "0", "", id="one document"),
        pytest.param(
            [document(LOADS, day=1), document(GOOD, day=2)],
            "functional (measured)",
            "1",
            "",
            id="the best that stands",
        ),
        pytest.param(
            [document(GOOD, day=1), document(WRONG, day=2)],
            "incorrect (measured)",
            "1",
            "",
            id="a later failure takes it away",
        ),
        pytest.param(
            [document(GOOD, day=1), document(WRONG, day=2, provenance=REPORTED)],
            "functional (measured, contested)",
            "0",
            "1",
            id="what others report stands beside it",
        ),
    ],
)
def test_each_word_has_its_document(
    known: Known, documents: list[Document], sentence: str, shown_by: str, against: str
) -> None:
    ((worth,), proofs) = known(*documents)["a"]
    assert worth.sentence == f"gfx1200: {sentence}"
    assert worth.document == f"evidence/{shown_by}.json"
    assert worth.against == ((f"evidence/{against}.json",) if against else ())
    assert len(proofs) == len(documents)


def test_architectures_are_judged_apart_and_other_locks_prove_nothing(known: Known) -> None:
    found = known(
        document(GOOD, day=1),
        document(WRONG, day=2, gfx="gfx1100"),
        document(LOADS, day=3, stack="b", custom=True),
    )
    assert [worth.sentence for worth in found["a"][0]] == [
        "gfx1100: incorrect (measured)",
        "gfx1200: functional (measured)",
    ]
    assert "b" not in found


def test_probes_that_failed_are_named_with_their_document(known: Known) -> None:
    failed = ("cufft-1d", Level.LOADABLE, Outcome.REFUSED)
    absent = ("cufft-2d", None, Outcome.UNAVAILABLE)
    matrix = document(GOOD, failed, absent, day=1, application="probes")
    check = document(GOOD, ("nvml", Level.LOADABLE, Outcome.ERROR), day=2)  # a library, no probe
    worths, proofs = known(matrix, check)["a"]
    assert sorted(proof.failed for proof in proofs) == [(), ("cufft-1d (refused)",)]
    row = StackRow(
        stack=Stack(id="a", kind=StackKind.TRANSLATION),
        obstacles=(),
        worth=tuple(worths),
        proofs=tuple(proofs),
        active=False,
        staged=False,
    )
    out = io.StringIO()
    show(StacksResult(rows=(row,), gfx=""), Out(out, out))
    assert "a on gfx1200: cufft-1d (refused)\n    seen in evidence/0.json" in out.getvalue()


def test_a_gpu_stands_once_in_a_cell_with_the_best_that_was_shown() -> None:
    levels = (Level.LOADABLE, Level.FUNCTIONAL, None, Level.LOADABLE)
    proofs = [
        Proof(
            gfx="NVIDIA H200",
            gpu="NVIDIA H200",
            level=level,
            outcome="pass" if level else "incorrect",
            provenance="measured",
            path=f"evidence/{number}.json",
        )
        for number, level in enumerate(levels)
    ]
    other = replace(proofs[0], gfx="NVIDIA L4")
    row = StackRow(
        stack=Stack(id="a", kind=StackKind.CONTROL),
        obstacles=(),
        worth=(),
        proofs=(*proofs, other),
        active=False,
        staged=False,
    )
    out = io.StringIO()
    show(StacksResult(rows=(row,), gfx=""), Out(out, out))
    assert "NVIDIA H200: functional (measured), 4 documents; NVIDIA L4: loadable (measured)" in out.getvalue()
    assert out.getvalue().count("NVIDIA H200: ") == 1


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_the_last_line_for_a_gpu_can_be_pasted(tmp_path: Path, platform: str) -> None:
    ws = replace(workspace(tmp_path), platform=platform)
    system = "windows" if platform == "win32" else "linux"
    result = stacks(ws, for_gpu="gfx1100")
    chosen = {row.stack.id: row.stack for row in result.rows}[result.to_set_up]
    assert chosen.requires.os == system
    assert _last(result).endswith(f"invoke setup --stack={chosen.id}")
    assert _last(stacks(ws, for_gpu="gfx803")).endswith("invoke native --gpu=gfx803")


def test_where_a_stack_is_active_the_last_line_starts_a_program() -> None:
    stack = Stack(id="a", kind=StackKind.TRANSLATION)
    row = StackRow(stack=stack, obstacles=(), worth=(), proofs=(), active=True, staged=True)
    line = "invoke wrap --exe=/path/to/program -- its arguments"
    assert _last(StacksResult(rows=(row,))).endswith(line)


def _last(result: StacksResult) -> str:
    out = io.StringIO()
    show(result, Out(out, out))
    return out.getvalue().splitlines()[-1]


def test_the_list_names_the_documents(known: Known) -> None:
    worths, proofs = known(document(GOOD, day=1), document(WRONG, day=2, provenance=REPORTED))["a"]
    row = StackRow(
        stack=Stack(id="a", kind=StackKind.TRANSLATION),
        obstacles=(),
        worth=tuple(worths),
        proofs=tuple(proofs),
        active=False,
        staged=False,
    )
    out = io.StringIO()
    show(StacksResult(rows=(row,), gfx=""), Out(out, out))
    lines = [
        "a on gfx1200: functional (measured, contested)",
        "    shown by evidence/0.json",
        "    against it evidence/1.json",
    ]
    assert "\n".join(lines) in out.getvalue()
    assert row.to_json()["worth"] == [
        {
            "gfx": "gfx1200",
            "level": Level.FUNCTIONAL.value,
            "outcome": Outcome.PASS.value,
            "provenance": "measured",
            "document": "evidence/0.json",
            "against": ["evidence/1.json"],
        }
    ]


def workspace(folder: Path) -> Workspace:
    """A workspace with the committed lock and nothing in it."""
    root = Path(__file__).resolve().parents[1]
    return Workspace(
        root=root,
        lock_path=root / "pins.lock",
        custom_lock=False,
        cache_root=folder / "cache",
        stage=folder / "stage",
        state_root=folder / "state",
        environ={},
    )


def test_for_an_architecture_only_what_may_run_there_is_listed(tmp_path: Path) -> None:
    result = stacks(workspace(tmp_path), for_gpu="gfx1201")
    kinds = {row.stack.id: row.stack.kind for row in result.rows}
    assert kinds["cpu-reference"] is StackKind.REFERENCE
    assert StackKind.TRANSLATION in kinds.values()
    assert StackKind.CONTROL not in kinds.values()
    out = io.StringIO()
    show(result, Out(out, out))
    assert "needs no GPU" in out.getvalue()
    assert "lists gfx1201" in out.getvalue()


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("nope", "gpu-not-found"),
        ("gfx", "gpu-not-found"),
        ("", ""),
        ("Radeon", "gpu-not-found"),
        ("RX", "gpu-ambiguous"),
        ("x" * 5000, "gpu-not-found"),
        ("\0", "gpu-not-found"),
    ],
)
def test_what_names_no_gpu_is_refused(tmp_path: Path, text: str, reference: str) -> None:
    if not text:
        assert stacks(workspace(tmp_path)).advice == ()
        return
    with pytest.raises(UsageError) as caught:
        stacks(workspace(tmp_path), for_gpu=text)
    assert caught.value.reference == reference
    assert len(caught.value.message) < 120


def advice_for(tmp_path: Path, text: str, *, platform: str = "win32") -> tuple[StacksResult, str]:
    result = stacks(replace(workspace(tmp_path), platform=platform), for_gpu=text)
    out = io.StringIO()
    show(result, Out(out, out))
    return result, out.getvalue()


HIPINFO = """\
--------------------------------------------------------------------------------
device#                           0
Name:                             AMD Radeon RX 9060 XT
pciBusID:                         3
gcnArchName:                      gfx1200
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["gfx1200", "RX 9060 XT", "rx9060xt", "amd radeon rx 9060 xt", HIPINFO, "-", "file"]
)
def test_a_gpu_may_be_named_as_people_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    if text == "file":
        (tmp_path / "hip info.txt").write_text(HIPINFO, encoding="utf-16")
        text = str(tmp_path / "hip info.txt")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(HIPINFO.encode())))
    (advice,) = stacks(workspace(tmp_path), for_gpu=text).advice
    assert advice.gfx == "gfx1200"


def test_advice_names_what_to_use_how_far_it_is_shown_by_whom_and_what_fails(tmp_path: Path) -> None:
    result, text = advice_for(tmp_path, "gfx1200")
    (advice,) = result.advice
    first = advice.stacks[0]
    assert (first.stack, first.pinned) == ("zluda-v6p69-sdk64", True)
    assert first.whole is not None
    assert first.whole.level is Level.INTEGRATED
    assert advice.proven
    assert advice.verdict.startswith(
        "use zluda-v6p69-sdk64: integrated (PPO trainer on LibTorch 2.3.0+cu118), reported by "
    )
    assert [(s.capability, s.outcome) for s in first.failed] == [("sdpa-memory-efficient", Outcome.INCORRECT)]
    assert first.failed[0].document == "evidence/2026-09-15-zluda-v6p69-sdk64-gfx1200-torch.json"
    assert "fails: sdpa-memory-efficient with PyTorch 2.0.1+cu118: incorrect" in text
    assert "loads: sgemm with PyTorch SGEMM beside rocBLAS: loadable" in text
    assert not re.search(r"works: [^:]*: (loadable|detected)|loads: [^:]*: (functional|integrated)", text)
    assert all(not each.pinned for each in advice.stacks[1:])
    assert "zluda-v7p10-sdk72" in advice.untried
    assert "torch[device-gfx1200]" in text
    assert json.loads(json.dumps(result.to_json()))["advice"][0]["verdict"] == advice.verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gpu", "verdict"),
    [
        (
            "RX 7900 XT",
            "zluda-v6p69-sdk64 works in part: functional (gemm with PyTorch 2.3.0+cu118), reported by",
        ),
        (
            "gfx1150",
            "no pinned stack for Windows has a pass on gfx1150; untried: zluda-v7p10-sdk72, zluda-v7p11-",
        ),
        ("gfx1031", "no pinned stack for Windows is for gfx1031"),
        ("gfx906", "AMD's packages that stacks here are made of do not list gfx906"),
    ],
)
def test_advice_where_nothing_passed_as_a_whole(tmp_path: Path, gpu: str, verdict: str) -> None:
    result, text = advice_for(tmp_path, gpu)
    (advice,) = result.advice
    assert not advice.proven
    assert advice.verdict.startswith(verdict)
    assert f"! {advice.verdict}" in " ".join(text.split())


def test_a_stack_of_the_other_system_is_no_advice(tmp_path: Path) -> None:
    result, text = advice_for(tmp_path, "gfx1200", platform="linux")
    (advice,) = result.advice
    assert (advice.os, advice.proven) == ("linux", False)
    lock = read_lock(workspace(tmp_path).lock_path)
    offered = [*advice.untried, *(each.stack for each in advice.stacks if each.pinned)]
    assert offered == ["zluda-v6-linux"]
    assert advice.verdict == (
        "no pinned stack for Linux has a pass on gfx1200; untried: zluda-v6-linux; "
        "proven on Windows only: zluda-v6p69-sdk64"
    )
    assert {lock.stacks[each.stack].requires.os for each in advice.elsewhere} == {"windows"}
    assert "lists gfx1200, windows only" in text
    assert (
        json.loads(json.dumps(result.to_json()))["advice"][0]["elsewhere"][0]["stack"] == "zluda-v6p69-sdk64"
    )


@pytest.mark.slow
def test_what_works_in_part_elsewhere_is_called_no_proof(tmp_path: Path) -> None:
    (advice,) = advice_for(tmp_path, "RX 7900 XT", platform="linux")[0].advice
    assert advice.verdict.endswith("; works in part on Windows only: zluda-v6p69-sdk64")
    both = [advice_for(tmp_path, "gfx1100", platform=each)[0].advice[0] for each in ("win32", "linux")]
    assert "zluda-v6-linux" not in both[0].untried
    assert all(stack.startswith("zluda-v6-linux") for stack in both[1].untried)


def test_a_name_of_two_architectures_gets_two_answers(tmp_path: Path) -> None:
    result, text = advice_for(tmp_path, "Radeon 840M")
    assert [advice.gfx for advice in result.advice] == ["gfx1152", "gfx1153"]
    assert "gfx1153 (AMD Radeon 840M)" in text


def test_many_findings_are_cut_for_a_person_and_whole_in_json(tmp_path: Path) -> None:
    results = [(f"call {n:02}", Level.LOADABLE, Outcome.INCORRECT) for n in range(30)]
    made = document(*results, day=1, stack="zluda-v6-sdk64")
    with open_store() as store:
        (tmp_path / "evidence").mkdir()
        (tmp_path / "evidence" / "0.json").write_bytes(dump(made))
        store.ingest(tmp_path / "evidence")
        advice = advise(store, read_lock(workspace(tmp_path).lock_path), gfx="gfx1200", os="windows")
    out = io.StringIO()
    show(StacksResult(rows=(), gfx="gfx1200", advice=(advice,)), Out(out, out))
    assert out.getvalue().count("fails: call") == 8
    assert "22 more" in out.getvalue()
    assert len(advice.stacks[0].failed) == 30


# -- one store for everybody ---------------------------------------------------------------------------


@pytest.mark.slow
def test_many_documents_are_kept_in_a_file_and_few_leave_nothing_behind(tmp_path: Path) -> None:
    ws = replace(workspace(tmp_path), root=tmp_path)
    ws.evidence.mkdir()
    (ws.evidence / "0.json").write_bytes(dump(document(GOOD, day=1)))
    assert worth_here(ws)("a", "gfx1200") is Level.FUNCTIONAL
    assert not ws.stage.exists()
    for name, content in many_documents(300):
        (ws.evidence / f"many-{name}").write_bytes(content)
    assert worth_here(ws)("a", "gfx1200") is Level.FUNCTIONAL
    assert (ws.stage / STORE).is_file()
    with evidence_store(ws) as store:
        assert len(store.faults()) == 3


def test_under_another_lock_there_is_no_evidence(tmp_path: Path) -> None:
    ws = replace(workspace(tmp_path), custom_lock=True)
    assert worth_here(ws)("zluda-v6p69-sdk64", "gfx1200") is None
    assert worth_here(workspace(tmp_path))("zluda-v6p69-sdk64", "gfx1200") is Level.INTEGRATED


@pytest.mark.parametrize(
    ("stack", "reference"), [("nonsense", "unknown-stack"), ("cpu-reference", "not-staged")]
)
def test_verify_says_when_a_named_stack_is_not_here(tmp_path: Path, stack: str, reference: str) -> None:
    with pytest.raises(UsageError) as caught:
        verify(workspace(tmp_path), stack=stack)
    assert caught.value.reference == reference
    assert verify(workspace(tmp_path)).items == ()

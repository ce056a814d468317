"""The stack a machine gets: proven before new, never the CPU in place of a GPU, and why not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PureWindowsPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scripts.errors import ExitCode, HostError, UsageError
from scripts.model import (
    Artifact,
    ArtifactFormat,
    Gpu,
    HipNeed,
    HipRoot,
    HipSource,
    Host,
    Level,
    Lock,
    Requires,
    Stack,
    StackKind,
    Trust,
)
from scripts.staging.select import Selection, Worth, newest_first, select_stack, unmet

RDNA4 = ("gfx1200", "gfx1201")
RDNA = (*RDNA4, "gfx1100", "gfx1101", "gfx1102")


def artifact(name: str, form: ArtifactFormat = ArtifactFormat.ZIP) -> Artifact:
    return Artifact(
        id=name,
        urls=() if form is ArtifactFormat.SUPPLIED else (f"https://example.org/{name}.zip",),
        sha256=None if form is ArtifactFormat.SUPPLIED else "0" * 64,
        size=None,
        format=form,
        root="",
        license="MIT",
        source="example",
        trust=Trust.INDEPENDENT,
    )


def layer(name: str, part: str, os: str, gfx: tuple[str, ...], hip: HipNeed) -> Stack:
    return Stack(
        id=name, kind=StackKind.TRANSLATION, parts=(part,), hip=hip, requires=Requires(os=os, gfx=gfx)
    )


def sdk(version_range: str) -> HipNeed:
    return HipNeed(source=HipSource.SDK, range=version_range)


STACKS = (
    Stack(id="cpu-reference", kind=StackKind.REFERENCE),
    Stack(id="native-cuda", kind=StackKind.CONTROL),
    layer("overlay-hip713", "overlay", "windows", RDNA4, HipNeed(source=HipSource.PARTS)),
    layer(
        "zluda-v6-linux", "zluda-linux-v6", "linux", RDNA, HipNeed(source=HipSource.SYSTEM, range=">=6.4,<8")
    ),
    layer("zluda-v6-sdk64", "zluda-windows-v6", "windows", RDNA, sdk(">=6.4,<6.5")),
    layer("zluda-v6-sdk71", "zluda-windows-v6", "windows", RDNA, sdk(">=7.1,<7.2")),
    layer("zluda-v6p69-sdk64", "zluda-windows-v6-preview.69", "windows", RDNA, sdk(">=6.4,<6.5")),
    layer(
        "zluda-v7p10-rocm101-gfx120x",
        "zluda-windows-v7-preview.10",
        "windows",
        RDNA4,
        HipNeed(source=HipSource.PARTS),
    ),
    layer(
        "zluda-v7p10-sdk72", "zluda-windows-v7-preview.10", "windows", (*RDNA, "gfx1150"), sdk(">=7.2,<7.3")
    ),
    layer(
        "zluda-v7p11-sdk72", "zluda-windows-v7-preview.11", "windows", (*RDNA, "gfx1150"), sdk(">=7.2,<7.3")
    ),
)
LOCK = Lock(
    path=Path("pins.lock"),
    digest="0" * 64,
    artifacts={
        part: artifact(part, ArtifactFormat.SUPPLIED if part == "overlay" else ArtifactFormat.ZIP)
        for stack in STACKS
        for part in stack.parts
    },
    stacks={stack.id: stack for stack in STACKS},
)
XT = Gpu(
    index=0, name="AMD Radeon RX 9060 XT", vendor="amd", gfx="gfx1200", integrated=False, driver="32.0.1"
)
XTX = replace(XT, name="AMD Radeon RX 7900 XTX", gfx="gfx1100")
IGPU = replace(XT, index=1, name="AMD Radeon 890M", gfx="gfx1150", integrated=True)
H200 = Gpu(index=0, name="NVIDIA H200", vendor="nvidia", integrated=False, driver="580.159.04")


def machine(
    *gpus: Gpu, hip: tuple[str | None, ...] = (), os: str = "windows", selected: int | None = 0
) -> Host:
    roots = tuple(
        HipRoot(path=Path(PureWindowsPath(f"C:/ROCm/{number}")), version=version, source="HIP_PATH")
        for number, version in enumerate(hip)
    )
    return Host(os=os, machine="AMD64", gpus=gpus, selected=selected if gpus else None, hip_roots=roots)


def worth(levels: Mapping[tuple[str, str], Level]) -> Worth:
    return lambda stack, gfx: levels.get((stack, gfx))


NOTHING = worth({})


def choose(host: Host, evidence: Worth = NOTHING, want: str = "", *, only_proven: bool = False) -> Selection:
    return select_stack(host, LOCK, evidence, want=want, only_proven=only_proven)


def refusal(host: Host, want: str = "", *, only_proven: bool = False) -> HostError:
    with pytest.raises(HostError) as caught:
        choose(host, want=want, only_proven=only_proven)
    assert caught.value.code is ExitCode.HOST
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("host", "stack"),
    [
        pytest.param(machine(H200), "native-cuda", id="nvidia"),
        pytest.param(machine(H200, os="linux"), "native-cuda", id="nvidia-linux"),
        pytest.param(machine(XT, hip=("6.4.2",)), "zluda-v7p10-rocm101-gfx120x", id="parts-need-no-sdk"),
        pytest.param(machine(XTX, hip=("6.4.2",)), "zluda-v6-sdk64", id="release-after-its-previews"),
        pytest.param(machine(XTX, hip=("6.4.2", "7.1.1")), "zluda-v6-sdk71", id="same-layer-newer-hip"),
        pytest.param(machine(XTX, hip=("7.2.0",)), "zluda-v7p11-sdk72", id="newest"),
        pytest.param(machine(XTX, hip=("7.2.0-123",)), "zluda-v7p11-sdk72", id="build-number-in-version"),
        pytest.param(
            machine(XTX, hip=(None, "6.4.2")), "zluda-v6-sdk64", id="unknown-version-meets-no-range"
        ),
        pytest.param(machine(XTX, hip=("7.1.0",), os="linux"), "zluda-v6-linux", id="linux"),
    ],
)
def test_without_evidence_the_newest_that_fits_is_taken(host: Host, stack: str) -> None:
    selection = choose(host)
    assert selection.stack_id == stack
    if stack != "native-cuda":
        gfx = host.gpus[0].gfx
        assert selection.unproven
        assert selection.warnings[0] == f"{stack} is unproven on {gfx}: no evidence yet."


def test_evidence_goes_before_newness() -> None:
    evidence = worth(
        {
            ("zluda-v7p10-sdk72", "gfx1100"): Level.FUNCTIONAL,
            ("zluda-v7p11-sdk72", "gfx1200"): Level.INTEGRATED,
            ("zluda-v6p69-sdk64", "gfx1100"): Level.INTEGRATED,
        }
    )
    selection = choose(machine(XTX, hip=("7.2.0", "6.4.2")), evidence)
    assert selection.stack_id == "zluda-v7p10-sdk72"
    assert not selection.unproven
    assert "functional" in selection.reason


def test_evidence_of_a_stack_that_does_not_fit_counts_for_nothing() -> None:
    evidence = worth({("zluda-v6p69-sdk64", "gfx1100"): Level.INTEGRATED})
    assert choose(machine(XTX, hip=("7.2.0",)), evidence).stack_id == "zluda-v7p11-sdk72"


def test_no_gpu_means_the_cpu_reference_and_a_loud_word() -> None:
    selection = choose(machine())
    assert selection.stack_id == "cpu-reference"
    assert "proves the pipeline, not a GPU" in selection.warnings[0]


def test_a_missing_hip_sdk_is_named_with_its_release_and_page() -> None:
    error = refusal(machine(XTX, hip=("6.2.4",)))
    assert error.reference == "hip-missing"
    assert "zluda-v7p11-sdk72 needs HIP SDK" in error.context[0]
    assert "6.2.4" in error.context[0]
    assert "HIP SDK 7.2.0 (release 26.Q3, for Windows 11) from https://www.amd.com/" in error.hint


def test_a_runtime_without_libraries_does_not_count() -> None:
    host = machine(XTX, hip=("7.2.1",))
    core = replace(host.hip_roots[0], libraries=("amdhip64", "amdhip64_7"))
    error = refusal(replace(host, hip_roots=(core,)))
    assert "(without rocblas)" in error.context[0]
    whole = replace(core, libraries=("amdhip64", "amdhip64_7", "rocblas"))
    assert choose(replace(host, hip_roots=(core, whole))).stack_id == "zluda-v7p11-sdk72"


def test_a_missing_driver_is_named() -> None:
    basic = replace(XTX, driver="none", why_unknown={"driver": "Microsoft Basic Display Adapter runs it"})
    error = refusal(machine(basic, hip=("7.2.0",)))
    assert error.reference == "driver-missing"
    assert "Basic Display" in error.context[0]
    assert "AMD's own driver" in error.hint


def test_an_nvidia_gpu_without_driver_never_ends_on_the_cpu() -> None:
    assert refusal(machine(replace(H200, driver="none"))).reference == "driver-missing"


def test_an_unsupported_gpu_never_ends_on_the_cpu() -> None:
    vega = replace(XTX, name="AMD Radeon VII", gfx="gfx906")
    error = refusal(machine(vega, hip=("6.4.2",)))
    assert error.reference == "gpu-unsupported"
    assert "gfx906" in error.message
    assert not [line for line in error.context if line.startswith("zluda")], "one reason for all stacks"
    assert any("do not list gfx906" in line for line in error.context)
    assert error.context[-1] == "for a program: invoke native --exe=PROGRAM --gpu=gfx906"


def test_a_refusal_ends_with_the_commands_of_the_native_way() -> None:
    error = refusal(machine(replace(XTX, name="AMD Radeon RX 6700 XT", gfx="gfx1031"), hip=("6.4.2",)))
    assert error.reference == "gpu-unsupported"
    [torch] = [line for line in error.context if "pip install" in line]
    assert "torch[device-gfx1031]==" in torch
    assert not any("do not list" in line for line in error.context)


def test_an_unknown_architecture_is_not_guessed() -> None:
    unknown = replace(
        XTX, gfx=None, why_unknown={"gfx": "revision 99 of AMD device 744C is not in our table"}
    )
    error = refusal(machine(unknown, hip=("7.2.0",)))
    assert error.reference == "gfx-unknown"
    assert "744C" in error.context[0]
    assert "--from-hipinfo" in error.hint


def test_another_gpu_that_would_do_is_named() -> None:
    vega = replace(XTX, name="AMD Radeon VII", gfx="gfx906")
    assert "--gpu=1" in refusal(machine(vega, IGPU, hip=("7.2.0",))).hint


def test_files_the_user_brings_are_used_only_when_named() -> None:
    evidence = worth({("overlay-hip713", "gfx1200"): Level.INTEGRATED})
    host = machine(XT, hip=("7.2.0",))
    assert choose(host, evidence).stack_id == "zluda-v7p11-sdk72"
    assert choose(host, evidence, "overlay-hip713").stack_id == "overlay-hip713"


@pytest.mark.parametrize(
    ("host", "want", "clause"),
    [
        pytest.param(machine(XTX, hip=("7.2.0",)), "native-cuda", "needs an NVIDIA GPU", id="control"),
        pytest.param(machine(), "zluda-v6-sdk64", "no GPU was found", id="no-gpu"),
        pytest.param(machine(XTX, hip=("7.2.0",)), "zluda-v6-sdk64", "needs HIP SDK", id="hip"),
        pytest.param(machine(XTX), "zluda-v6-linux", "is for Linux", id="os"),
        pytest.param(machine(IGPU, hip=("6.4.2",), selected=1), "zluda-v6-sdk64", "not gfx1150", id="gfx"),
    ],
)
def test_a_named_stack_that_cannot_run_here_is_refused(host: Host, want: str, clause: str) -> None:
    error = refusal(host, want)
    assert any(clause in line for line in error.context), error.context


def test_a_named_stack_that_fits_is_taken_though_a_newer_one_fits() -> None:
    selection = choose(machine(XTX, hip=("7.2.0",)), want="zluda-v7p10-sdk72")
    assert (selection.stack_id, selection.unproven) == ("zluda-v7p10-sdk72", True)


def test_the_cpu_reference_can_be_named_beside_a_gpu() -> None:
    assert choose(machine(H200), want="cpu-reference").stack_id == "cpu-reference"


def test_an_unknown_stack_lists_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        choose(machine(XTX), want="zluda-v8")
    assert caught.value.reference == "unknown-stack"
    assert "zluda-v6-linux" in caught.value.hint


@pytest.mark.parametrize(("os", "look"), [("windows", "Device Manager"), ("linux", "lspci -nn")])
def test_a_radeon_that_was_not_found_is_no_dead_end(os: str, look: str) -> None:
    host = machine(os=os)
    assert look in choose(host).reason
    assert look in refusal(host, only_proven=True).context[0]
    wanted = {"windows": "zluda-v6-sdk64", "linux": "zluda-v6-linux"}[os]
    assert look in refusal(host, wanted).hint


@pytest.mark.parametrize(("os", "others"), [("windows", "-linux"), ("linux", "-sdk")])
def test_only_stacks_for_the_system_are_proposed(os: str, others: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(machine(XTX, os=os), want="zluda")
    proposed, _, elsewhere = caught.value.hint.partition("; for other systems: ")
    assert "zluda-v" in proposed
    assert others not in proposed
    assert others in elsewhere


def test_only_proven_refuses_what_has_no_evidence() -> None:
    host = machine(XTX, hip=("7.2.0",))
    assert refusal(host, only_proven=True).reference == "stack-unproven"
    assert refusal(host, "zluda-v7p11-sdk72", only_proven=True).reference == "stack-unproven"
    without = refusal(machine(), only_proven=True)
    assert without.reference == "gpu-missing"
    assert "invoke doctor" in without.hint, "scan shows what is there, doctor where it was looked for"
    evidence = worth({("zluda-v7p10-sdk72", "gfx1100"): Level.LOADABLE})
    assert choose(host, evidence, only_proven=True).stack_id == "zluda-v7p10-sdk72"


def test_a_runtime_without_libraries_for_the_gpu_is_a_warning() -> None:
    lock = replace(
        LOCK, stacks={"old": layer("old", "zluda-windows-v6", "windows", ("gfx1032",), sdk(">=6.4,<6.5"))}
    )
    host = machine(replace(XTX, gfx="gfx1032"), hip=("6.4.2",))
    assert "no kernels" in select_stack(host, lock, NOTHING).warnings[1]


def test_stacks_are_ordered_by_layer_then_hip() -> None:
    order = [stack.id for stack in newest_first((s for s in STACKS if s.id.startswith("zluda")), LOCK)]
    assert order == [
        "zluda-v7p11-sdk72",
        "zluda-v7p10-sdk72",
        "zluda-v7p10-rocm101-gfx120x",
        "zluda-v6-sdk71",
        "zluda-v6-sdk64",
        "zluda-v6-linux",
        "zluda-v6p69-sdk64",
    ]


GPUS = st.builds(
    Gpu,
    index=st.just(0),
    name=st.just("A card"),
    vendor=st.sampled_from(["amd", "nvidia"]),
    gfx=st.sampled_from([None, "gfx906", "gfx1030", "gfx1100", "gfx1150", "gfx1200"]),
    integrated=st.sampled_from([None, True, False]),
    driver=st.sampled_from([None, "none", "32.0.31021.5001"]),
)
VERSIONS = st.lists(
    st.sampled_from([None, "5.7.1", "6.4.2", "7.1.1", "7.2.0-43", "10.1.0", "odd"]), max_size=3
)


def outcome(host: Host, evidence: Worth, want: str, *, only_proven: bool) -> Selection | HostError:
    try:
        return choose(host, evidence, want, only_proven=only_proven)
    except HostError as error:
        return error


@settings(max_examples=150, deadline=None)
@given(
    gpus=st.lists(GPUS, max_size=1),
    versions=VERSIONS,
    system=st.sampled_from(["windows", "linux"]),
    want=st.sampled_from(["", *LOCK.stacks]),
    only_proven=st.booleans(),
    proven=st.sets(st.sampled_from(sorted(LOCK.stacks))),
)
def test_what_is_chosen_fits_and_a_gpu_never_ends_on_the_cpu(
    *,
    gpus: list[Gpu],
    versions: list[str | None],
    system: str,
    want: str,
    only_proven: bool,
    proven: set[str],
) -> None:
    host = machine(*gpus, hip=tuple(versions), os=system)
    ended = outcome(
        host, lambda stack, _: Level.LOADABLE if stack in proven else None, want, only_proven=only_proven
    )
    if isinstance(ended, HostError):
        assert ended.hint
        assert ended.context or ended.reference == "gpu-missing"
        return
    stack = LOCK.stacks[ended.stack_id]
    assert unmet(stack, host, host.selected_gpu) == ()
    assert want in {"", stack.id}
    if gpus and not want:
        assert stack.kind is not StackKind.REFERENCE
    if stack.kind is StackKind.TRANSLATION:
        assert ended.unproven is (stack.id not in proven)
    assert not (only_proven and ended.unproven)


def test_the_overlay_is_for_one_architecture_and_goes_onto_another_only_by_force() -> None:
    host = machine(XTX, hip=("7.2.0",))
    error = refusal(host, "overlay-hip713")
    assert error.reference == "stack-unmet"
    assert any("not gfx1100" in line for line in error.context)
    forced = select_stack(host, LOCK, NOTHING, want="overlay-hip713", force=True)
    assert forced.unproven
    assert "you forced it onto gfx1100" in forced.warnings[0]


def test_force_replaces_nothing_that_a_stack_needs_to_start() -> None:
    with pytest.raises(HostError) as caught:
        select_stack(machine(XTX), LOCK, NOTHING, want="zluda-v7p11-sdk72", force=True)
    assert caught.value.reference == "stack-unmet"
    assert any("HIP SDK" in line for line in caught.value.context)


def test_force_changes_nothing_where_the_gpu_is_covered() -> None:
    host = machine(XT, hip=("7.2.0",))
    plain = select_stack(host, LOCK, NOTHING, want="overlay-hip713")
    assert select_stack(host, LOCK, NOTHING, want="overlay-hip713", force=True) == plain


def test_what_the_sdk_does_not_support_is_said_before_anything_is_fetched() -> None:
    navi21 = replace(XTX, name="AMD Radeon RX 6800", gfx="gfx1030")
    error = refusal(machine(navi21, hip=("7.2.0",)), "zluda-v7p11-sdk72")
    assert any("not gfx1030 (HIP SDK 7.2.0 does not support gfx1030)" in line for line in error.context)

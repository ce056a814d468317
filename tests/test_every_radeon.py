"""Every Radeon on every system finds a way: a stack, a proposal with its one command, or a plain no."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from scripts.errors import HostError
from scripts.host.support import coverage, native_ways, never_served, no_stack_possible
from scripts.lock.package_index import IndexedFile
from scripts.lock.proposals import completed, fits, proposed_for
from scripts.lock.reader import read_lock
from scripts.model import Gpu, HipRoot, Host, Level, Lock, StackKind
from scripts.staging.select import only_when_named, select_for, select_stack

LOCK = read_lock(Path(__file__).resolve().parents[1] / "pins.lock")
SYSTEMS = ("windows", "linux")
#: Architectures for which a person has written them down, so that an empty table cannot pass.
ALL = (
    *("gfx1010", "gfx1011", "gfx1012"),
    *("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    *("gfx1100", "gfx1101", "gfx1102", "gfx1103"),
    *("gfx1150", "gfx1151", "gfx1152", "gfx1153"),
    *("gfx1200", "gfx1201"),
)
NEVER = ("gfx803", "gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c")
WHOLE = ("amdhip64", "rocblas", "hipblaslt", "rocsparse", "hipfft")


def nothing(_stack: str, _gfx: str) -> Level | None:
    return None


def machine(gfx: str, system: str, *hip: str) -> Host:
    gpu = Gpu(index=0, name=f"Radeon with {gfx}", vendor="amd", gfx=gfx, driver="1")
    roots = tuple(
        HipRoot(path=Path(f"/rocm/{version}"), version=version, source="a test", libraries=WHOLE)
        for version in hip
    )
    name = "AMD64" if system == "windows" else "x86_64"
    return Host(os=system, machine=name, gpus=(gpu,), selected=0, hip_roots=roots)


def bare(gfx: str, system: str, lock: Lock = LOCK) -> str | HostError:
    """Select on a machine without any HIP: a stack's id, or the refusal."""
    try:
        return select_stack(machine(gfx, system), lock, nothing).stack_id
    except HostError as error:
        return error


def with_proposal(gfx: str, system: str) -> Lock:
    """Return the lock as the one command leaves it."""
    proposal = proposed_for(gfx, system)
    assert proposal is not None
    assert fits(proposal, LOCK)
    found = IndexedFile(url=f"{proposal.index}{proposal.file}", sha256="ab" * 32)
    artifact, stack = completed(proposal, LOCK, found)
    return replace(
        LOCK,
        artifacts={**LOCK.artifacts, artifact.id: artifact},
        stacks={**LOCK.stacks, stack.id: stack},
    )


def test_the_list_is_amds() -> None:
    assert set(ALL) == set(coverage())
    assert set(NEVER) <= set(never_served())
    assert not set(ALL) & set(never_served())


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("gfx", ALL)
def test_a_machine_without_hip_gets_a_stack_or_the_command_that_makes_one(gfx: str, system: str) -> None:
    answer = bare(gfx, system)
    if isinstance(answer, str):
        assert LOCK.stacks[answer].hip.source.value == "parts"
        return
    said = "\n".join((answer.hint, *answer.context))
    command = f"invoke pins.update --gpu={gfx} --write"
    assert command in said
    assert "without translation: PyTorch for ROCm from AMD's index" in said
    made = bare(gfx, system, with_proposal(gfx, system))
    assert made == proposed_for(gfx, system).stack  # type: ignore[union-attr]  # asserted above
    assert f"invoke setup --stack={made}" in said


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("gfx", ALL)
def test_another_machine_gets_one_too(gfx: str, system: str) -> None:
    covered = {g for s in LOCK.stacks.values() if s.requires.os == system for g in s.requires.gfx}
    lock = LOCK
    if gfx not in covered and system == "windows":
        with pytest.raises(HostError) as caught:
            select_for(LOCK, nothing, os=system, gfx=gfx)
        assert f"invoke pins.update --gpu={gfx} --for={system} --write" in caught.value.hint
        lock = with_proposal(gfx, system)
    chosen = lock.stacks[select_for(lock, nothing, os=system, gfx=gfx).stack_id]
    assert (gfx in chosen.requires.gfx) or chosen.hip.source.value == "system"


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("gfx", NEVER)
@pytest.mark.parametrize("hip", ["", "6.4.2", "7.2.0"])
def test_polaris_and_vega_get_a_plain_no_and_what_runs_on_them(gfx: str, system: str, hip: str) -> None:
    with pytest.raises(HostError) as caught:
        select_stack(machine(gfx, system, *filter(None, [hip])), LOCK, nothing)
    error = caught.value
    assert error.reference == "gpu-unsupported"
    assert error.context[0] == no_stack_possible(gfx), "one reason, not one for each stack"
    assert any("Vulkan" in line for line in error.context)
    assert f"invoke native --gpu={gfx}" in error.hint
    assert not any("pins.update" in line for line in (*error.context, error.hint))
    ways = native_ways(gfx=gfx, os=system, programs=("llama-cpp",))
    assert any(way.id.startswith("llama-vulkan") for way in ways)
    assert not any(way.id.startswith("llama-hip") for way in ways)
    with pytest.raises(HostError) as caught:
        select_for(LOCK, nothing, os=system, gfx=gfx)
    assert f"invoke native --gpu={gfx}" in caught.value.hint


def test_a_named_stack_is_refused_on_vega_too_and_force_says_what_it_is() -> None:
    host = machine("gfx906", "linux", "6.4.2")
    with pytest.raises(HostError) as caught:
        select_stack(host, LOCK, nothing, want="zluda-v6-linux")
    assert "cannot serve gfx906" in caught.value.context[0]
    forced = select_stack(host, LOCK, nothing, want="zluda-v6-linux", force=True)
    assert "cannot be expected to work; you forced it onto gfx906" in forced.warnings[0]


@pytest.mark.parametrize("gfx", ["gfx1200", "gfx1201"])
def test_an_rx_9000_with_sdk_71_is_given_another_stack_and_is_warned_of_that_one(gfx: str) -> None:
    host = machine(gfx, "windows", "7.1.1")
    assert LOCK.stacks[select_stack(host, LOCK, nothing).stack_id].hip.source.value == "parts"
    named = select_stack(host, LOCK, nothing, want="zluda-v6-sdk71")
    assert any("0xc0000005" in warning for warning in named.warnings)
    there = select_for(LOCK, nothing, os="windows", gfx=gfx, want="zluda-v6-sdk71")
    assert any("0xc0000005" in warning for warning in there.warnings)
    other = select_stack(machine("gfx1100", "windows", "7.1.1"), LOCK, nothing, want="zluda-v6-sdk71")
    assert not any("0xc0000005" in warning for warning in other.warnings)


def test_a_nightly_build_is_nobodys_default() -> None:
    nightly = LOCK.stacks["zluda-v7p11-nightly-gfx1100"]
    assert only_when_named(nightly, LOCK)
    assert [s.id for s in LOCK.stacks.values() if only_when_named(s, LOCK)] == [
        "overlay-hip713",
        "zluda-v7p11-nightly-gfx1100",
    ]
    host = machine("gfx1100", "windows")
    assert select_stack(host, LOCK, nothing, want=nightly.id).stack_id == nightly.id
    assert isinstance(bare("gfx1100", "windows"), HostError)


def test_every_translation_stack_names_architectures_that_amd_covers() -> None:
    for stack in LOCK.stacks.values():
        if stack.kind is StackKind.TRANSLATION:
            assert set(stack.requires.gfx) <= set(ALL), stack.id


#: What WSL2's table of GPUs holds (ROCm/librocdxg README@021a477, release v1.2.1): RDNA 3 and later, not all.
WSL = {"gfx1100", "gfx1101", "gfx1150", "gfx1151", "gfx1153", "gfx1200", "gfx1201"}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("gfx", ALL)
def test_the_native_ways_of_every_family_are_commands_with_source_and_date(gfx: str, system: str) -> None:
    programs = ("pytorch", "llama-cpp", "blender", "ctranslate2", "comfyui", "ollama", "koharu")
    ways = {way.id: way for way in native_ways(gfx=gfx, os=system, programs=programs)}
    assert f'"torch[device-{gfx}]==2.13.0+rocm10.0.0"' in ways["torch-rocm"].commands[0]
    ending = "" if system == "windows" else "-linux"
    for name in (f"llama-hip{ending}", f"llama-vulkan{ending}", f"ctranslate2-hip{ending}", "blender-hip"):
        assert ways[name].commands, name
        assert ways[name].source, name
        assert ways[name].date, name
    assert ("wsl" in ways) is (system == "windows" and gfx in WSL)
    assert ("comfyui-portable" in ways) is (system == "windows")
    for way in ways.values():
        for command in way.commands:
            assert "…" not in command, "a command can be pasted"
            assert "start http" not in command, "a page is no command"
            assert system == "linux" or not command.startswith("curl "), "PowerShell has another curl"

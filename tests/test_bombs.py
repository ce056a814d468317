"""What is small and asks for much is refused, within the bounds that docs/threat-model.md names."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from scripts.errors import ArchiveError
from scripts.model import Artifact, ArtifactFormat, NoProgress, Trust
from scripts.store.archive import unpack
from scripts.store.cache import Cache
from tests.bombs import ARCHIVES, GROWING, steps_of

pytestmark = pytest.mark.proof

ROOT = Path(__file__).resolve().parents[1]
#: What docs/threat-model.md promises, with room for a busy machine.
MOST_MEMORY = 200_000_000
MOST_SECONDS = 30.0
#: Harmless although it looks odd.
UNPACKS = {"records"}
#: A hundred thousand files or folders are made before the next one is too many.
SLOW = {"members", "deep"}


def artifact(data: bytes, kind: ArtifactFormat) -> Artifact:
    return Artifact(
        id="bomb",
        urls=("https://example.org/bomb",),
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        format=kind,
        root="",
        license="MIT",
        source="o/bomb@1",
        trust=Trust.INDEPENDENT,
    )


def explode(name: str, folder: Path) -> str:
    """Unpack a bomb; return the reference of its refusal, or nothing."""
    make, kind = ARCHIVES[name]
    return unpacked(make(), kind, folder)


def unpacked(data: bytes, kind: ArtifactFormat, folder: Path) -> str:
    """Unpack an archive; return the reference of its refusal, or nothing."""
    item, cache = artifact(data, kind), Cache(folder)
    cache.ensure()
    blob = cache.blob_path(item.sha256 or "")
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(data)
    try:
        unpack(item, cache, blob, progress=NoProgress())
    except ArchiveError as error:
        return error.reference if len(error.message) < 2_000 else "endless-message"
    return ""


@pytest.mark.parametrize("name", GROWING)
def test_an_archive_of_twice_the_size_takes_about_twice_the_steps(name: str, tmp_path: Path) -> None:
    """Steps are counted, not seconds."""
    steps = []
    few = 20 if "deep" in name else 300  # each deep name is 60 folders
    for size in (few, 2 * few):
        data, folder = GROWING[name](size), tmp_path / str(size)
        steps.append(steps_of(partial(unpacked, data, ARCHIVES[name][1], folder)))
    assert steps[1] < 2.3 * steps[0], steps


CHILD = """
import json, sys, time
from pathlib import Path
sys.path[:0] = [sys.argv[1]]
from tests import bombs
from tests.test_bombs import explode
def peak():  # ru_maxrss would count what the parent had before this program began
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
name, folder = sys.argv[2], Path(sys.argv[3])
made, kind = bombs.ARCHIVES[name][0](), bombs.ARCHIVES[name][1]
bombs.ARCHIVES[name] = (lambda: made, kind)
start = time.process_time()
reference = explode(name, folder)
spent = time.process_time() - start
after = peak()
print(json.dumps([reference, spent, after]))
"""


@pytest.mark.posix_only
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.proof] * (name in SLOW)) for name in ARCHIVES]
)
def test_a_bomb_stays_small(name: str, tmp_path: Path) -> None:
    line = [sys.executable, "-c", CHILD, str(ROOT), name, str(tmp_path)]
    done = subprocess.run(
        line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    reference, seconds, memory = json.loads(done.stdout)
    print(f"{name}: {reference or 'unpacked'} {seconds:.2f} s {memory / 1e6:.0f} MB")
    assert bool(reference) is (name not in UNPACKS)
    assert seconds < MOST_SECONDS
    assert memory < MOST_MEMORY
    assert not any(path.is_dir() for path in (tmp_path / "trees-v1").iterdir()) or not reference

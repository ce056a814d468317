"""Wrap programs again and again while things go wrong, and compare their folders with what they were.

python -m tools.soak --minutes=60 --work=FOLDER [--small=FOLDER] [--seed=N]

``--small`` is an empty folder on a small file system of its own (a tmpfs of 1 MiB), which is filled; without
it no disk is full. Each round is made from the seed and its number alone, so ``--only=ROUND`` repeats one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PATIENCE: Final = 120.0
#: Larger than a page, so that a full disk can cut one in the middle.
SIZE: Final = 24_000
LIBRARIES: Final = ("libcuda.so.1", "libcublas.so.12", "libcufft.so.11", "libnvrtc.so.12")
PROGRAM: Final = '#!/bin/sh\n: > "$1"\nexec sleep "$2"\n'
CATCHABLE: Final = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2),
    *(signal.SIGALRM, signal.SIGXCPU, signal.SIGPIPE, signal.SIGABRT),
)
OLD: Final = 1_600_000_000_123_456_700
Shape = dict[str, tuple[object, ...]]


def shape_of(folder: Path) -> Shape:
    """Return names, kinds, modes, bytes and times of all below a folder, its own time excepted."""
    found: Shape = {}
    for path in sorted(folder.rglob("*")):
        at = path.lstat()
        name = path.relative_to(folder).as_posix()
        if stat.S_ISLNK(at.st_mode):
            found[name] = ("link", str(path.readlink()))
        elif stat.S_ISDIR(at.st_mode):
            found[name] = ("folder", stat.S_IMODE(at.st_mode), at.st_mtime_ns)
        else:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = ("file", stat.S_IMODE(at.st_mode), at.st_size, digest, at.st_mtime_ns)
    return found


def write(path: Path, data: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    os.utime(path, ns=(OLD, OLD))


class Round:
    """One program folder, what is done to it, and what is found afterwards."""

    def __init__(self, *, work: Path, small: Path | None, seed: int, number: int) -> None:
        self.chance = random.Random(f"{seed}:{number}")  # noqa: S311 - chance, not a secret
        self.work = work / f"round-{number}"
        kinds = ["nothing", "kill", "kill", "signal", "signal", "folder", "journal", "emptied", "state"]
        self.kind = self.chance.choice([*kinds, "full", "full"] if small is not None else kinds)
        self.small = small
        self.folder = (small if self.kind == "full" and small else self.work) / "a program"
        self.wraps: list[subprocess.Popen[str]] = []
        self.wrong: list[str] = []
        self.lost: set[str] = set()
        self.said = ""

    def prepare(self) -> None:
        """Make a program with libraries and a link of its own, and two stacks."""
        write(self.folder / "app", PROGRAM.encode(), 0o755)
        for name in self.chance.sample(LIBRARIES, self.chance.randint(0, 3)):
            if self.chance.random() < 0.3:
                (self.folder / name).symlink_to("app")
            else:
                write(self.folder / name, name.encode() * 1500, self.chance.choice([0o644, 0o444, 0o755]))
        write(self.folder / "sub" / "data.bin", b"data")
        os.utime(self.folder / "sub", ns=(OLD, OLD))
        for stack in ("one", "two"):
            for name in LIBRARIES:
                write(
                    self.work / stack / "runtime" / name,
                    (stack + name).encode() * (SIZE // len(stack + name)),
                )
        self.before = shape_of(self.folder)

    def environ(self) -> dict[str, str]:
        places = {"CUDA_AMD_STATE": self.work / "user", "CUDA_AMD_CACHE": self.work / "store"}
        return {**os.environ, **{name: str(path) for name, path in places.items()}}

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        line = [sys.executable, "-m", *words]
        return subprocess.Popen(
            line, cwd=ROOT, env=self.environ(), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
        )

    def wrap(self) -> None:
        """Start one wrap, or two at once, of the same stack or of two."""
        for number in range(self.chance.choice([1, 1, 2])):
            stack = self.chance.choice(["one", "one", "two"])
            words = [
                "tests.wrapping",
                str(self.work / stack / "runtime"),
                "reference",
                "wrap",
                "--via=beside",
            ]
            words += [f"--exe={self.folder / 'app'}", "--", str(self.work / f"runs-{number}")]
            self.wraps.append(self.start([*words, f"{self.chance.uniform(0.0, 1.5):.2f}"]))

    def pause(self) -> None:
        """Wait until the first program runs or ended, or (one time in two) for a chance time."""
        if self.chance.random() < 0.5:
            time.sleep(self.chance.uniform(0.0, 3.0))
            return
        while not (self.work / "runs-0").exists() and self.wraps[0].poll() is None:
            time.sleep(0.02)

    def act(self) -> None:
        """Do the harm."""
        record = self.folder / ".cuda-amd"
        for wrap in self.wraps:
            if self.kind == "kill" and self.chance.random() < 0.8:
                wrap.kill()
            elif self.kind == "signal" and self.chance.random() < 0.8:
                wrap.send_signal(self.chance.choice(CATCHABLE))
        if self.kind == "folder":
            self.lost = {name for name in LIBRARIES if name in self.before}
            shutil.rmtree(record, ignore_errors=True)
        elif self.kind == "journal":
            (record / "journal").unlink(missing_ok=True)
        elif self.kind == "emptied" and (record / "journal").exists():
            (record / "journal").write_bytes(b"")
        elif self.kind == "state":
            shutil.rmtree(self.work / "user", ignore_errors=True)
        elif self.kind == "full":
            fill(self.folder.parent / "ballast", keep=self.chance.choice([0, 0, 4096, 30_000]))

    def collect(self) -> None:
        """Wait for all, and look at how they ended."""
        for wrap in self.wraps:
            out, err = wrap.communicate(timeout=PATIENCE)
            self.note(out + err)
        self.no_program_left()

    def note(self, text: str) -> None:
        self.said += text
        if "Traceback" in text:
            self.wrong.append("traceback")

    def no_program_left(self) -> None:
        """The program has at most its own time to end: it sleeps for two seconds at most."""
        end = time.monotonic() + 10
        while running(str(self.work / "runs-")) or (self.kind == "kill" and running(f"{self.folder}/app")):
            if time.monotonic() > end:
                self.wrong.append("a program was left running")
                return
            time.sleep(0.1)

    def undo(self) -> int:
        """Unwrap as a person would, sometimes killed in the middle; return the last exit code."""
        if self.kind == "kill" and self.chance.random() < 0.5:
            first = self.start(["scripts", "unwrap", f"--target={self.folder}"])
            time.sleep(self.chance.uniform(0.0, 1.0))
            first.kill()
            first.communicate()
        if self.kind == "full":
            self.note(self.finished("unwrap", f"--target={self.folder}")[1])
            (self.folder.parent / "ballast").unlink(missing_ok=True)
        code, said = self.finished("unwrap", f"--target={self.folder}")
        self.note(said)
        if code == 41 and self.kind in {"folder", "journal", "emptied"}:
            self.note(self.finished("unwrap", f"--target={self.folder}", "--theirs")[1])
            code = 0
        return code

    def finished(self, *words: str) -> tuple[int, str]:
        process = self.start(["scripts", *words])
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out + err

    def judge(self, code: int) -> None:
        """Compare; what was lost with the record must have been named."""
        if code != 0:
            self.wrong.append(f"unwrap ends with {code}")
        after = shape_of(self.folder)
        for name in sorted(self.before.keys() | after.keys()):
            if self.before.get(name) == after.get(name):
                continue
            if name in self.lost and f"{name}: the original is " in self.said:
                continue
            self.wrong.append(f"{name}: {self.before.get(name)} is now {after.get(name)}")
        placements = json.loads(self.finished("status", "--json")[1].partition("\n\n")[0] or "{}")
        if placements.get("placements"):
            self.wrong.append(f"status still shows {placements['placements']}")

    def run(self) -> None:
        self.prepare()
        try:
            self.wrap()
            self.pause()
            self.act()
            self.collect()
            self.judge(self.undo())
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            self.wrong.append(repr(error))
        finally:
            for wrap in self.wraps:
                wrap.kill()
        if not self.wrong:
            shutil.rmtree(self.work)
            if self.small is not None:
                empty(self.small)


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def fill(path: Path, *, keep: int) -> None:
    """Write until the file system is full, but for ``keep`` bytes."""
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            file.truncate(max(0, file.tell() - keep))


def running(text: str) -> bool:
    """Whether any process but the tool itself has a text in its command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if text.encode() in (entry / "cmdline").read_bytes():
                    return True
            except OSError:
                continue
    return False


def main() -> int:
    """Run rounds until the time is over; return 1 where one found a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--work", type=lambda text: Path(text).absolute(), required=True)
    parser.add_argument("--small", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    begun, kinds, differences, number = time.monotonic(), Counter[str](), 0, asked.only or 0
    while time.monotonic() < begun + asked.minutes * 60:
        one = Round(work=asked.work, small=asked.small, seed=asked.seed, number=number)
        one.run()
        kinds[one.kind] += 1
        if one.wrong:
            differences += 1
            print(f"round {number} ({one.kind}): {'; '.join(one.wrong)}\n{one.said}", flush=True)
            if asked.small is not None:
                empty(asked.small)
        if number % 25 == 0 or asked.only is not None:
            print(
                f"{time.monotonic() - begun:.0f} s: {dict(kinds)}, {differences} with differences", flush=True
            )
        number += 1
        if asked.only is not None:
            break
    print(f"{kinds.total()} rounds in {time.monotonic() - begun:.0f} s: {dict(kinds)}", flush=True)
    print(f"{differences} with differences", flush=True)
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())

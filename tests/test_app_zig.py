"""A machine without a C compiler gets one from the package index: by hash, and only when somebody agrees."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.checkout import Checkout

pytestmark = [pytest.mark.proof, pytest.mark.posix_only]

#: Hands every call to this machine's compiler, which the tests hide from the product; Zig's is always PIC.
ZIG = """import subprocess, sys
assert sys.argv[1] == "cc"
sys.exit(subprocess.call(["/usr/bin/cc", "-fPIC", *sys.argv[2:]], env={"PATH": "/usr/bin:/bin"}))
"""


def wheel(folder: Path) -> str:
    """Build a stand-in for ziglang's wheel; return its hash."""
    folder.mkdir()
    files = {
        "ziglang/__init__.py": "",
        "ziglang/__main__.py": ZIG,
        "ziglang-0.17.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: ziglang\nVersion: 0.17.1\n",
        "ziglang-0.17.1.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = []
    path = folder / "ziglang-0.17.1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(text)}")
        archive.writestr("ziglang-0.17.1.dist-info/RECORD", "\n".join(record))
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Bare:
    """A checkout, an environment of its own, and a machine without a compiler."""

    def __init__(self, checkout: Checkout, folder: Path, sha256: str | None = None) -> None:
        self.checkout = checkout
        digest = wheel(folder / "wheels")
        checkout.cache = folder / "own store"
        lock = f"ziglang==0.17.1 --hash=sha256:{sha256 or digest}\n"
        (checkout.root / "requirements-zig.lock").write_text(lock, encoding="utf-8")
        venv = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        self.python = venv / "bin" / "python"
        site = venv / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        (site / "ours.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
        self.env = {
            "PATH": str(folder / "empty"),
            "CC": "",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(folder / "wheels"),
            "PIP_CONFIG_FILE": "/dev/null",
        }

    def setup(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.python), str(self.checkout.front_door()), "setup", "--json", *words],
            env={**self.checkout.environ, **self.env},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=240,
            check=False,
        )


def test_a_compiler_comes_from_the_index_when_agreed_to(checkout: Checkout, tmp_path: Path) -> None:
    bare = Bare(checkout, tmp_path)
    asked = bare.setup()
    assert asked.returncode == 2
    error = json.loads(asked.stdout)["error"]
    assert error["reference"] == "consent-needed"
    assert "101.1 MB" in error["message"]

    done = bare.setup("--yes")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stack"] == "cpu-reference"


def test_other_bytes_are_not_installed(checkout: Checkout, tmp_path: Path) -> None:
    done = Bare(checkout, tmp_path, sha256="0" * 64).setup("--yes")
    assert done.returncode == 20
    assert json.loads(done.stdout)["error"]["reference"] == "compiler-not-installed"


def test_offline_says_what_is_missing(checkout: Checkout, tmp_path: Path) -> None:
    done = Bare(checkout, tmp_path).setup("--yes", "--offline")
    assert done.returncode == 50
    assert json.loads(done.stdout)["error"]["reference"] == "no-compiler"

"""A signed lock: who signed it, and every way in which a signature does not fit."""

from __future__ import annotations

import base64
import hashlib
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from scripts.app.context import workspace_from_environ
from scripts.cli.present import use_case
from scripts.cli.verbs import VERBS
from scripts.errors import LockError, UsageError
from scripts.lock.reader import read_lock
from scripts.lock.signature import NAMESPACE, signature_of, trusted_keys
from tests.checkout import ROOT, Checkout

DATA = b"version = 1\n"


def packed(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


class Signer:
    """A key and the files that OpenSSH would make with it."""

    def __init__(self) -> None:
        self.private = Ed25519PrivateKey.generate()
        raw = self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.blob = packed(b"ssh-ed25519") + packed(raw)

    @property
    def public(self) -> str:
        return f"ssh-ed25519 {base64.b64encode(self.blob).decode()} lab@example"

    def sign(self, data: bytes, *, namespace: str = NAMESPACE, hash_name: str = "sha512") -> str:
        digest = hashlib.new(hash_name, data).digest() if hash_name in {"sha256", "sha512"} else data
        head = packed(namespace.encode()) + packed(b"") + packed(hash_name.encode())
        signed = packed(b"ssh-ed25519") + packed(self.private.sign(b"SSHSIG" + head + packed(digest)))
        return armoured(b"SSHSIG" + struct.pack(">I", 1) + packed(self.blob) + head + packed(signed))


def armoured(blob: bytes) -> str:
    text = base64.b64encode(blob).decode()
    lines = [text[at : at + 70] for at in range(0, len(text), 70)]
    return "\n".join(("-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""))


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "Jürgen's locks" / "pins.lock"
    path.parent.mkdir()
    path.write_bytes(DATA)
    return path


def signed(lock: Path, text: str) -> Path:
    path = lock.with_name("pins.lock.sig")
    path.write_text(text, encoding="ascii", newline="\n")
    return path


@pytest.mark.parametrize("hash_name", ["sha256", "sha512"])
def test_a_signature_that_fits_names_its_key(lock: Path, hash_name: str) -> None:
    signer = Signer()
    signed(lock, signer.sign(DATA, hash_name=hash_name))
    found = signature_of(DATA, lock, trusted_keys(signer.public))
    assert found is not None
    assert found.owner == "lab@example"
    digest = base64.b64encode(hashlib.sha256(signer.blob).digest()).decode().rstrip("=")
    assert found.fingerprint == f"SHA256:{digest}"
    assert read_lock(lock).signer == found.fingerprint


def test_keys_are_read_from_a_file_as_openssh_writes_them(lock: Path, tmp_path: Path) -> None:
    signer, other = Signer(), Signer()
    file = tmp_path / "allowed signers"
    lines = (
        "# who",
        "",
        other.public,
        f'lab@example namespaces="x,{NAMESPACE}" {signer.public}',
        "ssh-rsa AAAA",
    )
    file.write_text("\n".join(lines), encoding="utf-8")
    signed(lock, signer.sign(DATA))
    assert read_lock(lock, trust=str(file)).signer
    assert set(trusted_keys(str(file))) == {signer.blob, other.blob}


@pytest.mark.parametrize(
    "before",
    [
        'alice@x namespaces="git",valid-before="20200101"',
        'alice@x namespaces="git"',
        f'alice@x namespaces="{NAMESPACE}",valid-before="20200101"',
        f'alice@x namespaces="{NAMESPACE}" valid-before=20200101',
        f'alice@x namespaces="*,!{NAMESPACE}"',
        'alice@x valid-after="20300101"',
        "*@x cert-authority",
        "cert-authority",
        "@revoked *",
        "@cert-authority *",
        "@revoked",
        "!alice@x",
        'namespaces="git"',
        "ssh-rsa AAAA",
    ],
)
def test_a_key_that_is_limited_or_revoked_is_refused_and_not_skipped(tmp_path: Path, before: str) -> None:
    file = tmp_path / "allowed_signers"
    file.write_text(f"{Signer().public}\n{before} {Signer().public}\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        trusted_keys(str(file))
    assert caught.value.reference == "trust-restricted"
    assert before in caught.value.context[0]


@pytest.mark.parametrize("start", ["", "\ufeff", "# old:\x0c", "# old:\u2028"])
def test_a_key_in_a_comment_does_not_count(tmp_path: Path, start: str) -> None:
    file = tmp_path / "allowed_signers"
    good = Signer()
    file.write_text(f"{start}# {Signer().public}\n{good.public}\n", encoding="utf-8")
    assert set(trusted_keys(str(file))) == {good.blob}


@pytest.mark.parametrize("before", ["", "lab@example,*@x ", f'lab namespaces="git,{NAMESPACE}" '])
def test_what_can_be_kept_is_taken(tmp_path: Path, before: str) -> None:
    signer = Signer()
    file = tmp_path / "allowed_signers"
    file.write_text(f"{before}{signer.public}\r\n", encoding="utf-8", newline="")
    assert set(trusted_keys(str(file))) == {signer.blob}


def test_an_unsigned_lock_is_fine_until_keys_are_named(lock: Path) -> None:
    assert read_lock(lock).signer == ""
    with pytest.raises(LockError) as caught:
        read_lock(lock, trust=Signer().public)
    assert caught.value.reference == "lock-unsigned"
    assert "ssh-keygen -Y sign" in caught.value.hint


def test_another_key_is_refused_only_where_keys_are_named(lock: Path) -> None:
    signed(lock, Signer().sign(DATA))
    assert read_lock(lock).signer
    with pytest.raises(LockError) as caught:
        read_lock(lock, trust=Signer().public)
    assert caught.value.reference == "lock-signer"


@pytest.mark.parametrize("trusted", [True, False])
def test_a_changed_lock_is_refused_with_and_without_keys(lock: Path, *, trusted: bool) -> None:
    signer = Signer()
    signed(lock, signer.sign(DATA))
    lock.write_bytes(DATA + b"# one more line\n")
    with pytest.raises(LockError) as caught:
        read_lock(lock, trust=signer.public if trusted else None)
    assert caught.value.reference == "lock-signature"
    assert "changed" in caught.value.message


def bad_signatures() -> dict[str, str]:
    signer = Signer()
    good = signer.sign(DATA)
    blob = base64.b64decode("".join(good.splitlines()[1:-1]))
    other = Signer()
    return {
        "empty": "",
        "no armour": "hello\n",
        "no base64": "-----BEGIN SSH SIGNATURE-----\n????\n-----END SSH SIGNATURE-----\n",
        "another purpose": signer.sign(DATA, namespace="git"),
        "unknown hash": signer.sign(DATA, hash_name="md4"),
        "version 2": armoured(blob[:6] + struct.pack(">I", 2) + blob[10:]),
        "a swapped key": armoured(blob.replace(signer.blob, other.blob)),
        "an rsa key": armoured(blob.replace(b"ssh-ed25519", b"ssh-rsa4096")),
        "more behind": armoured(blob + b"\0\0\0\0"),
        "too large": "-----BEGIN SSH SIGNATURE-----\n" + "A" * 70_000,
        **{f"cut at {at}": armoured(blob[:at]) for at in range(0, len(blob), 7)},
        **{
            f"bit {at} turned": armoured(blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :])
            for at in range(0, len(blob), 5)
        },
    }


def test_whatever_lies_there_is_refused_and_never_a_traceback(lock: Path) -> None:
    for name, text in bad_signatures().items():
        signed(lock, text)
        with pytest.raises(LockError) as caught:
            read_lock(lock)
        assert caught.value.reference == "lock-signature", name


def test_a_folder_is_no_signature(lock: Path) -> None:
    lock.with_name("pins.lock.sig").mkdir()
    with pytest.raises(LockError, match="cannot be read"):
        read_lock(lock)


@pytest.mark.parametrize("value", ["nothing/here.pub", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-ed25519 !!!!"])
def test_what_names_no_key_is_a_sentence(lock: Path, value: str) -> None:
    with pytest.raises(UsageError, match="CUDA_AMD_TRUST names n"):
        read_lock(lock, trust=value)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_the_line_that_is_shown_makes_a_signature_that_fits(lock: Path, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(lock)],
        check=True, capture_output=True,
    )  # fmt: skip
    assert read_lock(lock, trust=str(key.with_suffix(".pub"))).signer


#: What a verb needs before it reads the lock; those that read none are not here.
READING: Mapping[str, dict[str, object]] = {
    "setup": {"yes": True},
    "wrap": {"exe": sys.executable},
    "status": {},
    "preflight": {"exe": sys.executable},
    "precompile": {"path": sys.executable},
    "shim": {"exe": sys.executable},
    "stacks": {},
    "use": {"stack": "cpu-reference"},
    "fetch": {"yes": True},
    "stage": {"yes": True},
    "verify": {},
    "check": {},
    "probe": {},
    "run": {},
    "ab": {"a": "cpu-reference", "b": "cpu-reference"},
    "validate": {},
    "matrix": {},
    "cache.list": {},
    "cache.prune": {},
    "pins.check": {"stale": True},
    "pins.update": {},
    "pins.add": {"url": "https://example.org/layer.zip", "license": "MIT"},
}


@pytest.mark.parametrize("verb", READING)
def test_every_verb_that_reads_the_lock_asks_who_signed_it(tmp_path: Path, verb: str) -> None:
    environ = {"CUDA_AMD_CACHE": str(tmp_path / "store"), "CUDA_AMD_STATE": str(tmp_path / "state")}
    ws = workspace_from_environ(environ | {"CUDA_AMD_TRUST": Signer().public}, root=tmp_path)
    shutil.copy(ROOT / "pins.lock", tmp_path)
    with pytest.raises(LockError) as caught:
        use_case(VERBS[verb])(ws, **READING[verb])
    assert caught.value.reference == "lock-unsigned"


def test_use_cases_read_the_lock_in_one_way() -> None:
    """A second caller of ``read_lock`` could forget to ask for the signature."""
    calling = {
        path.name
        for path in (ROOT / "scripts" / "app").rglob("*.py")
        if "read_lock" in path.read_text("utf-8")
    }
    assert calling == {"context.py"}


@pytest.mark.slow
def test_every_task_asks_for_the_signature(checkout: Checkout) -> None:
    signer = Signer()
    done = checkout.run("stacks", env={"CUDA_AMD_TRUST": signer.public})
    assert done.returncode == 10
    assert "lock-unsigned" in done.stderr
    (checkout.root / "pins.lock.sig").write_text(signer.sign((checkout.root / "pins.lock").read_bytes()))
    signed_by = checkout.json("verify", env={"CUDA_AMD_TRUST": signer.public}, code=2)["lock_signed_by"]
    assert signed_by.startswith("SHA256:")


def test_trust_that_is_set_and_empty_is_no_trust(lock: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_lock(lock, trust="")
    assert caught.value.reference.startswith("trust-")

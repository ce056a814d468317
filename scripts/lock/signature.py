"""Who vouches for a lock: SSH signatures, made and checked offline.

``ssh-keygen -Y sign -n cuda-on-amd-lock -f KEY pins.lock`` writes ``pins.lock.sig`` beside the lock. A person
who sets ``CUDA_AMD_TRUST`` to a public key, or to a file with one on each line, accepts locks signed by these
keys and no others. Format: PROTOCOL.sshsig of OpenSSH, version 1, Ed25519 keys only. docs/threat-model.md
says what a signature protects from.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from scripts.errors import LockError, UsageError
from scripts.osal import fs

SUFFIX: Final = ".sig"
#: Keeps a signature that was made for another purpose from being taken for one of a lock.
NAMESPACE: Final = "cuda-on-amd-lock"
VARIABLE: Final = "CUDA_AMD_TRUST"
#: No signature and no list of keys is larger.
MOST_BYTES: Final = 64 * 1024

_KEY_TYPE: Final = b"ssh-ed25519"
_MAGIC: Final = b"SSHSIG"
_BEGIN: Final = "-----BEGIN SSH SIGNATURE-----"
_END: Final = "-----END SSH SIGNATURE-----"
_LENGTH: Final = struct.Struct(">I")
#: What may stand before a key. Negated names are none of it.
_PRINCIPALS: Final = re.compile(r"[\w*?.][\w*?.,+:@/\\-]*")
_NAMESPACES: Final = re.compile(r'namespaces="([^"!\s]*)"')
_KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
#: Why a signature does not fit; each completes ``the signature of pins.lock``.
_MISFITS: Final = {
    "form": "is no SSH signature",
    "damage": "is damaged",
    "version": "is of an unknown version",
    "kind": "is not of an Ed25519 key",
    "purpose": "was made for another purpose",
    "hash": "uses an unknown hash",
    "bytes": "is not one of these bytes: the lock or the signature was changed",
}
_HASHES: Final = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}


class LockSignature(Struct, frozen=True, kw_only=True):
    """A signature that fits a lock: the key's fingerprint as ``ssh-keygen -l`` shows it, and whose it is."""

    fingerprint: str
    owner: str = ""


class _BadSignatureError(ValueError):
    """A signature file that does not fit, by the name of the reason."""

    def __init__(self, reason: str) -> None:
        """Keep the sentence of the reason."""
        super().__init__(_MISFITS[reason])


def trusted_keys(value: str) -> Mapping[bytes, str]:
    """Read ``CUDA_AMD_TRUST``: a public key, or a file of them, to each key's bytes and its comment.

    A line is ``ssh-ed25519 KEY [COMMENT]`` as in ``id_ed25519.pub``, or ``PRINCIPALS [namespaces="LIST"]
    ssh-ed25519 KEY [COMMENT]`` as in ``allowed_signers``, where the list has to name ``cuda-on-amd-lock``.
    Keys of other types do not count, and ``#`` starts a comment. Any other restriction or revocation is
    refused, because it would not be kept.

    Raises:
        UsageError: there is no such file, it holds no Ed25519 key, or a line that cannot be kept.
    """
    text = value if value.lstrip().startswith(_KEY_TYPE.decode()) else _text_of(Path(value))
    keys = dict(filter(None, map(_key_of, text.split("\n"))))
    if not keys:
        msg = f"{VARIABLE} names no ssh-ed25519 public key"
        raise UsageError("trust-without-keys", msg, context=(value[:200],), hint=_HINT_TRUST)
    return keys


def signature_of(data: bytes, lock: Path, keys: Mapping[bytes, str] | None = None) -> LockSignature | None:
    """Check the signature beside a lock; with ``keys`` it must be there, and made by one of them.

    Args:
        data: the lock's bytes.
        lock: the file they were read from.
        keys: what ``trusted_keys`` returned; ``None`` asks for no particular key.

    Returns:
        who signed, or ``None`` where nothing is signed and nothing has to be.

    Raises:
        LockError: there is no signature, it is of other bytes, or of a key that is not trusted.
    """
    path = lock.with_name(lock.name + SUFFIX)
    try:
        text = fs.read_bounded(path, MOST_BYTES).decode("ascii")
        key = _signer(text, data)
    except FileNotFoundError:
        if keys is None:
            return None
        msg = f"{lock.name} is not signed, and {VARIABLE} asks for a signature"
        raise LockError("lock-unsigned", msg, context=(str(path),), hint=_hint_sign(lock)) from None
    except (OSError, ValueError) as error:
        reason = str(error) if isinstance(error, _BadSignatureError) else "cannot be read"
        msg = f"the signature of {lock.name} {reason}"
        raise LockError("lock-signature", msg, context=(str(path),), hint=_hint_sign(lock)) from None
    fingerprint = _fingerprint(key)
    if keys is not None and key not in keys:
        msg = f"{lock.name} is signed by a key that {VARIABLE} does not name"
        context = (fingerprint, *(f"trusted: {_fingerprint(known)}" for known in keys))
        raise LockError("lock-signer", msg, context=context, hint=_HINT_TRUST)
    return LockSignature(fingerprint=fingerprint, owner=(keys or {}).get(key, ""))


_HINT_TRUST: Final = f"set {VARIABLE} to the file with the public keys you trust, for example id_ed25519.pub"

_HINT_LINE: Final = (
    f'write `ssh-ed25519 KEY`, or `NAME namespaces="{NAMESPACE}" ssh-ed25519 KEY`, and remove revoked keys'
)


def _hint_sign(lock: Path) -> str:
    line = f'ssh-keygen -Y sign -n {NAMESPACE} -f KEY "{lock}"'
    return f"get the lock and its signature from where you trust them, or sign it: {line}"


def _text_of(path: Path) -> str:
    try:
        return fs.read_bounded(path, MOST_BYTES).decode("utf-8-sig")
    except (OSError, ValueError):
        msg = f"{VARIABLE} names neither a public key nor a file that can be read"
        raise UsageError("trust-unreadable", msg, context=(str(path)[:200],), hint=_HINT_TRUST) from None


def _key_of(line: str) -> tuple[bytes, str] | None:
    """Read one line of keys: principals and namespaces may stand before the key, a comment behind it."""
    words = line.split()
    if not words or words[0].startswith("#") or _KEY_TYPE.decode() not in words:
        return None
    at = words.index(_KEY_TYPE.decode())
    before = words[:at]
    if not _is_kept(before):
        msg = f"a line of {VARIABLE} limits or revokes its key in a way that is not understood"
        raise UsageError("trust-restricted", msg, context=(" ".join(before)[:200],), hint=_HINT_LINE)
    try:
        blob = base64.b64decode(words[at + 1], validate=True)
        kind, rest = _take(blob)
        key, rest = _take(rest)
    except (IndexError, ValueError):
        return None
    if kind != _KEY_TYPE or len(key) != _KEY_BYTES or rest:
        return None
    return blob, " ".join(words[at + 2 :]) or " ".join(before[:1])


def _is_kept(before: Sequence[str]) -> bool:
    """Whether the words before a key say nothing else than for whom it is, and for locks of ours."""
    if not before:
        return True
    principals, *options = before
    if not _PRINCIPALS.fullmatch(principals) or principals == "cert-authority" or len(options) > 1:
        return False
    found = [_NAMESPACES.fullmatch(option) for option in options]
    return all(one is not None and NAMESPACE in one[1].split(",") for one in found)


def _signer(text: str, data: bytes) -> bytes:
    """Return the key whose signature of ``data`` a file holds."""
    key, namespace, algorithm, signed = _parts(text)
    if namespace != NAMESPACE.encode():
        raise _BadSignatureError("purpose")
    if algorithm not in _HASHES:
        raise _BadSignatureError("hash")
    digest = _HASHES[algorithm](data).digest()
    parts = (namespace, b"", algorithm, digest)
    message = _MAGIC + b"".join(_LENGTH.pack(len(part)) + part for part in parts)
    if not _is_signed(key, signed, message):
        raise _BadSignatureError("bytes")
    return key


def _parts(text: str) -> tuple[bytes, bytes, bytes, bytes]:
    """Take a signature file apart: key, namespace, hash, signature."""
    lines = text.strip().splitlines()
    if lines[:1] != [_BEGIN] or lines[-1:] != [_END]:
        raise _BadSignatureError("form")
    try:
        blob = base64.b64decode("".join(lines[1:-1]), validate=True)
        if blob[:6] != _MAGIC or _LENGTH.unpack(blob[6:10]) != (1,):
            raise _BadSignatureError("version")
        key, rest = _take(blob[10:])
        namespace, rest = _take(rest)
        _reserved, rest = _take(rest)
        algorithm, rest = _take(rest)
        signature, rest = _take(rest)
        kind, signature = _take(signature)
        signed, behind = _take(signature)
    except (binascii.Error, struct.error):
        raise _BadSignatureError("damage") from None
    if kind != _KEY_TYPE or len(signed) != _SIGNATURE_BYTES or rest or behind:
        raise _BadSignatureError("kind")
    return key, namespace, algorithm, signed


def _is_signed(blob: bytes, signed: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - only signed locks need it
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - only signed locks need it
        Ed25519PublicKey,
    )

    try:
        kind, rest = _take(blob)
        key, behind = _take(rest)
        if kind != _KEY_TYPE or behind:
            return False
        Ed25519PublicKey.from_public_bytes(key).verify(signed, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _take(blob: bytes) -> tuple[bytes, bytes]:
    """Take one string of the SSH wire format off the front."""
    end = _LENGTH.size + int.from_bytes(blob[: _LENGTH.size], "big")
    if len(blob) < end:
        raise _BadSignatureError("damage")
    return blob[_LENGTH.size : end], blob[end:]


def _fingerprint(blob: bytes) -> str:
    """Return a key's fingerprint as OpenSSH shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")

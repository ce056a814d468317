"""Unpacking makes read-only trees of verified files, and refuses evil archives by one table."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import struct
import subprocess
import sys
import tarfile
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scripts.errors import ArchiveError, ConflictError, ExitCode, FetchError, IntegrityError, StagedFileError
from scripts.model import Artifact, ArtifactFormat, Member, NoProgress, Trust
from scripts.osal import fs
from scripts.osal.paths import COMPONENT, WHOLE, PathNames, fold, refusal
from scripts.store import archive, trees
from scripts.store.archive import discard_changed, supplied_files, unpack
from scripts.store.cache import Cache, manifest_path
from scripts.store.entries import Limits
from scripts.store.trees import Change, load_tree, require_intact, verify_tree

DLL = b"MZ" + bytes(range(256)) * 300
GOOD = {"pkg/nvcuda.dll": DLL, "pkg/sub/ä b.txt": b"hello", "pkg/empty": b""}


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Box:
    """A store, and an archive to put into it."""

    def __init__(self, folder: Path) -> None:
        self.cache = Cache(folder / "store")
        self.folder = folder

    def artifact(self, data: bytes, kind: ArtifactFormat, **changes: Any) -> Artifact:
        plain = Artifact(
            id="part-1.0",
            urls=("https://nowhere.invalid/part.bin",),
            sha256=sha(data),
            size=len(data),
            format=kind,
            root="pkg",
            license="MIT",
            source="nobody/part@1",
            trust=Trust.INDEPENDENT,
        )
        return replace(plain, **changes)

    def blob(self, artifact: Artifact, data: bytes) -> Path:
        self.cache.ensure()
        blob = self.cache.blob_path(artifact.sha256 or "")
        blob.parent.mkdir(exist_ok=True)
        blob.write_bytes(data)
        return blob

    def unpack(
        self, data: bytes, kind: ArtifactFormat, *, limits: Limits | None = None, **changes: Any
    ) -> Any:
        artifact = self.artifact(data, kind, **changes)
        blob = self.blob(artifact, data)
        return unpack(artifact, self.cache, blob, progress=NoProgress(), limits=limits)

    def trees(self) -> list[str]:
        return sorted(p.name for p in (self.cache.root / "trees-v1").iterdir())


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def zipped(members: dict[str, bytes], *, method: int = zipfile.ZIP_DEFLATED, mode: int = 0o644) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.filename = name  # Windows has made slashes of backslashes
            info.external_attr = (stat.S_IFREG | mode) << 16
            info.compress_type = method
            file.writestr(info, data)
    return out.getvalue()


def tarred(*members: tarfile.TarInfo | tuple[str, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:", format=form) as file:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                info, data = member, b""
            else:
                info, data = tarfile.TarInfo(member[0]), member[1]
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return gzip.compress(out.getvalue(), 1)


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


GOOD_ARCHIVES = {
    "zip": (zipped(GOOD), ArtifactFormat.ZIP),
    "stored-zip": (zipped(GOOD, method=zipfile.ZIP_STORED), ArtifactFormat.ZIP),
    "wheel": (zipped(GOOD), ArtifactFormat.WHEEL),
    "pax-tar": (tarred(*GOOD.items()), ArtifactFormat.TAR_GZ),
    "gnu-tar": (tarred(*GOOD.items(), form=tarfile.GNU_FORMAT), ArtifactFormat.TAR_GZ),
}


@pytest.mark.parametrize(("data", "kind"), GOOD_ARCHIVES.values(), ids=GOOD_ARCHIVES)
def test_a_good_archive_becomes_a_read_only_tree(box: Box, data: bytes, kind: ArtifactFormat) -> None:
    tree = box.unpack(data, kind)
    assert tree.path == box.cache.tree_path(sha(data))
    assert {file.path: (file.sha256, file.size) for file in tree.files} == {
        name: (sha(content), len(content)) for name, content in GOOD.items()
    }
    for name, content in GOOD.items():
        assert (tree.path / name).read_bytes() == content
        assert not (tree.path / name).stat().st_mode & 0o222
    assert verify_tree(tree, deep=True) == ()
    assert box.trees() == [sha(data), f"{sha(data)}.json"]


def test_a_raw_artifact_is_a_tree_of_one_file(box: Box) -> None:
    tree = box.unpack(DLL, ArtifactFormat.RAW, root="")
    assert [(file.path, file.sha256) for file in tree.files] == [("part.bin", sha(DLL))]
    member = Member(path="lib/nvcuda.dll", name="nvcuda.dll", sha256=sha(DLL))
    other = box.unpack(DLL + b"!", ArtifactFormat.RAW, members=(replace(member, sha256=None),))
    assert other.member(member).path == "pkg/lib/nvcuda.dll"


def test_a_second_unpack_does_nothing(box: Box) -> None:
    data, kind = GOOD_ARCHIVES["zip"]
    first = box.unpack(data, kind)
    artifact = box.artifact(data, kind)
    box.cache.blob_path(sha(data)).unlink()
    assert unpack(artifact, box.cache, Path("not there"), progress=NoProgress()) == first
    assert load_tree(artifact, box.cache) == first


@pytest.mark.posix_only
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_programs_stay_executable(box: Box, kind: str) -> None:
    if kind == "zip":
        tree = box.unpack(zipped({"pkg/run": b"x"}, mode=0o755), ArtifactFormat.ZIP)
    else:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w:") as file:
            file.addfile(entry("pkg/run", mode=0o755))
        tree = box.unpack(gzip.compress(out.getvalue()), ArtifactFormat.TAR_GZ)
    assert stat.S_IMODE((tree.path / "pkg/run").stat().st_mode) == 0o555


MEMBER = Member(path="nvcuda.dll", name="nvcuda.dll", sha256=sha(DLL), size=len(DLL))


@pytest.mark.parametrize(
    ("member", "what"),
    [
        (replace(MEMBER, path="absent.dll"), "missing: pkg/absent.dll"),
        (replace(MEMBER, sha256="0" * 64), "changed: pkg/nvcuda.dll (expected 0000"),
        (replace(MEMBER, size=1), "changed: pkg/nvcuda.dll (expected 1 bytes"),
    ],
    ids=["missing", "hash", "size"],
)
def test_pinned_members_are_checked(box: Box, member: Member, what: str) -> None:
    data, kind = GOOD_ARCHIVES["zip"]
    with pytest.raises(IntegrityError) as caught:
        box.unpack(data, kind, members=(MEMBER, member))
    assert caught.value.reference == "member-mismatch"
    assert len(caught.value.context) == 1
    assert caught.value.context[0].startswith(what)
    assert box.trees() == []
    tree = box.unpack(data, kind, members=(MEMBER,))
    assert tree.member(MEMBER).sha256 == MEMBER.sha256
    assert load_tree(box.artifact(data, kind, members=(member,)), box.cache) is None
    with pytest.raises(IntegrityError, match="there is no"):
        tree.member(replace(MEMBER, path="absent.dll"))


def test_a_stored_archive_that_rotted_is_removed_and_not_unpacked(box: Box) -> None:
    data, kind = GOOD_ARCHIVES["stored-zip"]
    artifact = box.artifact(data, kind)
    blob = box.blob(artifact, data + b"\0")
    with pytest.raises(IntegrityError) as caught:
        unpack(artifact, box.cache, blob, progress=NoProgress())
    assert caught.value.reference == "stored-archive-changed"
    assert box.trees() == []
    assert not blob.exists()


def test_a_changed_archive_that_a_program_holds_is_no_bug_of_ours(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = box.artifact(b"good", ArtifactFormat.RAW)
    blob = box.blob(artifact, b"bad!")

    def held(path: Path) -> None:
        raise PermissionError(13, "The process cannot access the file", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(fs, "remove", held)
        with pytest.raises(ConflictError) as caught:
            discard_changed(artifact, box.cache, progress=NoProgress())
    assert (caught.value.reference, blob.exists()) == ("store-in-use", True)
    discard_changed(artifact, box.cache, progress=NoProgress())
    assert not blob.exists()


def patched(data: bytes, offset: int, value: int, *, local: int | None = None) -> bytes:
    """Set a 16-bit field in every central header (and in every local one)."""
    changed = bytearray(data)
    for magic, where in ((b"PK\x01\x02", offset), (b"PK\x03\x04", local)):
        at = data.find(magic)
        while at >= 0 and where is not None:
            struct.pack_into("<H", changed, at + where, value)
            at = data.find(magic, at + 4)
    return bytes(changed)


def overlapping() -> bytes:
    """Two members in the directory, one local header."""
    data = zipped({"aa": b"1" * 99, "ab": b"1" * 99}, method=zipfile.ZIP_STORED)
    second = data.find(b"PK\x01\x02", data.find(b"PK\x01\x02") + 4)
    return data[: second + 42] + struct.pack("<L", 0) + data[second + 46 :]


def swallowing() -> bytes:
    """A member whose declared data reaches into the next member."""
    data = bytearray(zipped({"aa": b"1" * 99, "ab": b"1" * 99}, method=zipfile.ZIP_STORED))
    first = data.find(b"PK\x01\x02")
    struct.pack_into("<LL", data, first + 20, 150, 150)
    return bytes(data)


def shifted() -> bytes:
    """An end record that puts the directory further on than it is, and so the members before the file."""
    data = bytearray(STORED)
    at = data.find(b"PK\x05\x06") + 16
    struct.pack_into("<L", data, at, struct.unpack_from("<L", data, at)[0] + 9)
    return bytes(data)


def far_away() -> bytes:
    """A member further on than any file can be read at, which takes an extra field of 64 bits."""
    data = bytearray(STORED)
    at = data.find(b"PK\x01\x02")
    extra = struct.pack("<HHQ", 1, 8, 2**63 + 1)
    struct.pack_into("<H", data, at + 30, len(extra))
    struct.pack_into("<L", data, at + 42, 0xFFFFFFFF)
    data[at + 48 : at + 48] = extra
    end = data.find(b"PK\x05\x06") + 12
    struct.pack_into("<L", data, end, struct.unpack_from("<L", data, end)[0] + len(extra))
    return bytes(data)


def lying(size: int) -> bytes:
    """A member that declares another size than its packed data has."""
    data = bytearray(zipped({"aa": b"1" * 99}))
    struct.pack_into("<L", data, data.find(b"PK\x01\x02") + 24, size)
    return bytes(data)


def link_zip(mode: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        info = zipfile.ZipInfo("aa")
        info.external_attr = mode << 16
        file.writestr(info, b"/etc/passwd")
    return out.getvalue()


ZIP = GOOD_ARCHIVES["zip"][0]
STORED = zipped({"aa": b"hello!"}, method=zipfile.ZIP_STORED)
EVIL_ZIPS: dict[str, tuple[bytes, str]] = {
    "encrypted": (patched(ZIP, 8, 1), "encrypted"),
    "strong-encryption": (patched(ZIP, 8, 0x40), "encrypted"),
    "bzip2": (zipped({"aa": b"1"}, method=zipfile.ZIP_BZIP2), "compression"),
    "unknown-method": (patched(ZIP, 10, 99, local=8), "compression"),
    "symbolic-link": (link_zip(stat.S_IFLNK | 0o777), "link"),
    "device": (link_zip(stat.S_IFCHR | 0o600), "device"),
    "pipe": (link_zip(stat.S_IFIFO | 0o600), "device"),
    "setuid": (link_zip(stat.S_IFREG | 0o4755), "setuid"),
    "setgid": (link_zip(stat.S_IFREG | 0o2755), "setuid"),
    "wrong-crc": (STORED.replace(b"hello!", b"hallo!"), "wrong-crc"),
    "more-than-declared": (lying(98), "more-than-declared"),
    "less-than-declared": (lying(100), "less-than-declared"),
    "overlap": (overlapping(), "archive-damaged"),
    "swallow": (swallowing(), "overlap"),
    "before-the-file": (shifted(), "archive-damaged"),
    "behind-any-file": (far_away(), "archive-damaged"),
    "two-names": (zipped({"aa": b"1"}).replace(b"aa", b"ab", 1), "two-names"),
    "folder-with-data": (zipped({"aa/": b"1"}), "folder-with-data"),
    "broken-deflate": (zipped({"aa": bytes(999)}).replace(b"c`", b"\xff\xff", 1), "archive-damaged"),
    "not-a-zip": (b"PK\x03\x04 not really", "archive-damaged"),
    "truncated": (ZIP[: len(ZIP) // 2], "archive-damaged"),
    "nul": (zipped({"aXb": b"1"}).replace(b"aXb", b"a\0b"), "name-nul"),
    "bad-utf8": (zipped({"ä": b"1"}).replace("ä".encode(), b"\xff\xff"), "archive-damaged"),
}

LINK, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE
PLAIN_TAR = gzip.decompress(tarred(("aa", b"1" * 2000), ("ab", b"2")))


def broken_header() -> bytes:
    data = bytearray(PLAIN_TAR)
    data[512 + 2048] ^= 1
    return gzip.compress(bytes(data))


def sparse() -> bytes:
    info = entry("aa")
    info.pax_headers = {"GNU.sparse.major": "1"}
    return tarred(info)


def pax(records: bytes) -> bytes:
    header = entry("x", tarfile.XHDTYPE)
    header.size = len(records)
    block = header.tobuf(tarfile.USTAR_FORMAT) + records.ljust(512, b"\0")
    return gzip.compress(block + entry("aa").tobuf() + bytes(1024))


EVIL_TARS: dict[str, tuple[bytes, str]] = {
    "device": (tarred(entry("aa", tarfile.CHRTYPE)), "device"),
    "block-device": (tarred(entry("aa", tarfile.BLKTYPE)), "device"),
    "pipe": (tarred(entry("aa", tarfile.FIFOTYPE)), "device"),
    "contiguous": (tarred(entry("aa", tarfile.CONTTYPE)), "member-type"),
    "sparse": (sparse(), "member-type"),
    "setuid": (tarred(entry("aa", mode=0o4755)), "setuid"),
    "setgid": (tarred(entry("aa", mode=0o2755)), "setuid"),
    "link-absolute": (tarred(entry("aa", LINK, "/etc/passwd")), "link-outside"),
    "link-drive": (tarred(entry("aa", LINK, "C:/x")), "link-outside"),
    "link-backslash": (tarred(entry("aa", LINK, "..\\x")), "link-outside"),
    "link-parent": (tarred(entry("a/b", LINK, "../../x")), "link-outside"),
    "link-root": (tarred(entry("a/b", LINK, "..")), "link-outside"),
    "hard-link-parent": (tarred(entry("a/b", HARD, "../x")), "link-outside"),
    "link-dangling": (tarred(entry("aa", LINK, "ab")), "link-dangling"),
    "link-to-itself": (tarred(entry("aa", LINK, "aa")), "link-dangling"),
    "link-circle": (tarred(entry("aa", LINK, "ab"), entry("ab", LINK, "aa")), "link-dangling"),
    "link-to-folder": (tarred(("d/x", b"1"), entry("aa", LINK, "d")), "link-dangling"),
    "written-through": (tarred(entry("aa", LINK, "d"), ("aa/x", b"1")), "name-file-as-folder"),
    "link-over-file": (tarred(("aa", b"1"), entry("aa", LINK, "x")), "name-twice"),
    "broken-header": (broken_header(), "archive-damaged"),
    "truncated-tar": (gzip.compress(PLAIN_TAR[:1024]), "less-than-declared"),
    "truncated-header": (gzip.compress(PLAIN_TAR[:2700]), "archive-damaged"),
    "no-end-mark": (gzip.compress(PLAIN_TAR[:2560]), "archive-damaged"),
    "data-after-end": (gzip.compress(PLAIN_TAR + b"x"), "archive-damaged"),
    "truncated-gzip": (gzip.compress(PLAIN_TAR)[:-12], "archive-damaged"),
    "wrong-gzip-crc": (gzip.compress(PLAIN_TAR)[:-8] + bytes(8), "archive-damaged"),
    "not-gzip": (b"MZ" + bytes(600), "archive-damaged"),
    "pax-nonsense": (pax(b"99 path=x\n"), "archive-damaged"),
    "pax-zero-length": (pax(b"0 path=x\n"), "archive-damaged"),
    "pax-size": (pax(b"10 size=x\n"), "archive-damaged"),
    "pax-path": (pax(b"14 path=../xx\n"), "name-parent"),
    "not-unicode": (gzip.compress(PLAIN_TAR.replace(b"aa", b"\xff\xfe")), "archive-damaged"),
}


def refuses(box: Box, data: bytes, kind: ArtifactFormat, reference: str, **more: Any) -> ArchiveError:
    with pytest.raises(ArchiveError) as caught:
        box.unpack(data, kind, **more)
    assert (caught.value.code, caught.value.reference) == (ExitCode.ARCHIVE, reference)
    assert box.trees() == []
    return caught.value


@pytest.mark.parametrize(("data", "reference"), EVIL_ZIPS.values(), ids=EVIL_ZIPS)
def test_an_evil_zip_is_refused_and_leaves_nothing(box: Box, data: bytes, reference: str) -> None:
    refuses(box, data, ArtifactFormat.ZIP, reference)


@pytest.mark.parametrize(("data", "reference"), EVIL_TARS.values(), ids=EVIL_TARS)
def test_an_evil_tar_is_refused_and_leaves_nothing(box: Box, data: bytes, reference: str) -> None:
    refuses(box, data, ArtifactFormat.TAR_GZ, reference)


EVIL_NAMES: dict[str, tuple[str, str]] = {
    "absolute": ("/etc/passwd", "name-absolute"),
    "drive": ("C:/x", "name-drive"),
    "drive-relative": ("C:x", "name-drive"),
    "stream": ("x.dll:hidden", "name-drive"),
    "parent": ("a/../../x", "name-parent"),
    "only-parent": ("..", "name-parent"),
    "backslash": ("a\\..\\x", "name-backslash"),
    "unc": ("\\\\server\\x", "name-backslash"),
    "control": ("a\x1bb", "name-nul"),
    "newline": ("a\nb", "name-nul"),
    "c1": ("a\x9bb", "name-nul"),
    "empty-component": ("a//b", "name-empty-component"),
    "dot-component": ("a/./b", "name-empty-component"),
    "trailing-dot": ("a./b", "name-trailing"),
    "trailing-space": ("a/b ", "name-trailing"),
    "con": ("con", "name-reserved"),
    "aux-extension": ("x/AUX.tar.gz", "name-reserved"),
    "nul-space": ("nul .txt", "name-reserved"),
    "com-superscript": ("COM².x", "name-reserved"),
    "conout": ("CONOUT$", "name-reserved"),
    "wildcard": ("a?b", "name-wildcard"),
    "quote": ('a"b', "name-wildcard"),
    "long-component": ("ä" * 128, "name-long-component"),
    "long-path": ("abcdefgh/" * 120 + "x", "name-too-long"),
    "deep": ("a/" * 65 + "x", "name-too-deep"),
}


@pytest.mark.parametrize(("name", "reference"), EVIL_NAMES.values(), ids=EVIL_NAMES)
@pytest.mark.parametrize("kind", [ArtifactFormat.ZIP, ArtifactFormat.TAR_GZ])
def test_an_evil_name_is_refused(box: Box, kind: ArtifactFormat, name: str, reference: str) -> None:
    good, evil = ("good", b"1"), (name, b"2")
    data = zipped(dict([good, evil])) if kind is ArtifactFormat.ZIP else tarred(good, evil)
    error = refuses(box, data, kind, reference)
    assert error.message.isprintable()


def test_the_table_of_refusals_has_a_case_for_each_rule() -> None:
    shown = {reference for _, reference in EVIL_NAMES.values()}
    assert {rule.reference for rule in (*WHOLE, *COMPONENT)} - shown == {"name-empty", "name-not-unicode"}
    assert (refusal("") or WHOLE[1]).reference == "name-empty"
    assert (refusal("a\udcff") or WHOLE[0]).reference == "name-not-unicode"


COLLISIONS: dict[str, tuple[list[str], str]] = {
    "case": (["a/Foo.dll", "a/foo.DLL"], "name-collision"),
    "folder-case": (["Lib/a", "lib/b"], "name-collision"),
    "sharp-s": (["straße", "STRASSE"], "name-collision"),
    "normal-form": ([unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é")], "name-collision"),
    "twice": (["a", "a"], "name-twice"),
    "file-as-parent": (["a", "a/b"], "name-file-as-folder"),
    "parent-as-file": (["a/b", "a"], "name-file-as-folder"),
}


@pytest.mark.parametrize(("names", "reference"), COLLISIONS.values(), ids=COLLISIONS)
def test_names_that_may_be_one_file_are_refused(
    box: Box, monkeypatch: pytest.MonkeyPatch, names: list[str], reference: str
) -> None:
    monkeypatch.setattr("scripts.osal.fs.is_case_sensitive", lambda _folder: False)
    refuses(box, tarred(*((name, b"1") for name in names)), ArtifactFormat.TAR_GZ, reference)


@pytest.mark.posix_only
def test_a_tar_may_tell_names_apart_by_case_where_the_volume_does(box: Box) -> None:
    data = tarred(("zluda/libcublaslt.so", b"one"), ("zluda/libcublasLt.so", b"two"))
    tree = box.unpack(data, ArtifactFormat.TAR_GZ)
    assert {file.path: (tree.path / file.path).read_bytes() for file in tree.files} == {
        "zluda/libcublaslt.so": b"one",
        "zluda/libcublasLt.so": b"two",
    }


@pytest.mark.parametrize("kind", ["twice", "normal-form", "file-as-parent"])
def test_a_volume_that_tells_case_apart_excuses_nothing_else(
    box: Box, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("scripts.osal.fs.is_case_sensitive", lambda _folder: True)
    names, reference = COLLISIONS[kind]
    refuses(box, tarred(*((name, b"1") for name in names)), ArtifactFormat.TAR_GZ, reference)


def test_the_volume_is_asked(tmp_path: Path) -> None:
    (tmp_path / "Name").write_bytes(b"")
    assert fs.is_case_sensitive(tmp_path) is not (tmp_path / "nAME").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["Name"]


def test_folders_may_be_named_twice_and_dot_is_the_root(box: Box) -> None:
    folder = entry("./pkg/", tarfile.DIRTYPE)
    data = tarred(entry("./", tarfile.DIRTYPE), folder, ("./pkg/x", b"1"), folder, ("pkg/y", b"2"))
    assert [file.path for file in box.unpack(data, ArtifactFormat.TAR_GZ).files] == ["pkg/x", "pkg/y"]


PATHS = st.lists(
    st.lists(st.sampled_from([*"aAßé./ \\:~", "e\u0301", "\0", "con"]), max_size=5).map("".join), max_size=6
)


@pytest.mark.slow
@given(names=PATHS)
@settings(max_examples=300)
def test_what_is_admitted_stays_inside_and_never_collides(names: list[str]) -> None:
    admitted, register = [], PathNames()
    for name in names:
        try:
            admitted.append(register.admit(name, folder=False))
        except ArchiveError:
            register = PathNames()
            admitted = []
    for name in admitted:
        assert os.path.normpath(f"/root/{name}").startswith(f"{os.sep}root{os.sep}")
        assert not set(name) & set("\\:\0")
        assert ".." not in name.split("/")
    folds = {fold(name) for name in admitted}
    assert len(folds) == len(admitted)


SMALL = Limits(total=1000, members=3, ratio=10, floor=100)
BOMBS: dict[str, tuple[bytes, ArtifactFormat]] = {
    "zip-ratio": (zipped({"a": bytes(900)}), ArtifactFormat.ZIP),
    "zip-total": (zipped({"a": os.urandom(600), "b": os.urandom(600)}), ArtifactFormat.ZIP),
    "zip-members": (zipped(dict.fromkeys("abcd", b"")), ArtifactFormat.ZIP),
    "tar-total": (tarred(("a", os.urandom(600)), ("b", os.urandom(600))), ArtifactFormat.TAR_GZ),
    "tar-members": (tarred(*((name, b"") for name in "abcd")), ArtifactFormat.TAR_GZ),
    "tar-ratio": (tarred(("a", bytes(999)), ("b", bytes(999)), ("c", bytes(999))), ArtifactFormat.TAR_GZ),
    "tar-hard-links": (
        tarred(("a", os.urandom(600)), entry("b", HARD, "a")),
        ArtifactFormat.TAR_GZ,
    ),
}


@pytest.mark.parametrize(("data", "kind"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused(box: Box, data: bytes, kind: ArtifactFormat) -> None:
    refuses(box, data, kind, "archive-bomb", limits=SMALL)


def test_a_real_library_full_of_zeros_is_no_bomb(box: Box) -> None:
    data = zipped({"zeros": bytes(30_000_000)})
    assert box.unpack(data, ArtifactFormat.ZIP).files[0].size == 30_000_000


LINKED = tarred(
    entry("pkg/lib/libcuda.so", LINK, "libcuda.so.1"),
    entry("pkg/lib/libcuda.so.1", LINK, "./libcuda.so.1.0"),
    ("pkg/lib/libcuda.so.1.0", DLL),
    entry("pkg/bin/same", HARD, "pkg/lib/libcuda.so.1.0"),
    entry("pkg/bin/up", LINK, "../lib/libcuda.so"),
)


def test_links_inside_an_archive_lead_to_their_files(box: Box) -> None:
    tree = box.unpack(LINKED, ArtifactFormat.TAR_GZ)
    assert len(tree.files) == 5
    for file in tree.files:
        assert (tree.path / file.path).read_bytes() == DLL
        assert (file.sha256, file.size) == (sha(DLL), len(DLL))
    assert verify_tree(tree, deep=True) == ()


@pytest.mark.posix_only
def test_a_link_that_is_bent_is_found(box: Box) -> None:
    tree = box.unpack(LINKED, ArtifactFormat.TAR_GZ)
    link = tree.path / "pkg/lib/libcuda.so"
    assert str(link.readlink()) == "libcuda.so.1"
    link.unlink()
    link.symlink_to("/etc/passwd")
    (tree.path / "pkg/bin/same").unlink()
    (tree.path / "pkg/bin/same").symlink_to("../lib/libcuda.so.1.0")
    assert [(f.path, f.detail) for f in verify_tree(tree, deep=False)] == [
        ("pkg/bin/same", "has become a link"),
        ("pkg/lib/libcuda.so", "leads elsewhere"),
    ]


def test_long_member_names_arrive(box: Box) -> None:
    name = "/".join(["folder-with-a-long-name"] * 9) + "/" + "ü" * 60
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        tree = box.unpack(tarred((name, str(form).encode()), form=form), ArtifactFormat.TAR_GZ)
        assert [file.path for file in tree.files] == [name]
        assert verify_tree(tree, deep=True) == ()
    fs.remove_tree(box.cache.root)
    assert not box.cache.root.exists()


def rewrite(path: Path, data: bytes, *, keep_time: bool = False) -> None:
    before = path.stat()
    path.chmod(0o600)
    path.write_bytes(data)
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, tuple[Callable[[Path], None], bool, Change]] = {
    "same-size-same-time": (lambda p: rewrite(p, DLL[::-1], keep_time=True), True, Change.CHANGED),
    "same-size": (lambda p: rewrite(p, DLL[::-1]), False, Change.CHANGED),
    "other-size": (lambda p: rewrite(p, DLL[:-1], keep_time=True), False, Change.CHANGED),
    "vanished": (fs.remove, False, Change.MISSING),
}


@pytest.mark.parametrize(("change", "deep", "kind"), CHANGES.values(), ids=CHANGES)
def test_tampering_is_found(box: Box, change: Callable[[Path], None], deep: bool, kind: Change) -> None:
    data, form = GOOD_ARCHIVES["zip"]
    tree = box.unpack(data, form)
    change(tree.path / "pkg/nvcuda.dll")
    findings = verify_tree(tree, deep=deep)
    assert [(f.path, f.change) for f in findings] == [("pkg/nvcuda.dll", kind)]
    if deep:
        assert verify_tree(tree, deep=False) == ()
    with pytest.raises(StagedFileError) as caught:
        require_intact(tree, findings)
    assert caught.value.reference == f"staged-file-{kind if kind is Change.MISSING else Change.CHANGED}"
    assert "pkg/nvcuda.dll" in caught.value.context[0]


def test_a_vanished_file_is_explained_without_switching_protection_off(box: Box) -> None:
    tree = box.unpack(*GOOD_ARCHIVES["zip"])
    fs.remove(tree.path / "pkg/nvcuda.dll")
    with pytest.raises(StagedFileError) as caught:
        require_intact(tree, verify_tree(tree, deep=False))
    hint = caught.value.hint.lower()
    assert "quarantine" in hint
    assert not any(word in hint for word in ("disable", "turn off", "switch off", "exclusion"))


def test_a_file_slipped_into_a_tree_is_found(box: Box) -> None:
    tree = box.unpack(*GOOD_ARCHIVES["zip"])
    (tree.path / "pkg/version.dll").write_bytes(b"MZ")
    (finding,) = verify_tree(tree, deep=False)
    assert (finding.path, finding.change) == ("pkg/version.dll", Change.SURPLUS)
    with pytest.raises(StagedFileError, match="not what was verified"):
        require_intact(tree, (finding,))


def test_an_archive_hashed_as_it_arrived_is_not_read_for_that_again(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, kind = GOOD_ARCHIVES["zip"]
    artifact = box.artifact(data, kind)
    blob = box.blob(artifact, data)
    read: list[Path] = []
    whole = fs.hash_file
    monkeypatch.setattr(fs, "hash_file", lambda path, **more: read.append(path) or whole(path, **more))
    unpack(artifact, box.cache, blob, progress=NoProgress(), hashed=True)
    assert read == []
    fs.remove_tree(box.cache.tree_path(sha(data)))
    unpack(artifact, box.cache, blob, progress=NoProgress())
    assert read == [blob]


def test_a_damaged_tree_is_made_anew(box: Box) -> None:
    data, kind = GOOD_ARCHIVES["zip"]
    tree = box.unpack(data, kind)
    fs.remove(tree.path / "pkg/nvcuda.dll")
    assert box.unpack(data, kind) != tree
    assert (tree.path / "pkg/nvcuda.dll").read_bytes() == DLL


def test_files_that_vanish_at_once_are_an_error(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    def scanner(tree: trees.UnpackedTree) -> trees.UnpackedTree:
        saved = trees.save_tree(tree)
        fs.remove(tree.path / "pkg/nvcuda.dll")
        return saved

    monkeypatch.setattr(archive, "save_tree", scanner)
    with pytest.raises(StagedFileError) as caught:
        box.unpack(*GOOD_ARCHIVES["zip"])
    assert caught.value.reference == "staged-file-missing"


MANIFESTS = {
    "empty": b"",
    "not-json": b"{",
    "list": b"[]",
    "other-format": b'{"format":2,"files":[]}',
    "escape": b'{"format":1,"files":[["../../x","00",1,1,""]]}',
    "types": b'{"format":1,"files":[[1,2,3,4,5]]}',
    "too-deep": b"[" * 100_000,
}


@pytest.mark.parametrize("text", MANIFESTS.values(), ids=MANIFESTS)
def test_a_manifest_that_cannot_be_trusted_counts_as_none(box: Box, text: bytes) -> None:
    data, kind = GOOD_ARCHIVES["zip"]
    tree = box.unpack(data, kind)
    manifest_path(tree.path).write_bytes(text)
    assert load_tree(box.artifact(data, kind), box.cache) is None
    again = box.unpack(data, kind)
    assert [f.path for f in again.files] == [f.path for f in tree.files]


def test_what_a_killed_run_left_is_cleared_away(box: Box) -> None:
    data, kind = GOOD_ARCHIVES["zip"]
    artifact = box.artifact(data, kind)
    box.cache.ensure()
    half = box.cache.tree_path(sha(data))
    (half / "pkg").mkdir(parents=True)
    (half / "pkg/nvcuda.dll").write_bytes(b"half")
    work = half.with_name(f".{half.name}.00ff.tmp")
    work.mkdir()
    (work / "x").write_bytes(b"half")
    assert load_tree(artifact, box.cache) is None
    tree = box.unpack(data, kind)
    assert verify_tree(tree, deep=True) == ()
    assert box.trees() == [half.name, f"{half.name}.json"]


def test_a_tree_that_does_not_fit_is_refused_first(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fs, "free_space", lambda _: 100)
    with pytest.raises(FetchError) as caught:
        box.unpack(*GOOD_ARCHIVES["zip"])
    assert caught.value.reference == "no-space"
    assert box.trees() == []


CHILD = """
import sys
from pathlib import Path
sys.path[:0] = [sys.argv[1]]
from tests.test_store_archive import *
box = Box(Path(sys.argv[2]))
data, kind = GOOD_ARCHIVES["zip"]
artifact = box.artifact(data, kind)
unpack(artifact, box.cache, box.cache.blob_path(sha(data)), progress=NoProgress())
"""


@pytest.mark.slow
def test_two_processes_unpack_one_tree(box: Box) -> None:
    data, kind = GOOD_ARCHIVES["zip"]
    artifact = box.artifact(data, kind)
    box.blob(artifact, data)
    root = Path(__file__).resolve().parents[1]
    command = [sys.executable, "-c", CHILD, str(root), str(box.folder)]
    children = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait(60) for process in children] == [0, 0]
    tree = load_tree(artifact, box.cache)
    assert tree is not None
    assert verify_tree(tree, deep=True) == ()


SUPPLIED = (
    Member(path="one.dll", name="one.dll", sha256=sha(b"1"), size=1),
    Member(path="two.dll", name="two.dll", sha256=sha(b"2")),
    Member(path="three.dll", name="three.dll", sha256=sha(b"3")),
)


def overlay(box: Box) -> Artifact:
    none: dict[str, Any] = {"sha256": None, "size": None, "urls": (), "root": ""}
    return box.artifact(b"", ArtifactFormat.SUPPLIED, members=SUPPLIED, note="Bring it.", **none)


def supplied(box: Box, **contents: bytes) -> trees.UnpackedTree:
    folder = box.folder / "overlay"
    folder.mkdir()
    for name, data in contents.items():
        (folder / f"{name}.dll").write_bytes(data)
    return supplied_files(overlay(box), folder)


def test_supplied_files_are_verified_and_surplus_ones_listed(box: Box) -> None:
    tree = supplied(box, one=b"1", two=b"2", three=b"3", four=b"4")
    assert [file.path for file in tree.files] == ["one.dll", "two.dll", "three.dll"]
    assert tree.surplus == ("four.dll",)
    assert verify_tree(tree, deep=True) == ()
    (box.folder / "overlay/two.dll").write_bytes(b"x")
    assert [f.path for f in verify_tree(tree, deep=True)] == ["two.dll"]


def test_missing_changed_and_surplus_supplied_files_are_each_named(box: Box) -> None:
    with pytest.raises(IntegrityError) as caught:
        supplied(box, one=b"1", two=b"x", four=b"4")
    assert caught.value.reference == "supplied-files-differ"
    assert caught.value.context == (
        f"changed: two.dll (expected {sha(b'2')}, got {sha(b'x')})",
        "missing: three.dll (pinned, but not in there)",
        "surplus: four.dll (not part of it)",
    )
    assert caught.value.hint == "Bring it."


def test_a_folder_that_does_not_exist_lacks_every_file(box: Box) -> None:
    with pytest.raises(IntegrityError) as caught:
        supplied_files(overlay(box), box.folder / "nowhere")
    assert len(caught.value.context) == 3

"""The matrix as a site: what it says, that documents cannot break it, that it is the same every time."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from scripts.app.context import Workspace
from scripts.app.matrix import MatrixResult, matrix
from scripts.cli.parse import Call, read_line
from scripts.errors import UsageError
from scripts.evidence.document import Provenance
from scripts.evidence.matrix import Matrix
from scripts.evidence.merging import CellKey
from scripts.model import Level, Outcome
from scripts.site.changes import build_of, changes_between, dump_build, read_build
from scripts.site.data import MOST_DOCUMENTS, detail_file, listed_observations
from scripts.site.files import CONTRIBUTE, FIRST_VIEW, SOURCE, site_files
from tests.checkout import ROOT, workspace_in
from tests.site_matrices import (
    HOSTILE,
    content,
    fact,
    hash_of,
    hostile_matrix,
    large_matrix,
    matrix_of,
    result,
)

GEMM = CellKey("gfx1200", "zluda-v6p69-sdk64", "", "cublas gemm")
REPORTED = Provenance.REPORTED


def files_of(shown: Matrix) -> dict[str, bytes]:
    """All files of a first build."""
    made = content(shown)
    return site_files(made, build_of(made.cells, documents=len(shown.documents)), None, None)


def data_of(files: Mapping[str, bytes], name: str) -> Any:
    """What a data file hands over."""
    text = files[f"data/{name}.js"].decode("ascii")
    head = f'matrixChunk("{name}",'
    assert text.startswith(head)
    assert text.endswith(");\n")
    return json.loads(text[len(head) : -3])


class Page(HTMLParser):
    """The elements of a page: tags, attributes, text."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(raw.decode("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def all_addresses(page: Page) -> set[str]:
    return {
        str(value) for _, given in page.elements for name, value in given.items() if name in {"href", "src"}
    }


def test_no_text_of_a_document_becomes_markup() -> None:
    page = Page(files_of(hostile_matrix())["index.html"])
    plain = Page(files_of(matrix_of((), ()))["index.html"])
    assert {tag for tag, _ in page.elements} - {tag for tag, _ in plain.elements} <= {
        "td",
        "span",
        "br",
        "ul",
        "li",
    }
    assert [given for tag, given in page.elements if tag == "script"] == [
        given for tag, given in plain.elements if tag == "script"
    ]
    names = {name for _, given in page.elements for name in given}
    assert not [name for name in names if name.startswith("on") or name == "style"]
    inside = re.compile(r"#[\w/%.!~*'()?-]*|data/[\w.-]+|data:,|[a-z]+\.(?:css|js)")
    assert [each for each in all_addresses(page) if not inside.fullmatch(each)] == []
    for text in HOSTILE[:5]:
        assert text in page.text
    assert not re.search("[\u202e\u2066\u200b\u2028\u0007]", page.text)


def test_no_text_of_a_document_leaves_its_data_file() -> None:
    files = files_of(hostile_matrix())
    for name, raw in files.items():
        if name.endswith(".js") and name.startswith("data/"):
            assert b"<" not in raw
            data_of(files, name.removeprefix("data/").removesuffix(".js"))
    shown = data_of(files, "start")
    assert set(HOSTILE) <= {gpu["id"] for gpu in shown["gpus"]}


def test_no_name_of_a_document_becomes_a_path() -> None:
    for name in files_of(hostile_matrix()):
        assert re.fullmatch(r"(?:data/)?[a-z0-9][a-z0-9.-]*\.(?:js|css|html|json)", name)
    assert detail_file("CON", "nul").startswith("on-x")
    assert detail_file("gfx1200", "zluda-v6-sdk64") == "on-gfx1200--zluda-v6-sdk64"
    assert detail_file("a--b", "c") != detail_file("a", "b--c")


def test_the_page_asks_for_nothing_but_its_own_files() -> None:
    files = files_of(matrix_of((), ()))
    page = Page(files["index.html"])
    policy = next(given["content"] for tag, given in page.elements if given.get("http-equiv"))
    assert str(policy).startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in str(policy)
    loaded = {
        given.get("src") or given.get("href") for tag, given in page.elements if tag in {"script", "link"}
    }
    assert loaded - {"data:,"} == set(FIRST_VIEW) - {"index.html"}
    for name in FIRST_VIEW:
        used = re.sub(rb"http://www\.w3\.org/2000/svg", b"", files[name])
        assert not re.search(rb"(?:url\(|@import|fetch\(|XMLHttp|innerHTML|document\.write|eval\()", used), (
            name
        )


@pytest.mark.parametrize("words", [Level, Outcome, Provenance])
def test_every_word_is_explained(words: type[Level | Outcome | Provenance]) -> None:
    template = (SOURCE / "index.html").read_text(encoding="utf-8")
    for word in words:
        assert re.search(rf"<dt>(?:<span [^>]*>)?{word.value}(?:</span>)?</dt>", template), word


def test_what_was_reported_never_looks_measured() -> None:
    seen = [(GEMM, result("a", who=REPORTED)), (GEMM._replace(gpu="gfx1100"), result("b"))]
    documents = (fact("a", who=REPORTED), fact("b", gpu="gfx1100"))
    page = files_of(matrix_of(seen, documents))["index.html"].decode()
    rows = {
        gpu: row for gpu in ("gfx1200", "gfx1100") for row in page.splitlines() if f">{gpu}</a></th>" in row
    }
    assert '<span class="mark reported pass">functional</span>reported' in rows["gfx1200"]
    assert '<span class="mark measured pass">functional</span>measured' in rows["gfx1100"]
    assert 'reported: <span class="mark reported pass">1 functional</span>' in page


def test_what_is_simulated_is_counted_apart_and_in_no_table() -> None:
    documents = [fact("a"), fact("b", why_not="simulated"), fact("c", why_not="custom-lock")]
    page = files_of(matrix_of([(GEMM, result("a"))], documents))["index.html"].decode()
    assert "1 document about 1 GPU: 1 measured" in page
    assert "1 document more simulated on the CPU reference: not in the tables." in page
    assert page.count('<tr role="row"><th role="rowheader"') == 2


def test_failures_and_conflicts_stay_visible() -> None:
    seen = [
        (GEMM, result("good", day="2026-10-01")),
        (GEMM, result("bad", outcome=Outcome.INCORRECT, level=Level.LOADABLE, day="2026-10-02")),
    ]
    files = files_of(matrix_of(seen, (fact("good"), fact("bad"))))
    page = files["index.html"].decode()
    assert '<span class="mark measured fail">incorrect</span>measured, reached loadable' in page
    assert '<span class="mark conflict">conflict</span>' in page
    (cell,) = data_of(files, "on-gfx1200--zluda-v6p69-sdk64")["cells"].values()
    assert [len(cell["results"]), cell["hidden"], cell["rests"]] == [2, 0, 0]


def test_a_long_list_keeps_both_sides_and_what_the_cell_rests_on() -> None:
    many = [(GEMM, result(f"new {n}", day=f"2026-11-{n + 1:02}", level=Level.LOADABLE)) for n in range(20)]
    old = [
        (GEMM, result("failed", day="2026-01-01", outcome=Outcome.ERROR, level=None)),
        (GEMM, result("best", day="2026-02-01", level=Level.INTEGRATED)),
    ]
    (cell,) = matrix_of([*many, *old], ()).cells
    listed = [o.document for o in listed_observations(cell)]
    assert cell.document == hash_of("best")
    assert listed[-2:] == [hash_of("best"), hash_of("failed")]
    assert len(listed) == MOST_DOCUMENTS + 2


def test_a_gpu_without_documents_is_named_and_nothing_is_claimed_for_it() -> None:
    page = files_of(matrix_of([(GEMM, result("a"))], [fact("a")]))["index.html"].decode()
    rest = page.partition("Architectures without any document")[2].partition("</details>")[0]
    assert ">gfx1100</a>" in rest
    assert "gfx1200" not in rest


def test_the_first_rows_stand_in_the_page_itself() -> None:
    page = files_of(large_matrix(60))["index.html"].decode()
    table = page.partition('id="cells"')[2].partition("</table>")[0]
    assert table.count('<tr role="row"><th role="rowheader"') == 100
    assert "the first 100 are shown" in page


@pytest.mark.proof
def test_the_first_view_is_small_with_ten_thousand_documents() -> None:
    files = files_of(large_matrix(10_000))
    assert sum(len(files[name]) for name in FIRST_VIEW) < 300_000
    assert max(len(raw) for name, raw in files.items() if name.endswith(".js")) < 300_000


@pytest.mark.parametrize("command", CONTRIBUTE)
def test_what_the_page_lets_people_type_can_be_read(command: str) -> None:
    python, _, words = command.partition(" -m scripts ")
    assert python == "python3"
    assert isinstance(read_line(words.split()), Call)


# ---- builds that follow one another ----


def test_changes_are_named_worse_ones_first() -> None:
    keys = {
        name: GEMM._replace(capability=name)
        for name in ("same", "better", "worse", "gone", "new", "contested")
    }
    first = [(key, result(name)) for name, key in keys.items() if name != "new"]
    later = [
        (keys["same"], result("same")),
        (keys["same"], result("again", day="2026-10-02")),
        (keys["better"], result("b", level=Level.INTEGRATED)),
        (keys["worse"], result("w", outcome=Outcome.INCORRECT, level=Level.LOADABLE)),
        (keys["new"], result("n")),
        (keys["contested"], result("c", day="2026-10-02")),
        (keys["contested"], result("d", outcome=Outcome.ERROR, level=None)),
    ]
    before, now = (build_of(matrix_of(seen, ()).cells, documents=1) for seen in (first, later))
    changes = changes_between(before, now)
    assert [(change.kind.value, change.capability) for change in changes] == [
        ("worse", "worse"),
        ("better", "better"),
        ("changed", "contested"),
        ("gone", "gone"),
        ("new", "new"),
    ]
    assert (changes[0].before, changes[0].now) == ("functional (measured)", "incorrect (measured)")
    assert changes[2].now == "functional (measured), documents disagree"
    assert changes_between(now, now) == ()


class Watched(tuple[Any, ...]):
    """Items that count how often all of them are gone through."""

    __slots__ = ()
    passes: ClassVar[list[int]] = []

    def __iter__(self) -> Iterator[Any]:
        self.passes.append(len(self))
        return super().__iter__()


def test_no_gpu_costs_a_look_at_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a build follows the number of cells, not that number times the number of GPUs."""
    monkeypatch.setattr(Watched, "passes", [])
    shown = large_matrix(400)
    made = content(replace(shown, documents=Watched(shown.documents)))
    assert len(made.gpus) > 20
    made.__dict__["cells"] = Watched(made.cells)
    site_files(made, build_of((), documents=0), None, None)
    assert 0 < len(Watched.passes) < 20


def test_a_build_can_be_kept_and_read() -> None:
    build = build_of(large_matrix(20).cells, documents=20)
    assert read_build(dump_build(build)) == build
    assert read_build(dump_build(build_of(hostile_matrix().cells, documents=8))) is not None


@pytest.mark.parametrize("raw", [None, b"", b"{", b"[]", b'{"format": 2, "documents": 1, "cells": []}'])
def test_what_is_no_build_is_none(raw: bytes | None) -> None:
    assert read_build(raw) is None


# ---- the task ----


def workspace(root: Path) -> Workspace:
    (root / "pins.lock").write_bytes((ROOT / "pins.lock").read_bytes())
    (root / "evidence").mkdir()
    return workspace_at(root)


def workspace_at(root: Path) -> Workspace:
    """The workspace of a checkout that exists."""
    return workspace_in(root)


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., MatrixResult]:
    """Build the site of the named committed documents, one after the other in the same folder."""
    ws = workspace(tmp_path)

    def built(*names: str) -> MatrixResult:
        for old in ws.evidence.iterdir():
            old.unlink()
        for name in names:
            (ws.evidence / name).write_bytes((ROOT / "evidence" / name).read_bytes())
        return matrix(ws)

    return built


FIRST = "2026-09-13-zluda-v6p69-sdk64-gfx1200-check.json"
SECOND = "2026-09-15-zluda-v6p69-sdk64-gfx1200-torch.json"
OTHER_GPU = "2026-11-30-native-cuda-h200.json"


def test_what_to_use_is_said_of_each_system(build: Callable[..., MatrixResult], tmp_path: Path) -> None:
    build(SECOND)
    text = (tmp_path / "docs" / "site" / "data" / "start.js").read_bytes()
    gpus = {gpu["id"]: gpu["advice"] for gpu in data_of({"data/start.js": text}, "start")["gpus"]}
    assert set(gpus["gfx1200"]) == {"Windows", "Linux"}
    assert "zluda-v6p69-sdk64" in gpus["gfx1200"]["Windows"]
    assert "Windows only" not in gpus["gfx1200"]["Windows"]
    assert gpus["gfx1200"]["Linux"].endswith(" on Windows only: zluda-v6p69-sdk64")


def snapshot(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_the_same_documents_give_the_same_bytes(build: Callable[..., MatrixResult]) -> None:
    first = build(FIRST)
    before = snapshot(first.folder)
    assert build(FIRST).changes is None
    assert snapshot(first.folder) == before
    later = build(FIRST, SECOND)
    assert later.kinds == {"new": 5}
    after = snapshot(first.folder)
    assert build(FIRST, SECOND).kinds == {"new": 5}, (
        "a build of the same documents is compared with the same one"
    )
    assert snapshot(first.folder) == after
    assert len(json.loads(after["data/changes.json"])) == 5
    assert b"Results: 5 new." in after["index.html"]


def test_data_files_that_are_no_longer_needed_go_and_nothing_else(build: Callable[..., MatrixResult]) -> None:
    folder = build(FIRST, OTHER_GPU).folder
    (folder / "data" / "mine.js").write_text("kept", encoding="utf-8")
    (folder / "CNAME").write_text("kept", encoding="utf-8")
    gone = set(snapshot(folder)) - set(snapshot(build(FIRST).folder))
    assert len(gone) == 2
    assert all(re.fullmatch(r"data/(?:gpu|on)-x[0-9a-f]+(?:--native-cuda)?\.js", name) for name in gone)


@pytest.mark.parametrize("what", ["empty marker", "list", "file", "data is a file", "index is a folder"])
def test_what_only_looks_like_a_site_is_left_alone(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "mine"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "gpu-mine.js").write_text("mine", encoding="utf-8")
    marker = folder / "data" / "this-build.json"
    marker.write_text("[]" if what == "list" else "{}", encoding="utf-8")
    if what in {"file", "data is a file"}:
        shutil.rmtree(folder)
        if what == "data is a file":
            folder.mkdir()
        (folder if what == "file" else folder / "data").write_text("mine", encoding="utf-8")
    if what == "index is a folder":
        marker.write_text('{"format": 1, "documents": 0, "cells": []}', encoding="utf-8")
        (folder / "index.html").mkdir()
    ws = workspace(tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(UsageError) as caught:
        matrix(ws, output=str(folder))
    assert caught.value.reference == "not-a-site"
    assert snapshot(tmp_path) == before


@pytest.mark.posix_only
def test_a_link_in_place_of_the_data_is_not_followed(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "site"
    victim.mkdir()
    folder.mkdir()
    (victim / "this-build.json").write_text('{"format": 1, "documents": 0, "cells": []}', encoding="utf-8")
    (victim / "gpu-x1.js").write_text("mine", encoding="utf-8")
    (folder / "data").symlink_to(victim)
    with pytest.raises(UsageError) as caught:
        matrix(workspace(tmp_path), output=str(folder))
    assert caught.value.reference == "not-a-site"
    assert sorted(path.name for path in victim.iterdir()) == ["gpu-x1.js", "this-build.json"]


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "photos"
    other.mkdir()
    (other / "index.html").write_text("mine", encoding="utf-8")
    ws = workspace(tmp_path)
    with pytest.raises(UsageError) as caught:
        matrix(ws, output=str(other))
    assert caught.value.reference == "not-a-site"
    assert snapshot(other) == {"index.html": b"mine"}


def type_matrix(folder: Path, *more: str, seed: str = "1") -> str:
    """Type the task in this checkout and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "scripts", "matrix", f"--output={folder}", *more],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
        capture_output=True,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return done.stdout.decode("utf-8")


@pytest.mark.slow
def test_the_task_says_what_it_wrote(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    shown = type_matrix(folder)
    assert "the first build in this folder" in shown
    assert str(folder / "index.html") in shown
    again = json.loads(type_matrix(folder, "--json"))
    assert again["changes"] is None
    assert again["first_view"] < 300_000
    assert again["files"] == len(snapshot(folder))


def test_the_bytes_do_not_depend_on_the_order_of_sets(tmp_path: Path) -> None:
    for seed in "12":
        type_matrix(tmp_path / seed, seed=seed)
    assert snapshot(tmp_path / "1") == snapshot(tmp_path / "2")


def test_what_is_no_document_is_named(build: Callable[..., MatrixResult], tmp_path: Path) -> None:
    build(FIRST)
    (tmp_path / "evidence" / "bad.json").write_text('{"<b>": 1}', encoding="utf-8")
    result_ = matrix(workspace_at(tmp_path))
    assert [fault.path for fault in result_.faults] == ["evidence/bad.json"]
    page = (result_.folder / "index.html").read_text(encoding="utf-8")
    assert "1 file that cannot be read as a document" in page
    assert "<b>" not in page

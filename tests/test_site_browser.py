"""The site in a real browser: search, filters, addresses, keyboard, accessibility, hostile documents."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.app.advice import find_gpu
from scripts.app.matrix import write_site
from scripts.evidence.document import Provenance
from scripts.evidence.matrix import FigurePoint, Matrix
from scripts.evidence.merging import CellKey
from scripts.host.gpu import named_models
from scripts.site.changes import build_of, changes_between
from scripts.site.files import site_files
from tests.browser import Browser, chromium
from tests.checkout import ROOT
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

pytestmark = [
    pytest.mark.proof,
    pytest.mark.browser,
    pytest.mark.skipif(chromium() is None, reason="no Chromium here (Debian: apt-get install chromium)"),
]
#: The rules of axe-core come in a package of the test lock.
_AXE = importlib.util.find_spec("axe_core_python")
HIP_INFO = """
--------------------------------------------------------------------------------
device#                           0
Name:                             AMD Radeon RX 5700
pciBusID:                         200
totalGlobalMem:                   7.98 GB
gcnArchName:                      gfx1010:xnack-
"""


def write(folder: Path, shown: Matrix) -> Path:
    """Write the site of a matrix, with an empty build before it."""
    made = content(shown)
    now, before = build_of(made.cells, documents=len(shown.documents)), build_of((), documents=0)
    write_site(folder, site_files(made, now, before, changes_between(before, now)))
    return folder


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three hundred documents: more rows than the page itself holds."""
    return write(tmp_path_factory.mktemp("site"), large_matrix(300))


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("ten"), large_matrix(10))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("hostile"), hostile_matrix())


def go(browser: Browser, folder: Path, address: str = "", **how: Any) -> None:
    """Open a page of the site and wait until it stands."""
    browser.open((folder / "index.html").as_uri() + address, **how)
    if how.get("scripts", True):
        browser.wait("typeof start === 'object' && start !== null")
        if address.startswith(("#/gpu", "#/stack", "#/program", "#/capability", "#/cell")):
            browser.wait("document.querySelector('#view h1')")


def clean(browser: Browser, folder: Path) -> None:
    """Nothing was complained about, and nothing asked for outside the folder."""
    assert browser.console == []
    inside = folder.as_uri() + "/"
    assert [each for each in browser.requests if not each.startswith((inside, "data:,"))] == []


def search(browser: Browser, text: str) -> str:
    """Type into the search box, press Enter, and return the answer."""
    browser.run("document.querySelector('#answer').replaceChildren()")
    browser.run(f"document.querySelector('#find-text').value = {json.dumps(text)}")
    browser.run("document.querySelector('#find-text').focus()")
    browser.key("Enter", 13, text="\r")
    browser.wait("document.querySelector('#answer').textContent")
    return str(browser.run("document.querySelector('#answer').innerText"))


def rows(browser: Browser) -> list[str]:
    """What the visible rows of the large table say."""
    found = "[...document.querySelectorAll('#cells tbody tr')].map((row) => row.innerText)"
    return list(browser.run(found))


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("RX 9060 XT", ["gfx1200"]),
        ("rx9060xt", ["gfx1200"]),
        ("AMD Radeon(TM) RX 9060 XT", ["gfx1200"]),
        ("GFX1200", ["gfx1200"]),
        ("gfx1010:xnack-", ["gfx1010"]),
        (HIP_INFO, ["gfx1010"]),
        (HIP_INFO.replace("\n", " "), ["gfx1010"]),
        ("Name:      AMD Radeon RX 7900 XTX\nisIntegrated: 0", ["gfx1100"]),
        ("840M", ["gfx1153", "gfx1152"]),
        ("gfx1200 and gfx1036", ["gfx1200", "gfx1036"]),
        ("Voodoo 2", []),
        ("gfx9999", []),
        ("<img src=x onerror=alert(1)>", []),
    ],
)
def test_the_search_box_takes_names_architectures_and_hipinfo(
    browser: Browser, site: Path, text: str, gpus: list[str]
) -> None:
    go(browser, site)
    answer = search(browser, text)
    titles = "[...document.querySelectorAll('#answer .card h2 a')].map((link) => link.textContent)"
    assert browser.run(titles) == gpus
    assert gpus or "Try the architecture" in answer
    clean(browser, site)


def test_the_search_box_and_the_command_line_find_the_same(browser: Browser, site: Path) -> None:
    """Every product by its name and as people spell it; ``stacks --for-gpu`` asks ``find_gpu``."""
    names = {name for name, _ in named_models()}
    texts = sorted(
        {*names, *(name.upper() for name in names), *(name.replace(" ", "") for name in names)}
        | {name.removeprefix("AMD ").removeprefix("Radeon ") for name in names}
        | {"rx 7900", "780m", "radeon", "my RX 580", "GeForce RTX 4090", "9070xt", "Strix Halo", HIP_INFO}
    )
    go(browser, site)
    ids = "[...new Set(findGpus(text, start.gpus).hits.map((hit) => hit.gpu.id))].sort()"
    found = browser.run(f"({json.dumps(texts)}).map((text) => {ids})")
    assert dict(zip(texts, found, strict=True)) == {text: sorted(find_gpu(text).gfx) for text in texts}


def test_an_answer_says_what_works_and_what_failed(browser: Browser, site: Path) -> None:
    go(browser, site)
    answer = search(browser, "gfx1200")
    assert "Functional or integrated" in answer
    assert "Failed" in answer
    answer = search(browser, "gfx90c")
    assert "No document speaks about gfx90c yet. That means unknown" in answer


def test_the_filters_agree_with_the_data(browser: Browser, site: Path) -> None:
    shown = content(large_matrix(300)).cells
    go(browser, site)
    count = browser.run("document.querySelector('#count').textContent")
    assert count == f"{len(shown):,} of {len(shown):,} results, the first 100 are shown."

    def choose(name: str, value: str) -> None:
        element = f"document.querySelector('#f-{name}')"
        browser.run(f"{element}.value = {json.dumps(value)}")
        browser.run(f"{element}.dispatchEvent(new Event('input', {{bubbles: true}}))")

    def expect(number: int) -> None:
        browser.wait(f"document.querySelector('#count').textContent.startsWith('{number:,} of')", seconds=5)

    choose("gpu", "gfx1200")
    expect(sum(cell.gpu == "gfx1200" for cell in shown))
    choose("gpu", "")
    choose("family", "RDNA4")
    expect(sum(cell.gpu in {"gfx1200", "gfx1201"} for cell in shown))
    choose("level", "functional")
    passed = [c for c in shown if c.outcome.value == "pass" and c.level and c.level.rank >= 2]
    expect(sum(cell.gpu in {"gfx1200", "gfx1201"} for cell in passed))
    choose("what", "CUFFT")
    found = [cell for cell in passed if cell.gpu in {"gfx1200", "gfx1201"} and "cufft" in cell.capability]
    expect(len(found))
    assert len(rows(browser)) == len(found)
    assert "family=RDNA4" in browser.run("location.hash")
    browser.run("document.querySelector('#filters button[type=reset]').click()")
    expect(len(shown))
    choose("outcome", "incorrect")
    choose("who", "reported")
    choose("stack", "zluda-v6-sdk64")
    kept = [
        c for c in shown if (c.outcome, c.provenance, c.stack) == ("incorrect", "reported", "zluda-v6-sdk64")
    ]
    expect(len(kept))
    clean(browser, site)


def test_an_address_opens_with_its_filters(browser: Browser, site: Path) -> None:
    wanted = sum(c.gpu == "gfx1201" and c.conflict for c in content(large_matrix(300)).cells)
    go(browser, site, "#/results?gpu=gfx1201&outcome=conflict")
    browser.wait(f"document.querySelector('#count').textContent.startsWith('{wanted} of')")
    assert browser.run("document.querySelector('#f-gpu').value") == "gfx1201"
    assert browser.run("document.activeElement.id") == "results-title"


def test_the_page_and_the_script_make_the_same_rows(browser: Browser, site: Path) -> None:
    go(browser, site, scripts=False)
    browser.ask("Emulation.setScriptExecutionDisabled", value=False)
    html = "[...document.querySelectorAll('#cells tbody tr')].map((row) => row.outerHTML)"
    written = browser.run(html)
    go(browser, site, "#/results?who=")
    browser.run("showCells()")
    assert len(written) == 100
    assert browser.run(html) == written


def test_more_rows_come_and_the_keyboard_stays_with_them(browser: Browser, site: Path) -> None:
    go(browser, site)
    browser.run("document.querySelector('#more').focus()")
    browser.key("Enter", 13, text="\r")
    browser.wait("document.querySelectorAll('#cells tbody tr').length === 600")
    place = "[...document.querySelectorAll('#cells tbody tr')].indexOf(document.activeElement.closest('tr'))"
    assert browser.run(place) == 100


def test_the_first_tab_offers_to_skip_what_every_page_begins_with(browser: Browser, site: Path) -> None:
    go(browser, site)
    browser.key("Tab", 9)
    assert browser.run("document.activeElement.className") == "skip"
    assert browser.run("document.activeElement.getBoundingClientRect().left") >= 0, "it can be seen"
    browser.key("Enter", 13, text="\r")
    browser.wait("document.activeElement.id === 'main'")
    browser.key("Tab", 9)
    assert browser.run("document.activeElement.id") == "find-text"


def test_columns_sort_and_say_so(browser: Browser, site: Path) -> None:
    go(browser, site)
    button = "document.querySelector('#cells th[data-sort=seen] button')"
    dates = "[...document.querySelectorAll('#cells tbody .seen')].map((each) => each.textContent)"
    for direction, down in (("ascending", False), ("descending", True)):
        browser.run(f"{button}.click()")
        browser.wait(f"document.querySelector('#cells th[aria-sort={direction}]')")
        browser.run("cellsOf(start.gpus)")
        shown = browser.run(dates)
        assert shown == sorted(shown, reverse=down)
        assert browser.run("location.hash") == f"#/results?sort={'-' * down}seen"


@pytest.mark.parametrize(
    ("asked", "direction"), [("seen", "ascending"), ("-seen", "descending"), ("constructor", None)]
)
def test_an_address_opens_in_its_order(
    browser: Browser, site: Path, asked: str, direction: str | None
) -> None:
    wanted = sum(cell.gpu == "gfx1201" for cell in content(large_matrix(300)).cells)
    go(browser, site, f"#/results?gpu=gfx1201&sort={asked}")
    browser.wait(f"document.querySelector('#count').textContent.startsWith('{wanted:,} of')")
    head = "document.querySelector('#cells th[data-sort=seen]').getAttribute('aria-sort')"
    assert browser.run(head) == direction
    shown = browser.run(
        "[...document.querySelectorAll('#cells tbody .seen')].map((each) => each.textContent)"
    )
    assert len(set(shown)) > 1
    if direction:
        assert shown == sorted(shown, reverse=direction == "descending")
    else:
        assert shown != sorted(shown)


def test_what_to_use_names_the_system(browser: Browser) -> None:
    go(browser, ROOT / "docs" / "site", "#/gpu/gfx1200")
    said = browser.run("document.querySelector('#view').textContent")
    assert "On Windows, by these documents: use zluda-v6p69-sdk64: integrated" in said
    assert "On Linux, by these documents: no pinned stack for Linux has a pass on gfx1200" in said


@pytest.mark.parametrize(
    ("address", "title"),
    [
        ("#/gpu/gfx1200", "gfx1200"),
        ("#/gpu/gfx90c", "gfx90c"),
        ("#/stack/zluda-v6-sdk64", "zluda-v6-sdk64"),
        ("#/program/Program%201", "Program 1"),
        ("#/capability/cublas%20gemm-1", "cublas gemm-1"),
        ("#/gpu/nonsense", "There is no such page"),
        ("#/cell/a/b", "There is no such page"),
    ],
)
def test_an_address_opens_its_page(browser: Browser, site: Path, address: str, title: str) -> None:
    go(browser, site, address)
    assert browser.run("document.querySelector('#view h1').textContent") == title
    assert browser.run("document.title") == f"{title} - CUDA on AMD"
    assert browser.run("document.activeElement.tagName") == "H1"
    assert browser.run("document.querySelector('#results').hidden")
    clean(browser, site)


def test_links_lead_from_the_answer_to_the_document(browser: Browser, site: Path) -> None:
    go(browser, site)
    browser.run("document.querySelector('#cells tbody tr td:last-child a').click()")
    browser.wait("document.querySelector('#view .card')")
    text = browser.run("document.querySelector('#view').innerText")
    assert "What stands:" in text
    assert "It rests on document" in text
    browser.run("document.querySelector('header a').click()")
    browser.wait("!document.querySelector('#results').hidden")
    clean(browser, site)


def test_figures_are_drawn_with_their_numbers(browser: Browser, tmp_path: Path) -> None:
    """Three of one series, one below zero and one reported; a single one of another."""
    cell = CellKey("gfx1200", "zluda-v6-sdk64", "", "cublas gemm")
    values = [("gain", "2026-10-09", 1234.5), ("gain", "2026-10-01", -5.0), ("gain", "2026-10-05", 20.0)]
    points = [
        FigurePoint(
            **cell._asdict(),
            document=hash_of(day),
            seen=day,
            provenance=Provenance.REPORTED if value == 20 else Provenance.MEASURED,
            metric=metric,
            value=value,
            unit="%",
        )
        for metric, day, value in [*values, ("wall", "2026-10-01", 0.000123456)]
    ]
    documents = [fact(point.seen) for point in points[:3]]
    seen = [(cell, result(point.seen, day=point.seen)) for point in points[:3]]
    go(browser, write(tmp_path / "site", matrix_of(seen, documents, figures=points)), "#/gpu/gfx1200")
    place = "[+c.getAttribute('cx'), +c.getAttribute('cy')]"
    circles = browser.run(f"[...document.querySelectorAll('svg.plot circle')].map((c) => {place})")
    assert [x for x, _ in circles] == [8.0, 160.0, 312.0]
    assert circles[0][1] > circles[1][1] > circles[2][1], "larger figures stand higher"
    zero = float(browser.run("document.querySelector('svg.plot line').getAttribute('y1')"))
    assert circles[0][1] > zero > circles[1][1]
    assert browser.run("document.querySelectorAll('svg.plot circle.reported').length") == 1
    label = browser.run("document.querySelector('svg.plot').getAttribute('aria-label')")
    assert label.endswith(": 3 figures, newest 1,235 %, largest 1,235 %")
    assert browser.run("document.querySelectorAll('figure tbody tr').length") == 3
    assert "0.0001235" in browser.run("document.querySelector('#view').innerText")


def test_without_scripts_both_tables_can_be_read(browser: Browser, site: Path) -> None:
    go(browser, site, scripts=False)
    browser.ask("Emulation.setScriptExecutionDisabled", value=False)
    assert "need JavaScript" in browser.run("document.querySelector('noscript p').textContent")
    assert browser.run("document.querySelector('#filters').hidden")
    assert len(rows(browser)) == 100


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_documents_are_shown_as_text(browser: Browser, hostile: Path, text: str) -> None:
    route = "#/" + "/".join(["cell", *["%s"] * 4])
    go(browser, hostile)
    encoded = browser.run(f"encodeURIComponent({json.dumps(text)})")
    for address in (
        route % ((encoded,) * 4),
        f"#/gpu/{encoded}",
        f"#/program/{encoded}",
        f"#/stack/{encoded}",
    ):
        go(browser, hostile, address)
        assert browser.run("document.querySelector('#view h1').textContent") != "There is no such page"
        assert (
            browser.run(
                "document.querySelectorAll('#view :is(script, img, iframe, [onload], [onerror])').length"
            )
            == 0
        )
        assert browser.run("document.querySelectorAll('[href^=javascript]').length") == 0
        shown = browser.run("document.querySelector('#view').textContent + document.title")
        assert not set(shown) & set("\u202e\u2066\u200b\u2028\u0007")
        clean(browser, hostile)


def test_a_phone_needs_no_sideways_scrolling(browser: Browser, site: Path, hostile: Path) -> None:
    for folder in (site, hostile):
        go(browser, folder, width=360, height=740)
        assert browser.run("document.documentElement.scrollWidth") == 360
    go(browser, site, "#/gpu/gfx1200", width=360, height=740)
    assert browser.run("document.documentElement.scrollWidth") == 360


@pytest.mark.proof
@pytest.mark.skipif(_AXE is None, reason="axe-core-python is not installed (requirements-test.lock)")
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)], ids=["light", "dark-phone"])
@pytest.mark.parametrize("page", ["start", "gpu", "stack", "cell"])
def test_axe_finds_nothing_serious(browser: Browser, ten: Path, page: str, width: int, *, dark: bool) -> None:
    """Every rule of axe-core; nothing it calls serious or critical."""
    assert _AXE is not None
    assert _AXE.origin is not None
    rules = Path(_AXE.origin).with_name("axe.min.js").read_text(encoding="utf-8")
    cell = next(
        cell
        for cell in content(large_matrix(10)).cells
        if cell.gpu in {p.gpu for p in large_matrix(10).figures}
    )
    addresses = {
        "start": "",
        "gpu": f"#/gpu/{cell.gpu}",
        "stack": f"#/stack/{cell.stack}",
        "cell": f"#/cell/{cell.gpu}/{cell.stack}/{cell.application.replace(' ', '%20')}/{cell.capability}",
    }
    go(browser, ten, addresses[page], width=width, dark=dark)
    search(browser, f"{cell.gpu} gfx90c")
    browser.ask("Runtime.evaluate", expression=rules)
    found = browser.run("axe.run().then((all) => all.violations.map((v) => [v.impact, v.id, v.nodes.length, "
                        "v.nodes[0].html.slice(0, 200), v.nodes[0].failureSummary]))")  # fmt: skip
    assert [each for each in found if each[0] in {"serious", "critical"}] == []


def test_an_empty_site_stands(browser: Browser, tmp_path: Path) -> None:
    folder = write(tmp_path / "empty", matrix_of((), ()))
    go(browser, folder)
    assert "There are no documents yet." in browser.run("document.body.innerText")
    assert "That means unknown" in search(browser, "RX 9060 XT")
    clean(browser, folder)


@pytest.mark.proof
def test_ten_thousand_documents_are_usable(browser: Browser, tmp_path: Path) -> None:
    folder = write(tmp_path / "large", large_matrix(10_000))
    go(browser, folder)
    assert sum((folder / each.partition(folder.as_uri() + "/")[2]).stat().st_size for each in browser.requests
               if each.startswith("file:")) < 300_000  # fmt: skip
    assert "Functional or integrated" in search(browser, "RX 9060 XT")
    go(browser, folder, "#/results?what=cufft&outcome=failed")
    browser.wait("/^[1-9][0-9,]* of /.test(document.querySelector('#count').textContent)")
    assert len(rows(browser)) == 100
    clean(browser, folder)

"""HIP runtimes are found where people have them, and their version comes from files, never from a name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from scripts.binary.properties import file_version
from scripts.errors import UsageError
from scripts.host.hip import Found, HipPlaces, find_roots, libraries, root_version, usual_places
from tests.pe_version_file import library

SDK_FILES = ("amdhip64_6.dll", "rocblas.dll", "libhipblaslt.dll", "rocsparse.dll", "hipInfo.exe")


def make_root(folder: Path, *names: str, version: str = "", where: str = "bin") -> Path:
    (folder / where).mkdir(parents=True)
    for name in names or SDK_FILES:
        (folder / where / name).write_bytes(b"")
    if version:
        (folder / ".info").mkdir()
        (folder / ".info" / "version").write_text(version, encoding="utf-8")
    return folder


def find(environ: Mapping[str, str] | None = None, flag: str = "", **places: object) -> Found:
    return find_roots(environ or {}, HipPlaces(**places), flag)  # type: ignore[arg-type]  # tests spell them right


def test_the_flag_goes_before_the_environment_and_the_environment_before_what_is_installed(
    tmp_path: Path,
) -> None:
    folders = {
        name: make_root(tmp_path / name, version="6.4.2")
        for name in ("flag", "HIP_PATH", "HIP_PATH_72", "HIP_PATH_57", "ROCM_PATH")
    }
    installed = make_root(tmp_path / "AMD" / "7.1", version="7.1.1")
    environ = {name: str(path) for name, path in folders.items() if name != "flag"}
    found = find(environ, str(folders["flag"]), parents=((tmp_path / "AMD", "installed"),))
    assert [(root.source, root.path) for root in found.roots] == [*folders.items(), ("installed", installed)]


def test_one_folder_is_listed_once(tmp_path: Path) -> None:
    root = make_root(tmp_path / "6.4", version="6.4.2")
    found = find(
        {"HIP_PATH": f"{root}/", "HIP_PATH_64": f'"{root}"', "ROCM_PATH": str(root)},
        parents=((tmp_path, "installed"),),
    )
    assert [root.source for root in found.roots] == ["HIP_PATH"]


def test_installed_versions_are_looked_at_newest_first(tmp_path: Path) -> None:
    for name in ("5.7", "6.4", "6.10"):
        make_root(tmp_path / name, version=f"{name}.0")
    found = find(parents=((tmp_path, "installed"),))
    assert [root.version for root in found.roots] == ["6.10.0", "6.4.0", "5.7.0"]


def test_folders_that_are_no_runtime_are_passed_over_in_silence(tmp_path: Path) -> None:
    (tmp_path / "AMD" / "empty").mkdir(parents=True)
    found = find(parents=((tmp_path / "AMD", "installed"), (tmp_path / "absent", "installed")))
    assert found == Found()


@pytest.mark.parametrize("name", ["Scripts", "bin"])
def test_a_python_environment_s_commands_are_refused_with_the_reason(tmp_path: Path, name: str) -> None:
    scripts = make_root(tmp_path / "venv" / name, "amdhip64_7.dll")
    (tmp_path / "venv" / "pyvenv.cfg").write_text("home = C:\\Python311\n", encoding="utf-8")
    found = find({"HIP_PATH": str(scripts)})
    assert found.roots == ()
    assert "Python environment" in found.notes[0]
    with pytest.raises(UsageError, match="Python environment"):
        find(flag=str(scripts))


def test_a_variable_that_leads_nowhere_is_said(tmp_path: Path) -> None:
    assert "no such folder" in find({"HIP_PATH": str(tmp_path / "gone")}).notes[0]
    (tmp_path / "empty").mkdir()
    assert "no HIP library" in find({"ROCM_PATH": str(tmp_path / "empty")}).notes[0]


def test_a_flag_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        find(flag=str(tmp_path / "gone"))


def test_libraries_have_the_names_of_the_lock(tmp_path: Path) -> None:
    windows = make_root(
        tmp_path / "w", "amdhip64_7.dll", "ROCBLAS.DLL", "libhipblaslt.dll", "MIOpen.dll", "other.dll"
    )
    assert libraries(windows) == ("amdhip64", "amdhip64_7", "hipblaslt", "miopen", "rocblas")
    linux = make_root(tmp_path / "l", "libamdhip64.so.6", "librocblas.so", "librocsparse.so.1.0", where="lib")
    assert libraries(linux) == ("amdhip64", "rocblas", "rocsparse")


# ------------------------------------------------------------------ versions


@pytest.mark.slow
def test_a_folder_s_name_is_no_version(tmp_path: Path) -> None:
    root = make_root(tmp_path / "ROCm" / "6.4")
    version, note = root_version(root)
    assert version is None
    assert "unknown" in note
    assert find(parents=((tmp_path / "ROCm", "installed"),)).roots[0].version is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("6.4.2\n", "6.4.2"),
        ("7.2.0-43\r\n", "7.2.0-43"),
        ("\ufeff10.1.0", "10.1.0"),
        ("7.14.0a20260612", "7.14.0a20260612"),
        ("", None),
        ("unknown\n", None),
    ],
)
def test_the_version_file_decides(tmp_path: Path, text: str, version: str | None) -> None:
    root = make_root(tmp_path / "5.7")
    (root / ".info").mkdir()
    (root / ".info" / "version").write_text(text, encoding="utf-8")
    assert root_version(root)[0] == version


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "resource", "version"),
    [
        pytest.param("amdhip64_6.dll", (6, 4, 43483, 0), "6.4.43483.0", id="agrees"),
        pytest.param("amdhip64.dll", (5, 7, 32000, 0), "5.7.32000.0", id="before-the-numbers"),
        pytest.param("amdhip64_7.dll", (10, 0, 3581, 0), None, id="a-build-of-the-driver"),
        pytest.param("amdhip64.dll", (10, 0, 3188, 0), None, id="an-old-build-of-the-driver"),
        pytest.param("rocblas.dll", (4, 4, 0, 0), None, id="another-library-s-own-number"),
    ],
)
def test_a_dll_s_resource_counts_where_it_agrees_with_its_name(
    tmp_path: Path, name: str, resource: tuple[int, int, int, int], version: str | None
) -> None:
    root = make_root(tmp_path / "9.9", name)
    (root / "bin" / name).write_bytes(library(resource))
    assert root_version(root)[0] == version


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "version"), [("hiprtc0507.dll", "5.7"), ("hiprtc0602.dll", "6.2"), ("hiprtc0715.dll", None)]
)
def test_hiprtc_s_name_is_the_last_resort_and_ends_where_the_numbers_part(
    tmp_path: Path, name: str, version: str | None
) -> None:
    root = make_root(tmp_path / "x", "amdhip64_6.dll", name)
    found, note = root_version(root)
    assert found == version
    assert note


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "# Auto-generated\nHIP_VERSION_MAJOR=6\nHIP_VERSION_MINOR=4\nHIP_VERSION_PATCH=43484\n",
            "6.4.43484",
        ),
        ("HIP_VERSION_MAJOR=7\nHIP_VERSION_MINOR=15\n", None),
        ("HIP_VERSION_MAJOR=seven\nHIP_VERSION_MINOR=1\n", None),
    ],
)
def test_hip_s_own_version_file_counts_while_its_numbers_are_the_release_s(
    tmp_path: Path, text: str, version: str | None
) -> None:
    root = make_root(tmp_path / "x")
    (root / "share" / "hip").mkdir(parents=True)
    (root / "share" / "hip" / "version").write_text(text, encoding="utf-8")
    assert root_version(root)[0] == version


@pytest.mark.slow
@pytest.mark.parametrize("data", [b"", b"MZ", b"not a program at all", library((1, 2, 3, 4))[:620]])
def test_a_broken_library_has_no_version(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "amdhip64_6.dll"
    path.write_bytes(data)
    assert file_version(path) is None
    assert file_version(tmp_path / "absent.dll") is None


def test_a_version_resource_is_read_and_the_file_let_go(tmp_path: Path) -> None:
    path = tmp_path / "a.dll"
    path.write_bytes(library((10, 0, 3679, 65535)))
    assert file_version(path) == "10.0.3679.65535"
    path.unlink()


# ------------------------------------------------------------------ pip


def pip_package(site: Path, name: str, *files: str, version: str) -> Path:
    info = site / f"{name.lstrip('_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText\n", encoding="utf-8"
    )
    return make_root(site / name, *files)


def test_pip_s_two_folders_are_listed_and_said_to_be_no_single_root(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    pip_package(site, "_rocm_sdk_core", "amdhip64_7.dll", version="10.1.0")
    pip_package(site, "_rocm_sdk_libraries_gfx120X_all", "rocblas.dll", version="10.1.0")
    found = find(site_packages=(site,))
    assert [(r.source, r.version) for r in found.roots] == [
        ("pip (_rocm_sdk_core)", "10.1.0"),
        ("pip (_rocm_sdk_libraries_gfx120X_all)", "10.1.0"),
    ]
    assert "rocm-sdk init" in found.notes[-1]


def test_pip_s_expanded_tree_is_one_root(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    pip_package(site, "_rocm_sdk_devel", "amdhip64_7.dll", "rocblas.dll", version="10.1.0")
    found = find(site_packages=(site,))
    assert [r.source for r in found.roots] == ["pip (_rocm_sdk_devel)"]
    assert found.notes == ()


def test_a_commands_folder_leads_to_the_packages_beside_it(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    (venv / "Scripts").mkdir(parents=True)
    (venv / "Scripts" / "hipInfo.exe").write_bytes(b"")
    (venv / "pyvenv.cfg").write_text("", encoding="utf-8")
    pip_package(venv / "Lib" / "site-packages", "_rocm_sdk_devel", "amdhip64_7.dll", version="7.14.0")
    found = find({"HIP_PATH": str(venv / "Scripts")})
    assert [(r.source, r.version) for r in found.roots] == [("pip (_rocm_sdk_devel)", "7.14.0")]
    assert "Python environment" in found.notes[0]


def test_usual_places_follow_the_environment(tmp_path: Path) -> None:
    site = tmp_path / "venv" / "Lib" / "site-packages"
    site.mkdir(parents=True)
    environ = {
        "PROGRAMW6432": str(tmp_path / "Programme"),
        "SYSTEMDRIVE": "D:",
        "VIRTUAL_ENV": str(tmp_path / "venv"),
    }
    places = usual_places(environ, "win32", ["", str(tmp_path)])
    assert places.parents[0][0] == tmp_path / "Programme" / "AMD" / "ROCm"
    assert [str(path).replace("/", "\\") for path, _ in places.parents[1:]] == ["D:\\ROCm", "D:\\TheRock"]
    assert places.site_packages == (site,)
    assert usual_places({}, "linux", []).roots[0][0] == Path("/opt/rocm")

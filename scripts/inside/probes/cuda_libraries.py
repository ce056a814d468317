"""Find a CUDA library the way programs do, and call it; a refusal is not a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Tuple

from kit import WINDOWS, Api, CallFailed, ProbeSession, load_first, path_of

#: Versions in the names of files, by the release of CUDA they belong to, newest first.
VERSIONS: Dict[str, Tuple[Tuple[int, str], ...]] = {
    "cublas": ((13, "13"), (12, "12"), (11, "11")),
    "cublasLt": ((13, "13"), (12, "12"), (11, "11")),
    "cufft": ((13, "12"), (12, "11"), (11, "10")),
    "cusparse": ((13, "12"), (11, "11")),
    "cusolver": ((13, "12"), (12, "11")),
    "curand": ((13, "10"),),
    "cudnn": ((13, "9"), (11, "8")),
    "nvrtc": ((13, "13"), (12, "12"), (11, "11.2")),
}
#: What each library returns for what it does not support.
REFUSALS: Dict[str, Tuple[int, ...]] = {
    "cublas": (15,),
    "cublasLt": (15,),
    "cufft": (14, 16),
    "cusparse": (10,),
    "cusolver": (9, 10),
    "curand": (),
    "cudnn": (9, 3000, 3001, 3002, 3003, 3004, 3005, 3006, 3007, 3008, 3012),
    "nvrtc": (),
}


class CudaLibrary(Api):
    """One CUDA library."""

    def __init__(self, s: ProbeSession, name: str) -> None:
        """Load it after the driver, whose release says which version comes first.

        Raises:
            NotFound: none of its versions is here.
        """
        library, file = load_first(files(name, s.cuda.driver_version // 1000))
        super().__init__(library)
        self.refusals = REFUSALS[name]
        path = path_of(library, file)
        if Path(path).is_absolute():  # a file of another name than the library's is not found in the list
            s.files[name] = path

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that must succeed.

        Raises:
            CallFailed: it returned something else than 0; ``refused`` where the library says so.
        """
        try:
            super().call(name, *arguments)
        except CallFailed as error:
            if failed(error) in self.refusals:
                error.outcome = "refused"
            raise

    def code(self, name: str, *arguments: Any) -> int:
        """Call a function and return what it returned."""
        try:
            super().call(name, *arguments)
        except CallFailed as error:
            return failed(error)
        return 0

    def has(self, name: str) -> bool:
        """Whether it exports a function."""
        return hasattr(self.library, name)


def failed(error: Any) -> int:
    """Return the code of a failed call."""
    return int(str(error).rsplit(" ", 1)[1])


def files(name: str, major: int) -> List[str]:
    """Name a library's files: the driver's own release first, then older ones, then newer ones."""
    order = sorted(VERSIONS[name], key=lambda pair: (pair[0] > major, abs(pair[0] - major)))
    if not WINDOWS:
        return ["lib%s.so.%s" % (name, version) for _, version in order]
    if name == "nvrtc":
        return [
            "nvrtc64_%s_0.dll" % {"13": "130", "12": "120", "11.2": "112"}[version] for _, version in order
        ]
    return ["%s64_%s.dll" % (name, version) for _, version in order]

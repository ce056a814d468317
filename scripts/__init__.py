"""The CUDA-on-AMD workspace.

The rooms of this package stand in layers. A module may import from lower
layers only, and the rooms of one layer do not import each other;
``tests/test_layers.py`` reads the table below and keeps the arrows pointing down.
"""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"

#: Layer by layer, lowest first. A name is a module or a sub-package of ``scripts``.
LAYERS: Final[tuple[tuple[str, ...], ...]] = (
    ("serialize",),
    ("errors", "model", "statuses"),
    ("osal", "binary"),
    ("guards",),
    ("net",),
    ("lock", "store", "host"),
    ("staging",),
    ("placement", "preflight"),
    ("launch",),
    ("evidence",),
    ("bench", "doctor", "probing", "site"),
    ("app",),
    ("cli",),
)

#: Rooms outside the table: they import nothing of ours that needs a package.
#: ``inside`` runs in the launched process, ``__main__`` and ``own_venv`` before there is an environment.
ALONE: Final[tuple[str, ...]] = ("inside", "__main__", "own_venv", "data")

#: One owner for each foreign library: no other room imports it.
OWNERS: Final[dict[str, tuple[str, ...]]] = {
    "requests": ("net",),
    "urllib3": ("net",),
    "truststore": ("net",),
    "tomlkit": ("lock",),
    "cryptography": ("lock",),
    "rich": ("cli",),
    "pefile": ("binary",),
    "elftools": ("binary",),
    "lz4": ("binary",),
    "pycxxfilt": ("preflight",),
    "zstandard": ("binary",),
    "isal": ("store",),
    "filelock": ("osal", "store", "staging"),
    "platformdirs": ("app",),
    "jsonschema": ("evidence",),
    "PIL": ("bench",),
    "ctypes": ("osal", "host", "inside"),
    "winreg": ("host",),
}

"""``stage`` repairs: what was changed in the store becomes what it was."""

from __future__ import annotations

from pathlib import Path

from tests.checkout import make_checkout


def test_what_we_built_ourselves_is_built_anew(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path)
    staged = checkout.json("stage", "--stack=cpu-reference")
    library = min(Path(staged["path"]).iterdir())
    before = library.read_bytes()
    library.chmod(0o755)
    library.write_bytes(b"changed in place: the build behind it is the same file under another name")
    assert checkout.json("stage", "--stack=cpu-reference")["digest"] == staged["digest"]
    assert library.read_bytes() == before

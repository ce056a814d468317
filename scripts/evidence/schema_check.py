"""What ``jsonschema`` finds wrong with a JSON document of anyone's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jsonschema


def is_newer(data: object, known: int) -> bool:
    """Whether a document says that its format is later than the one that is known."""
    written = data.get("format") if isinstance(data, Mapping) else None
    return isinstance(written, int) and not isinstance(written, bool) and written > known


def first_fault(data: object, schema: Path) -> tuple[str, str] | None:
    """Say where something is wrong and what; ``None`` where nothing is."""
    import jsonschema  # noqa: PLC0415 - takes a tenth of a second, and good documents do without

    error = jsonschema.exceptions.best_match(_validator(schema).iter_errors(data))
    return None if error is None else (error.json_path, error.message)


@cache
def _validator(schema: Path) -> jsonschema.Draft202012Validator:
    """Load a schema once."""
    import jsonschema  # noqa: PLC0415 - as above

    return jsonschema.Draft202012Validator(json.loads(schema.read_text(encoding="utf-8")))

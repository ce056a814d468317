"""One pair of stacks of the rollback proof, each time; `nox -s rollback_proof` runs all pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import rollback_proof
from tests.rollback_proof import World, _small_product, template, world

pytestmark = pytest.mark.proof

__all__ = ["_small_product", "template", "world"]


def test_an_upgrade_that_dies_leaves_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    rollback_proof.test_an_upgrade_that_dies_leaves_nothing(world, "one", "two", monkeypatch)


def test_there_and_back_again_leaves_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    rollback_proof.test_there_and_back_again_leaves_nothing(world, "one", "two", monkeypatch)


def test_pruning_keeps_what_generations_placements_and_shims_refer_to(world: World) -> None:
    rollback_proof.test_pruning_keeps_what_generations_placements_and_shims_refer_to(world)


def test_removing_leaves_the_machine_as_before_the_first_command(tmp_path: Path, template: Path) -> None:
    rollback_proof.test_removing_leaves_the_machine_as_before_the_first_command(tmp_path, template)

"""The rules find nothing in any allowed cell, but digests that nobody has looked up yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

import policies
from local.images import local_image_names
from tests.charts.rendering import Objects
from tests.matrix.cells import Cell
from tests.matrix.crds import placed
from tests.matrix.judging import release_of
from tests.matrix.rendering import distinct
from tokenworks.check.context import context_of

pytestmark = pytest.mark.helm


def test_no_rule_finds_anything_but_unresolved_digests(matrix: Mapping[Cell, Objects]) -> None:
    images = local_image_names()
    found = dict[str, str]()
    digests = 0
    for cell, objects in distinct(matrix):
        # A release alone: its queue and its gateway are other charts'.
        context = replace(context_of(release_of(cell)[0], images), whole=False)
        for finding in policies.check([placed(item) for item in objects.all], context):
            where = f"{cell.program} {cell.topology} {cell.column}: {finding.object}"
            if finding.rule == "image-digest" and "still unresolved" in finding.message:
                assert finding.severity == "warning", where
                digests += 1
            else:
                found.setdefault(f"{finding.rule}: {finding.message}", where)
    assert found == {}
    assert digests, "the catalog says `unresolved` of images, and the rule says so too"

"""What a stack reads of another is there, or named as missing."""

from __future__ import annotations

import pytest

from components.references import required
from tokenworks.errors import TokenworksError


def test_what_is_wanted_is_returned() -> None:
    outputs = {"kubeconfig": "x", "weights": {}, "more": 1}
    assert required("prod-infrastructure", outputs, ["kubeconfig", "weights"]) is outputs


def test_everything_that_is_missing_is_named_with_its_stack() -> None:
    with pytest.raises(TokenworksError) as raised:
        required("prod-infrastructure", {"kubeconfig": None}, ["kubeconfig", "weights"])
    said = str(raised.value)
    assert "prod-infrastructure has no output kubeconfig, weights" in said
    assert "pulumi up --stack prod-infrastructure" in said

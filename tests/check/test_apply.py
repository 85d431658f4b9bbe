"""Before anything is applied: what a preview warns of is refused, unless images are made here."""

from __future__ import annotations

import pytest

from tests.charts.documents import model, stack
from tests.policies.builders import deployment, network_policy, pod
from tokenworks.check.apply import findings, refuse
from tokenworks.errors import TokenworksError
from tokenworks.render.release import Release

SOUND = Release("model-demo", "models", "team-a", (deployment(pod()), network_policy()))
UNSOUND = Release("model-demo", "models", "team-a", (deployment(pod()),))
HERE = {"spec": {"cluster": {"provider": "local", "context": None}}}
OPEN = {"uri": "hf://Qwen/Qwen3-32B", "revision": "unresolved", "size": "66G", "maxContext": 4096}


def test_what_is_sound_is_applied() -> None:
    refuse(stack(model()), [SOUND], ())
    assert findings(stack(model()), [SOUND], ()) == []


def test_every_error_is_said_and_nothing_is_changed() -> None:
    with pytest.raises(TokenworksError, match="network-policy") as raised:
        refuse(stack(model()), [UNSOUND], ())
    refuse(stack(model()), [UNSOUND], (), preview=True)
    assert "1 finding(s) above; nothing was changed" in str(raised.value)


def test_unresolved_revisions_are_refused_when_applied() -> None:
    with pytest.raises(TokenworksError, match=r"spec\.model\.revision|still unresolved"):
        refuse(stack(model(model=OPEN)), [SOUND], ())


def test_and_warned_of_where_images_are_made_here() -> None:
    here = stack(model(model=OPEN), environment=HERE)
    found = [f for f in findings(here, [], ()) if f.rule == "unresolved-revision"]
    assert [f.severity for f in found] == ["warning"]
    refuse(here, [], ())


def test_plain_pulumi_is_refused_where_argocd_delivers() -> None:
    spec = {"delivery": "argocd", "argocd": {"repository": "https://git.example.com/p.git"}}
    delivered = stack(environment={"spec": spec})
    refuse(delivered, [], (), preview=True)
    with pytest.raises(TokenworksError, match=r"lab is delivered by Argo CD.*tokenworks up lab"):
        refuse(delivered, [], ())

"""Each rule leads to the documentation of the field that it is about."""

from __future__ import annotations

import inspect
from collections import defaultdict
from functools import partial
from urllib.parse import urlsplit

import pytest

from policies import RULES, Rule

HOSTS = {
    "docs.aws.amazon.com", "docs.nvidia.com", "docs.vllm.ai", "gateway-api.sigs.k8s.io",
    "gateway-api-inference-extension.sigs.k8s.io", "huggingface.co", "istio.io", "karpenter.sh",
    "keda.sh", "kubernetes.github.io", "kubernetes.io", "kueue.sigs.k8s.io", "lws.sigs.k8s.io",
    "prometheus-operator.dev", "pubs.opengroup.org",
}  # fmt: skip
WHOLE = {
    "https://kubernetes.io/docs/concepts/services-networking/network-policies/",
    "https://docs.vllm.ai/en/stable/cli/serve/",
    "https://gateway-api-inference-extension.sigs.k8s.io/api-types/inferencepool/",
    "https://lws.sigs.k8s.io/docs/concepts/",
}
"""Pages about one kind of object, or one command, that has rules in several files."""


def concern(rule: Rule) -> str:
    """The file in which a rule stands."""
    find = rule.find.func if isinstance(rule.find, partial) else rule.find
    return inspect.getfile(find)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_links_lead_to_documentation(rule: Rule) -> None:
    link = urlsplit(rule.link)
    assert link.scheme == "https"
    assert link.hostname in HOSTS
    assert link.path.strip("/")
    assert not link.query
    assert not any(character.isspace() for character in rule.link)


def test_every_host_is_one_that_rules_name() -> None:
    assert {urlsplit(rule.link).hostname for rule in RULES} == HOSTS


def test_fields_of_different_concerns_have_links_of_their_own() -> None:
    files = defaultdict[str, set[str]](set)
    for rule in RULES:
        files[rule.link].add(concern(rule))
    assert {link for link, found in files.items() if len(found) > 1} == WHOLE


def test_the_three_probes_have_a_link_each() -> None:
    links = [rule.link for rule in RULES if rule.id.endswith("-probe")]
    assert len(set(links)) == len(links) == 3

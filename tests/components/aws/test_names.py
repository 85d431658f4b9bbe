"""Names in the account: what AWS takes no longer ones for has shorter ones of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from components.aws.common import fitting
from components.aws.infrastructure import Infrastructure, InfrastructureArgs
from local.aws_standin.services import Checker
from tests.components.aws.environments import G6, P5, changed, plan
from tests.components.recorder import Registered, run

LONGEST = 40
"""Characters of the name of an environment, of a pool, of a tenant's namespace."""


def named(environment: str, namespace: str) -> dict[str, Registered]:
    """What an environment with everything registers."""
    pools = {"p" * LONGEST: P5, "g6": changed(G6, manager="karpenter", minNodes=0)}
    whole = plan(
        pools,
        weights={"bucket": "weights-test", "lustre": {}},
        dns={"zone": "example.com", "zoneId": "Z0123456789ABC"},
        registryCache={"kubernetes": {"registry": "registry.k8s.io"}},
    )
    wanted = replace(whole, cluster=environment, namespaces=(namespace,))

    def program() -> Any:
        return Infrastructure(environment, InfrastructureArgs(wanted, 65532)).kubeconfig

    return {n: r for n, r in run(program).items() if r.token.startswith("aws:")}


def test_the_longest_names_that_documents_may_have_fit() -> None:
    found = named("e" * LONGEST, "t" * LONGEST)
    checker = Checker()
    refused = [
        (r.name, why)
        for r in found.values()
        for _, why in checker.unnamed(r.token, r.inputs, r.name)
    ]
    assert refused == []
    given = [(r.token, r.inputs["name"]) for r in found.values() if "name" in r.inputs]
    assert len(given) == len(set(given))
    assert all(len(name) <= 64 for token, name in given if token == "aws:iam/role:Role")


def test_what_is_cut_off_still_tells_names_apart() -> None:
    first, second = fitting("e" * 70 + "a"), fitting("e" * 70 + "b")
    assert first is not None
    assert second is not None
    assert first != second
    assert len(first) == len(second) == 64
    assert fitting("e" * 56) is None
    assert fitting("e" * 57) == fitting("e" * 57)


def test_short_environments_leave_names_to_pulumi() -> None:
    """So that a resource that is replaced is made before the old one goes."""
    roles = [r for r in named("prod", "research").values() if r.token == "aws:iam/role:Role"]
    assert {r.inputs["name"] for r in roles if "name" in r.inputs} == {"prod-node"}

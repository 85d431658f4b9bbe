"""The load balancer controller: what it may see, and what the gateway's Service tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from local.toolchain import module_dir
from tests.render.aws_stacks import changed
from tokenworks.render.aws import plan_of
from tokenworks.render.aws.load_balancer import (
    ANNOTATION,
    CERTIFICATE,
    controller_values,
    load_balancer,
    service_annotations,
)
from tokenworks.render.helm import RenderTools
from tokenworks.spec.stack import Stack


def told(stack: Stack) -> dict[str, str]:
    return {k.removeprefix(ANNOTATION): v for k, v in service_annotations(stack).items()}


def test_the_controller_is_told_what_pods_cannot_ask() -> None:
    values = controller_values(plan_of(changed()))
    assert values["region"] == "us-east-1"
    assert values["vpcTags"] == {"tokenworks.dev/environment": "prod"}
    assert values["clusterName"] == "prod"


def test_the_load_balancer_leads_to_pods_that_serve() -> None:
    found = told(changed())
    assert found["type"] == "external"
    assert found["nlb-target-type"] == "ip"
    assert (found["healthcheck-port"], found["healthcheck-path"]) == ("15021", "/healthz/ready")
    assert found["target-group-attributes"] == "deregistration_delay.timeout_seconds=900"


def test_a_drain_is_as_long_as_aws_allows_at_most() -> None:
    found = told(changed(gateway={"requestTimeout": "2h"}))
    assert found["target-group-attributes"] == "deregistration_delay.timeout_seconds=3600"


def test_only_whoever_reaches_the_vpc_reaches_the_gateway_unless_said() -> None:
    assert told(changed())["scheme"] == "internal"
    assert told(changed({"loadBalancer": "internet-facing"}))["scheme"] == "internet-facing"


def test_it_carries_who_pays() -> None:
    tags = told(changed())["additional-resource-tags"]
    assert tags == "cost-center=inference-prod,tokenworks.dev/environment=prod"


def test_tls_ends_where_the_certificate_is_and_delivery_names_it() -> None:
    found = told(changed())
    assert found["ssl-ports"] == "443"
    assert CERTIFICATE not in service_annotations(changed())
    assert not any(key.startswith("listener-attributes") for key in found)


@pytest.mark.parametrize(("idle", "seconds"), [("600s", 600), ("2h", 6000), ("10s", 60)])
def test_without_a_certificate_silence_is_allowed_for(idle: str, seconds: int) -> None:
    found = told(changed({"dns": None}, {"port": 80, "idleTimeout": idle}))
    assert found["listener-attributes.TCP-80"] == f"tcp.idle_timeout.seconds={seconds}"
    assert "ssl-ports" not in found


def test_nothing_is_told_where_there_is_no_load_balancer() -> None:
    stack = changed({"dns": None}, {"serviceType": "ClusterIP"})
    assert service_annotations(stack) == {}
    assert load_balancer(stack, RenderTools(Path("no-program"), module_dir)) == []


# With the chart


@pytest.fixture(scope="module")
def objects(renderer: Path) -> list[dict[str, Any]]:
    _, release = load_balancer(changed(), RenderTools(renderer, module_dir))
    assert release.needs == ("aws-load-balancer-controller-crds",)
    return list(release.objects)


def kinds(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [o for o in objects if o["kind"] == kind]


@pytest.mark.helm
def test_rendered_twice_it_is_the_same(renderer: Path) -> None:
    tools = RenderTools(renderer, module_dir)
    assert load_balancer(changed(), tools) == load_balancer(changed(), tools)


@pytest.mark.helm
def test_it_brings_no_webhook_and_no_secret(objects: list[dict[str, Any]]) -> None:
    found = {o["kind"] for o in objects}
    assert not any("Webhook" in kind for kind in found)
    assert {"Secret", "Service"} & found == set()
    assert "Namespace" not in found


@pytest.mark.helm
def test_its_certificate_is_made_where_it_looks_for_it(objects: list[dict[str, Any]]) -> None:
    (deployment,), (job,) = kinds(objects, "Deployment"), kinds(objects, "Job")
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    secret = next(v["secret"]["secretName"] for v in volumes if v["name"] == "cert")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert f"--secret-name={secret}" in container["args"]
    assert {"--cert-name=tls.crt", "--key-name=tls.key"} <= set(container["args"])
    account = job["spec"]["template"]["spec"]["serviceAccountName"]
    (binding,) = [b for b in kinds(objects, "RoleBinding") if b["metadata"]["name"] == account]
    (role,) = [r for r in kinds(objects, "Role") if r["metadata"]["name"] == account]
    assert binding["roleRef"]["name"] == account
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"]}
    ]


@pytest.mark.helm
def test_the_controller_runs_as_whom_aws_knows_on_nodes_that_stay(
    objects: list[dict[str, Any]],
) -> None:
    (deployment,) = kinds(objects, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "aws-load-balancer-controller"
    assert pod["nodeSelector"] == {"tokenworks.dev/pool": "system"}
    arguments = pod["containers"][0]["args"]
    assert "--aws-vpc-tags=tokenworks.dev/environment=prod" in arguments
    assert "--feature-gates=ALBGatewayAPI=false,NLBGatewayAPI=false" in arguments

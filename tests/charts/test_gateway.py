"""The chart `gateway`: one entry, which routes by the body and answers for itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.charts.documents import model, simulator, stack
from tests.charts.rendering import Helm, Objects
from tokenworks.render.defaults import helm_values
from tokenworks.render.values import gateway_values

pytestmark = pytest.mark.helm
MANAGER = "envoy.filters.network.http_connection_manager"


@pytest.fixture(scope="module")
def gateway(charts: Helm) -> Objects:
    """The gateway of an environment with two models, one of them without pods."""
    idle = simulator(replicas=0, model={"servedName": "idle"})
    made = gateway_values(stack(model(), idle))
    return charts.objects("gateway", helm_values("gateway", made))


def patches(objects: Objects, name: str, to: str, operation: str) -> list[dict[str, Any]]:
    """Values of an EnvoyFilter's patches."""
    return [
        patch["patch"]["value"]
        for patch in objects.one("EnvoyFilter", name)["spec"]["configPatches"]
        if (patch["applyTo"], patch["patch"]["operation"]) == (to, operation)
    ]


def manager(objects: Objects, name: str) -> dict[str, Any]:
    """What is merged into the HTTP connection manager."""
    (value,) = patches(objects, name, "NETWORK_FILTER", "MERGE")
    return value["typed_config"]


class TestEntry:
    def test_routes_come_from_tenants_only(self, gateway: Objects) -> None:
        (listener,) = gateway.one("Gateway", "gateway")["spec"]["listeners"]
        assert listener["allowedRoutes"]["namespaces"] == {
            "from": "Selector",
            "selector": {
                "matchExpressions": [{"key": "tokenworks.dev/tenant", "operator": "Exists"}]
            },
        }

    def test_name_port_and_host_are_the_environments(self, gateway: Objects) -> None:
        item = gateway.one("Gateway", "gateway")
        (listener,) = item["spec"]["listeners"]
        assert item["spec"]["gatewayClassName"] == "istio"
        assert item["metadata"]["annotations"] == {
            "networking.istio.io/service-type": "LoadBalancer"
        }
        assert (listener["name"], listener["port"]) == ("http", 80)
        assert listener["hostname"] == "llm.example.com"

    def test_without_a_hostname_there_is_no_such_field(self, charts: Helm) -> None:
        (listener,) = charts.objects("gateway").one("Gateway", "gateway")["spec"]["listeners"]
        assert "hostname" not in listener

    def test_every_envoy_filter_is_for_this_gateway(self, gateway: Objects) -> None:
        filters = gateway.of("EnvoyFilter")
        assert len(filters) == 3
        for item in filters:
            (target,) = item["spec"]["targetRefs"]
            assert (target["kind"], target["name"]) == ("Gateway", "gateway")


class TestBodyRouter:
    NAME = "gateway-body-router"

    def test_the_length_is_checked_before_the_router_reads(self, gateway: Objects) -> None:
        # Each is put first, so the last one given comes first.
        names = [f["name"] for f in patches(gateway, self.NAME, "HTTP_FILTER", "INSERT_FIRST")]
        assert names == [
            "envoy.filters.http.ext_proc.body-router",
            "envoy.filters.http.rbac.body-limit",
        ]

    def test_answers_do_not_pass_through_it(self, gateway: Objects) -> None:
        router, _ = patches(gateway, self.NAME, "HTTP_FILTER", "INSERT_FIRST")
        mode = router["typed_config"]["processing_mode"]
        assert mode["request_body_mode"] == "FULL_DUPLEX_STREAMED"
        assert mode["response_header_mode"] == "SKIP"
        assert mode["response_body_mode"] == "NONE"

    def test_without_it_nothing_passes(self, gateway: Objects) -> None:
        router, _ = patches(gateway, self.NAME, "HTTP_FILTER", "INSERT_FIRST")
        assert router["typed_config"]["failure_mode_allow"] is False
        assert router["typed_config"]["status_on_error"] == {"code": "ServiceUnavailable"}

    def test_envoy_finds_its_service(self, gateway: Objects) -> None:
        router, _ = patches(gateway, self.NAME, "HTTP_FILTER", "INSERT_FIRST")
        cluster = router["typed_config"]["grpc_service"]["envoy_grpc"]["cluster_name"]
        _, port, _, host = cluster.split("|")
        service = gateway.one("Service", self.NAME)
        assert host == f"{self.NAME}.research.svc.cluster.local"
        assert int(port) in [p["port"] for p in service["spec"]["ports"]]
        assert gateway.one("DestinationRule", self.NAME)["spec"]["host"] == host
        pod = gateway.one("Deployment", self.NAME)["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= pod.items()

    def test_it_sets_the_header_that_routes_match(self, gateway: Objects, charts: Helm) -> None:
        arguments = gateway.container(self.NAME)["args"]
        plugin = arguments[arguments.index("--plugin") + 1]
        kind, _, config = plugin.split(":", 2)
        assert kind == "body-field-to-header"
        header = json.loads(config)["headerName"]
        route = charts.objects("model").one("HTTPRoute")
        assert route["spec"]["rules"][0]["matches"][0]["headers"][0]["name"] == header

    def test_it_has_no_rights_and_talks_to_nobody(self, gateway: Objects) -> None:
        assert {o["kind"] for o in gateway.all} & {"Role", "ClusterRole"} == set()
        spec = gateway.one("NetworkPolicy", self.NAME)["spec"]
        assert "Egress" in spec["policyTypes"]
        assert "egress" not in spec

    def test_it_is_never_root_and_probed(self, gateway: Objects) -> None:
        container = gateway.container(self.NAME)
        assert gateway.pod(self.NAME)["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe]["grpc"]["port"] == 9005

    def test_its_memory_holds_several_of_the_largest_bodies(self, charts: Helm) -> None:
        small, large = (
            gateway_values(stack(environment={"spec": {"gateway": {"maxRequestBody": size}}}))
            for size in ("1Mi", "100Mi")
        )
        assert small.router.resources.memory == "144Mi"
        assert large.router.resources.memory == "1728Mi"
        values = helm_values("gateway", large)
        limits = charts.objects("gateway", values).container(self.NAME)["resources"]["limits"]
        assert limits["memory"] == "1728Mi"


class TestLimits:
    def test_bodies_are_limited_by_their_length(self, gateway: Objects) -> None:
        name = "gateway-body-router"
        _, limit = patches(gateway, name, "HTTP_FILTER", "INSERT_FIRST")
        rules = limit["typed_config"]["rules"]
        assert rules["action"] == "DENY"
        present, outside = rules["policies"]["too-large"]["permissions"][0]["and_rules"]["rules"]
        assert present["header"] == {"name": "content-length", "present_match": True}
        # The end of a range is exclusive: 10 MiB pass, one byte more does not.
        within = outside["not_rule"]["header"]["range_match"]
        assert within == {"start": 0, "end": 10 * 2**20 + 1}

    def test_streams_and_connections_are_limited(self, gateway: Objects) -> None:
        merged = manager(gateway, "gateway-limits")
        assert merged["stream_idle_timeout"] == "300s"
        assert merged["http2_protocol_options"] == {"max_concurrent_streams": 100}
        (limit,) = patches(gateway, "gateway-limits", "NETWORK_FILTER", "INSERT_BEFORE")
        assert limit["typed_config"]["max_connections"] == 10000

    def test_clients_cannot_choose_route_or_pod(self, gateway: Objects) -> None:
        (extension,) = manager(gateway, "gateway-limits")["early_header_mutation_extensions"]
        removed = [m["remove"] for m in extension["typed_config"]["mutations"]]
        assert removed == [
            "X-Gateway-Model-Name",
            "x-gateway-destination-endpoint",
            "x-gateway-destination-endpoint-subset",
        ]


class TestAnswers:
    def test_the_list_of_models_is_openais(self, gateway: Objects) -> None:
        (route,) = patches(gateway, "gateway-answers", "HTTP_ROUTE", "INSERT_FIRST")
        assert route["match"]["path"] == "/v1/models"
        assert json.loads(route["direct_response"]["body"]["inline_string"]) == {
            "object": "list",
            # A model without pods cannot answer, so it is not listed.
            "data": [
                {"id": "Qwen/Qwen3-32B", "object": "model", "created": 0, "owned_by": "research"}
            ],
        }

    def test_without_models_the_list_is_empty(self, charts: Helm) -> None:
        objects = charts.objects("gateway")
        (route,) = patches(objects, "gateway-answers", "HTTP_ROUTE", "INSERT_FIRST")
        assert json.loads(route["direct_response"]["body"]["inline_string"])["data"] == []

    def test_errors_have_openais_form(self, gateway: Objects) -> None:
        mappers = manager(gateway, "gateway-answers")["local_reply_config"]["mappers"]
        errors = [m["body_format_override"]["json_format"]["error"] for m in mappers]
        assert [m.get("status_code") for m in mappers] == [404, 413, 411, None]
        assert [e["code"] for e in errors] == [
            "model_not_found",
            "request_too_large",
            "length_required",
            "%RESPONSE_CODE%",
        ]
        assert all(set(e) == {"message", "type", "param", "code"} for e in errors)

    def test_successes_are_left_alone(self, gateway: Objects) -> None:
        """The list of models is an answer of the gateway itself too."""
        config = manager(gateway, "gateway-answers")["local_reply_config"]
        assert set(config) == {"mappers"}
        last = config["mappers"][-1]["filter"]["status_code_filter"]["comparison"]
        assert (last["op"], last["value"]["default_value"]) == ("GE", 400)


class TestNetwork:
    def test_the_namespace_is_closed_by_default(self, gateway: Objects) -> None:
        spec = gateway.one("NetworkPolicy", "default-deny")["spec"]
        assert set(spec) == {"podSelector", "policyTypes"}
        assert spec["podSelector"] == {}
        assert spec["policyTypes"] == ["Ingress", "Egress"]

    def test_the_gateway_reaches_what_it_needs(self, gateway: Objects) -> None:
        spec = gateway.one("NetworkPolicy", "gateway")["spec"]
        dns, controller, router, tenants = spec["egress"]
        assert {p["port"] for p in dns["ports"]} == {53}
        assert controller["ports"] == [{"protocol": "TCP", "port": 15012}]
        selector = router["to"][0]["podSelector"]["matchLabels"]
        service = gateway.one("Service", "gateway-body-router")["spec"]["selector"]
        assert selector == service
        (peer,) = tenants["to"]
        assert peer["namespaceSelector"]["matchExpressions"] == [
            {"key": "tokenworks.dev/tenant", "operator": "Exists"}
        ]

    def test_clients_come_from_anywhere_to_the_listener_only(self, charts: Helm) -> None:
        objects = charts.objects("gateway", {"listener": {"port": 8080}})
        spec = objects.one("NetworkPolicy", "gateway")["spec"]
        open_ports = [p["port"] for r in spec["ingress"] if "from" not in r for p in r["ports"]]
        assert open_ports == [8080, 15021]

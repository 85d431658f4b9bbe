"""AWS load balancer controller: what makes the gateway's network load balancer."""

from __future__ import annotations

from typing import Any, Final

from tokenworks.catalog.bill import bill, upstream_values
from tokenworks.render.aws.plan import ENVIRONMENT_TAG, AwsPlan, plan_of
from tokenworks.render.helm import RenderTools
from tokenworks.render.platform import chart_objects, crd_release, crds, image_reference
from tokenworks.render.release import Release
from tokenworks.spec.common import duration_seconds
from tokenworks.spec.stack import Manifest, Stack

KEY: Final = "aws-load-balancer-controller"
NAMESPACE: Final = "kube-system"
ANNOTATION: Final = "service.beta.kubernetes.io/aws-load-balancer-"
CERTIFICATE: Final = f"{ANNOTATION}ssl-cert"
"""ARN of the certificate: known once it is made, so delivery adds it."""
_SECRET: Final = "aws-load-balancer-tls"
_HEALTH_PORT: Final = 15021
"""Istio's gateways tell there whether they serve."""
_LONGEST_DRAIN: Final = 3600
_NOT_OURS: Final = (
    "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "Secret", "Service",
)  # fmt: skip


def wants_load_balancer(stack: Stack) -> bool:
    """Whether the gateway stands behind a load balancer of AWS."""
    spec = stack.environment.spec
    return spec.cluster.aws is not None and spec.gateway.service_type == "LoadBalancer"


def service_annotations(stack: Stack) -> dict[str, str]:
    """What the gateway's Service tells the controller; nothing where it has none of AWS's."""
    if not wants_load_balancer(stack):
        return {}
    plan, gateway = plan_of(stack), stack.environment.spec.gateway
    drain = min(_LONGEST_DRAIN, int(duration_seconds(gateway.request_timeout)))
    told = {
        "type": "external",
        # Straight to the pods: node ports would be open on every node.
        "nlb-target-type": "ip",
        "scheme": plan.spec.load_balancer,
        "healthcheck-protocol": "http",
        "healthcheck-port": str(_HEALTH_PORT),
        "healthcheck-path": "/healthz/ready",
        "additional-resource-tags": ",".join(f"{k}={v}" for k, v in sorted(plan.tags.items())),
        # An answer that has begun is finished.
        "target-group-attributes": f"deregistration_delay.timeout_seconds={drain}",
        **_listener(stack),
    }
    return {f"{ANNOTATION}{key}": value for key, value in told.items()}


def _listener(stack: Stack) -> dict[str, str]:
    """TLS ends at the load balancer, where there is a certificate; else silence is allowed for."""
    gateway, cluster = stack.environment.spec.gateway, stack.environment.spec.cluster.aws
    if cluster is not None and cluster.dns is not None:
        return {
            "ssl-ports": str(gateway.port),
            "ssl-negotiation-policy": "ELBSecurityPolicy-TLS13-1-2-2021-06",
        }
    idle = min(6000, max(60, int(duration_seconds(gateway.idle_timeout))))
    return {f"listener-attributes.TCP-{gateway.port}": f"tcp.idle_timeout.seconds={idle}"}


def controller_values(plan: AwsPlan) -> dict[str, Any]:
    """Values of the upstream chart for this environment."""
    values, image = upstream_values(KEY), bill().image(KEY, "controller")
    reference = image_reference(image).removeprefix(f"{image.repository}:")
    return {
        **values,
        "image": {"repository": image.repository, "tag": reference},
        "clusterName": plan.cluster,
        # Pods do not reach the metadata service that would tell these.
        "region": plan.spec.region,
        "vpcTags": {ENVIRONMENT_TAG: plan.cluster},
    }


def load_balancer(stack: Stack, tools: RenderTools) -> list[Release]:
    """CRDs and controller; nothing where the gateway wants no load balancer."""
    if not wants_load_balancer(stack):
        return []
    values = controller_values(plan_of(stack))
    objects = chart_objects(KEY, values, tools)
    # Its webhooks (and their Service) only help people who write objects for it, and would stop
    # them all while it is away; its certificate is another one each time it is rendered.
    kept = tuple(o for o in objects if o["kind"] not in _NOT_OURS)
    return [
        crd_release(f"{KEY}-crds", crds(bill().components[KEY], tools)),
        Release(KEY, "operators", NAMESPACE, (*kept, *_certificate()), (f"{KEY}-crds",)),
    ]


def _certificate() -> tuple[Manifest, ...]:
    """A Job that makes the certificate which the controller's own server wants to start with."""
    image = bill().image(KEY, "certificate")
    name = "aws-load-balancer-certificate"
    labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "tokenworks"}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
    rights = {
        "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create"],
    }  # fmt: skip
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    rbac = "rbac.authorization.k8s.io/v1"
    return (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata,
         "automountServiceAccountToken": False},
        {"apiVersion": rbac, "kind": "Role", "metadata": metadata, "rules": [rights]},
        {"apiVersion": rbac, "kind": "RoleBinding", "metadata": metadata,
         "roleRef": role, "subjects": [subject]},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            # A Job cannot be changed: another image is another Job.
            "metadata": {**metadata, "name": f"{name}-{str(image.tag).replace('.', '-')}"},
            "spec": {
                "backoffLimit": 6,
                "template": {
                    "metadata": {"labels": labels},
                    "spec": _certificate_pod(name, image_reference(image)),
                },
            },
        },
    )  # fmt: skip


def _certificate_pod(account: str, image: str) -> dict[str, Any]:
    arguments = {
        "host": f"aws-load-balancer-webhook-service.{NAMESPACE}.svc",
        "namespace": NAMESPACE,
        "secret-name": _SECRET,
        "cert-name": "tls.crt",
        "key-name": "tls.key",
    }
    container = {
        "name": "create",
        "image": image,
        "args": ["create", *(f"--{key}={value}" for key, value in arguments.items())],
        "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"},
        },
    }  # fmt: skip
    return {
        "restartPolicy": "OnFailure",
        "serviceAccountName": account,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "nodeSelector": {"tokenworks.dev/pool": "system"},
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }  # fmt: skip

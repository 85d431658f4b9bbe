"""Routers for prefill and decode (`routing.yaml`): what charts must know of each, typed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from tokenworks.errors import UsageError
from tokenworks.spec.common import Document

# YAML reads `2026-11-29` as a date; documents carry text.
_Text = Annotated[str, BeforeValidator(str)]


class ImageRef(Document):
    """An image of the bill (`versions.yaml`)."""

    component: str
    image: str


class Plugin(Document):
    """One entry of the picker's `plugins`."""

    type: str
    parameters: dict[str, Any] = Field(default_factory=dict[str, Any])


class Threshold(Document):
    """Which parameter makes short uncached prompts skip prefill, and what it counts."""

    plugin: str
    parameter: str
    unit: Literal["bytes", "tokens"]


class Decision(Document):
    """The plugins that decide whether a request goes through prefill at all."""

    plugins: tuple[Plugin, ...]
    threshold: Threshold | None = None


class PickerPlugins(Document):
    """The picker's plugins by what they are to us."""

    queue: Plugin
    kv_cache: Plugin
    prefix: Plugin
    prefix_producer: Plugin | None = Field(
        default=None, description="Fills what the prefix scorer reads; None: the scorer does it."
    )
    prefill_filter: Plugin
    decode_filter: Plugin
    best: Plugin = Field(description="Takes the pod with the highest score.")
    headers: Plugin | None = Field(
        default=None,
        description="Tells the sidecar the prefill pod; None: the profile handler does it.",
    )


class Picker(Document):
    """llm-d's endpoint picker in one version."""

    image: ImageRef
    config_api_version: str
    config_kind: str
    plugins: PickerPlugins
    always: Decision = Field(description="Every request goes through prefill.")
    uncached: Decision = Field(description="Only requests with much uncached prompt do.")
    profiles: dict[Literal["prefill", "decode"], str]
    metric_flags: dict[Literal["queued", "kvUsage", "lora", "cacheInfo", "path"], str] | None = (
        Field(description="Say which gauges to scrape; None: the configuration's plugins do.")
    )
    objective_group: str = Field(description="API group of the InferenceObjective it watches.")
    metric_prefixes: tuple[str, ...]


class SidecarFlags(Document):
    """The sidecar's flags by what they are to us."""

    port: str
    engine_port: str
    connector: str
    secure: str
    data_parallel: str


class Sidecar(Document):
    """llm-d's sidecar of decode pods in one version."""

    image: ImageRef
    flags: SidecarFlags
    secure_by_default: bool = Field(description="Serves TLS with a certificate of its own.")
    drains: bool = Field(
        description="Finishes running requests after SIGTERM. If not, it must outlive the engine: "
        "a native sidecar, which the kubelet stops last."
    )
    connectors: dict[str, str] = Field(description="Engine -> how it hands KV over.")
    paths: tuple[str, ...] = Field(description="Requests that it splits; others it passes on.")


class LlmDVersion(Document):
    """Picker and sidecar that belong together."""

    picker: Picker
    sidecar: Sidecar
    prefill_roles: tuple[str, ...] = Field(description="Role labels that the filter lets prefill.")
    decode_roles: tuple[str, ...] = Field(description="Role labels that the filter lets decode.")


class LlmDPorts(Document):
    """Ports of llm-d's router."""

    picker: int
    picker_health: int
    picker_metrics: int
    serving: int = Field(description="The pool's: prefill engines, and sidecars of decode pods.")
    decode_engine: int = Field(description="Decode engines, behind the sidecar.")
    bootstrap: int = Field(description="SGLang's prefill engines, for decode engines.")


class LlmDRouter(Document):
    """llm-d's router: a picker chooses both pods, a sidecar in the decode pod calls prefill."""

    source: str
    date: _Text
    role_label: str
    prefill_header: str
    ports: LlmDPorts
    env: dict[Literal["podIp", "bootstrapPort"], str]
    versions: dict[str, LlmDVersion]

    def version(self, version: str) -> LlmDVersion:
        """The facts of one version.

        Raises:
            UsageError: the catalog does not know it.
        """
        if version not in self.versions:
            known = ", ".join(self.versions)
            raise UsageError(f"unknown llm-d router {version}; the catalog knows {known}")
        return self.versions[version]


class RouterPaths(Document):
    """HTTP paths of a router's own health."""

    liveness: str
    readiness: str


class RouterFlags(Document):
    """A router's flags by what they are to us."""

    host: str
    port: str
    split: str = Field(description="Switches to prefill and decode.")
    prefill: str
    decode: str
    policy: str
    discovery: str
    discovery_namespace: str
    discovery_port: str
    prefill_selector: str
    decode_selector: str
    metrics_host: str
    metrics_port: str
    request_timeout: str
    drain: str | None = Field(description="Seconds running requests get after SIGTERM.")


class PolicyRule(Document):
    """RBAC that a program needs, in Kubernetes' words."""

    api_groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


class WorkerRouter(Document):
    """A router that finds its engines itself and calls prefill and decode."""

    source: str
    date: _Text
    image: ImageRef
    engine: str
    command: tuple[str, ...] = Field(description="Empty: the image's entrypoint.")
    flags: RouterFlags
    switches: tuple[str, ...] = Field(description="Arguments that it gets with NIXL.")
    mooncake: tuple[str, ...] = Field(default=(), description="Those that it gets with Mooncake.")
    port: int
    metrics_port: int
    paths: RouterPaths
    bootstrap_annotation: str = Field(description="On prefill pods: their bootstrap port.")
    rules: tuple[PolicyRule, ...] = Field(description="For discovery, in the engines' namespace.")
    metric_prefix: str
    order: Literal["together", "prefill first"]

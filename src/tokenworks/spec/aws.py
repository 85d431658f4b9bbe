"""Where an environment runs on AWS: network, cluster, storage, and how pools get their nodes."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from tokenworks.catalog.aws import Purchase
from tokenworks.catalog.aws.addons import ADDONS
from tokenworks.spec.common import Between, Document, Form, Size, quantity_value, refused

NODE_DISKS: Final = "/mnt/k8s-disks/0"
"""Where the accelerated images mount the array of a node's NVMe disks."""

NODE_TEMPLATE: Final = "k8s.io/cluster-autoscaler/node-template"
"""Begins the keys of tags that tell the autoscaler what a node of an empty group has."""
LONGEST_TAG: Final = 128
"""Characters of the key of a tag."""

KubernetesVersion = Literal["1.34", "1.35", "1.36"]


def _network(value: str) -> str:
    try:
        network = ipaddress.ip_network(value)
    except ValueError:
        raise refused("", allowed="a network such as 10.0.0.0/16", remedy="correct it") from None
    if network.version != 4:
        raise refused("", allowed="an IPv4 network", remedy="write one such as 10.0.0.0/16")
    return value


_PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
"""RFC 1918. Loopback and link-local addresses are private too, and no VPC has them."""


def _private(value: str) -> str:
    network = ipaddress.IPv4Network(_network(value))
    ours = any(network.subnet_of(ipaddress.IPv4Network(p)) for p in _PRIVATE)
    if not (ours and 16 <= network.prefixlen <= 20):
        raise refused(
            "",
            allowed="a private network of 16 to 20 bits, such as 10.0.0.0/16",
            remedy="every pod takes an address of it, so leave room",
        )
    return value


def _not_everyone(value: str) -> str:
    if ipaddress.ip_network(_network(value)).prefixlen < 8:
        raise refused(
            "",
            allowed="networks of yours, of at least 8 bits",
            remedy="name the networks that reach the API server, such as a VPN's",
        )
    return value


def _one_of(*allowed: int) -> AfterValidator:
    """A number that AWS sells; a Literal of numbers would be told in pydantic's words."""

    def check(value: int) -> int:
        if value not in allowed:
            raise refused(
                f"found the number {value}",
                allowed=", ".join(str(number) for number in allowed),
                remedy="write one of these",
            )
        return value

    return AfterValidator(check)


RoleArn = Annotated[
    str,
    Form(
        r"arn:aws:iam::[0-9]{12}:role/[\w+=,.@/-]{1,128}",
        "the ARN of an IAM role, such as arn:aws:iam::123456789012:role/platform-admin",
        "users and keys that live long are not for clusters: name a role",
    ),
]
SecretArn = Annotated[
    str,
    Form(
        r"arn:aws:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:ecr-pullthroughcache/[\w/+=.@-]+",
        "the ARN of a secret whose name begins with ecr-pullthroughcache/",
        "ECR reads no other secret",
    ),
]
AddonName = Annotated[
    str,
    Form("|".join(ADDONS), "one of " + ", ".join(ADDONS), "others are not installed"),
]
AddonVersion = Annotated[
    str,
    Form(
        r"v[0-9]+\.[0-9]+\.[0-9]+-eksbuild\.[0-9]+",
        "a version such as v1.35.3-eksbuild.17",
        "`aws eks describe-addon-versions --kubernetes-version 1.35 --addon-name NAME` lists them",
    ),
]
Prefix = Annotated[
    str,
    Form(
        r"[a-z]([a-z0-9]|-(?=[a-z0-9]))+",
        "2 to 30 lower-case letters, digits and single dashes, a letter first",
        max_length=30,
    ),
]
"""Of repositories in ECR (botocore's model of ecr:CreatePullThroughCacheRule)."""
Registry = Literal[
    "public.ecr.aws", "registry.k8s.io", "quay.io", "registry-1.docker.io", "ghcr.io"
]
ASKS_FOR_CREDENTIALS: Final = ("registry-1.docker.io", "ghcr.io")
"""Registries whose cache ECR makes only with credentials."""


class AwsNetwork(Document):
    """The VPC: private subnets for nodes, public ones for load balancers and NAT only."""

    cidr: Annotated[str, AfterValidator(_private)] = Field(
        default="10.0.0.0/16", description="Addresses of the VPC; nodes and pods share them."
    )
    nat: Literal["one", "per-zone"] = Field(
        default="per-zone",
        description="NAT gateways: one is cheaper, and every zone loses the internet with its own.",
    )
    log_days: Annotated[int, _one_of(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400)] = Field(
        default=90, description="Days that flow logs and control-plane logs are kept."
    )


class AwsAccess(Document):
    """Who reaches the API server, which has a private endpoint only."""

    admins: Annotated[tuple[RoleArn, ...], Field(max_length=16)] = Field(
        description="Roles that administer the cluster."
    )
    viewers: Annotated[tuple[RoleArn, ...], Field(max_length=32)] = Field(
        default=(), description="Roles that may look."
    )
    networks: Annotated[
        tuple[Annotated[str, AfterValidator(_not_everyone)], ...], Field(max_length=16)
    ] = Field(
        default=(),
        description="Networks outside the VPC that reach the endpoint, such as a VPN's.",
    )

    @model_validator(mode="after")
    def _somebody(self) -> AwsAccess:
        if not self.admins:
            raise refused(
                "found none, and nobody else could enter the cluster",
                allowed="at least one role",
                remedy="add the ARN of a role",
                field="admins",
            )
        return self


class SystemPool(Document):
    """Nodes without GPUs, for operators, gateway and add-ons."""

    instance_type: str = Field(description="Instance type in the catalog, e.g. m7i.2xlarge.")
    min_nodes: Annotated[int, Field(ge=2, le=50)] = Field(
        default=3, description="Fewest nodes; two at least, for disruptions."
    )
    max_nodes: Annotated[int, Field(ge=2, le=100)] = Field(default=6, description="Most nodes.")

    @model_validator(mode="after")
    def _ordered(self) -> SystemPool:
        if self.max_nodes < self.min_nodes:
            raise refused(
                f"found {self.max_nodes}, but minNodes is {self.min_nodes}",
                allowed=f"at least {self.min_nodes}",
                remedy="raise maxNodes",
                field="maxNodes",
            )
        return self


class NodeSoftware(Document):
    """Who installs each part of a GPU node: exactly one owner each."""

    image: Literal["accelerated", "plain"] = Field(
        default="accelerated",
        description="accelerated: the EKS image with driver, toolkit and EFA; plain: without, and "
        "refused, as nobody else brings a driver for it.",
    )
    driver: Literal["image", "gpu-operator"] = Field(default="image", description="GPU driver.")
    toolkit: Literal["image", "gpu-operator"] = Field(
        default="image", description="Container toolkit and RuntimeClass."
    )
    gpus: Literal["device-plugin", "gpu-operator", "dra"] = Field(
        default="device-plugin",
        description="What offers GPUs to pods; dra: NVIDIA's driver for dynamic resource "
        "allocation, with Kubernetes 1.36, in node groups of a fixed size.",
    )
    efa: Literal["device-plugin", "dra"] = Field(
        default="device-plugin", description="What offers EFA interfaces to pods."
    )
    metrics: Literal["dcgm-exporter", "gpu-operator"] = Field(
        default="dcgm-exporter", description="GPU metrics, for namespace monitoring."
    )
    labels: Literal["feature-discovery", "gpu-operator"] = Field(
        default="feature-discovery", description="Labels that describe the GPUs of a node."
    )


class Lustre(Document):
    """A shared file system, filled from the weights bucket as files are read."""

    capacity: Annotated[Size, Between(quantity_value, "1200Gi", "100Ti")] = Field(
        default="2400Gi", description="1200Gi, or a multiple of 2400Gi."
    )
    megabytes_per_second: Annotated[int, _one_of(125, 250, 500, 1000)] = Field(
        default=250, description="Throughput for each TiB."
    )

    @model_validator(mode="after")
    def _sold(self) -> Lustre:
        gib = quantity_value(self.capacity) / 2**30
        if gib != 1200 and gib % 2400:
            raise refused(
                f"found {self.capacity}",
                allowed="1200Gi, or a multiple of 2400Gi",
                remedy="round it up",
                field="capacity",
            )
        return self


class WeightsStore(Document):
    """Where weights are kept: a bucket, and a file system in front of it."""

    bucket: Annotated[
        str,
        Form(
            r"(?!xn--|sthree-|amzn-s3-demo-)(?!.*(-s3alias|--ol-s3|--x-s3|--table-s3)$)"
            r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]",
            "a bucket's name: 3 to 63 lower-case letters, digits and dashes, without the "
            "beginnings and ends that S3 keeps for itself, such as xn-- and -s3alias",
            "names are unique over all accounts: put yours into it",
        ),
    ] = Field(description="Name of the bucket that is made.")
    lustre: Lustre | None = Field(
        default=None, description="FSx for Lustre in front of the bucket; default: none."
    )


class CachedRegistry(Document):
    """A registry whose images ECR keeps a copy of."""

    registry: Registry = Field(description="Where images come from.")
    credentials: SecretArn | None = Field(
        default=None, description="Docker Hub and GitHub: the secret with user and token."
    )

    @model_validator(mode="after")
    def _credentials_where_asked(self) -> CachedRegistry:
        asked = self.registry in ASKS_FOR_CREDENTIALS
        if asked and self.credentials is None:
            raise refused(
                f"is missing, and ECR caches {self.registry} only with credentials",
                allowed="the ARN of a secret",
                remedy="add it",
                field="credentials",
            )
        if not asked and self.credentials is not None:
            raise refused(
                f"has no meaning: {self.registry} is public",
                remedy="remove it",
                field="credentials",
            )
        return self


class Dns(Document):
    """The gateway's name and certificate."""

    zone: Annotated[
        str,
        Form(
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+",
            "a domain, such as example.com",
            max_length=200,
        ),
    ] = Field(description="Public hosted zone that exists already and holds gateway.hostname.")
    zone_id: Annotated[
        str, Form(r"Z[A-Z0-9]{5,31}", "an identifier such as Z0123456789ABCDEFGHIJ")
    ] = Field(description="Its identifier in Route 53.")


class AwsCluster(Document):
    """An EKS cluster, from an empty account."""

    account: Annotated[
        str, Form(r"[0-9]{12}", "an account number of 12 digits", 'write it in quotes: "123…"')
    ] = Field(description="Number of the account; credentials of another are refused.")
    region: str = Field(description="Region, e.g. us-east-1.")
    zones: Annotated[tuple[str, ...], Field(min_length=2, max_length=6)] = Field(
        description="Availability zones with subnets; EKS wants two."
    )
    kubernetes_version: KubernetesVersion = Field(
        default="1.35", description="Minor version of control plane and nodes."
    )
    node_release: Annotated[
        str,
        Form(
            r"1\.[0-9]{2}\.[0-9]{1,2}-20[0-9]{6}|unresolved",
            "a release of the EKS images, such as 1.35.6-20260728, or `unresolved`",
            "see the releases of awslabs/amazon-eks-ami",
        ),
    ] = Field(description="Release of the node images; nodes never take the newest by themselves.")
    addon_versions: dict[AddonName, AddonVersion] = Field(
        default_factory=dict[AddonName, AddonVersion],
        description="Add-on of EKS: its version; default: the catalog's for kubernetesVersion.",
    )
    network: AwsNetwork = Field(default=AwsNetwork(), description="The VPC.")
    access: AwsAccess = Field(description="Who reaches the API server.")
    system_pool: SystemPool = Field(description="Nodes without GPUs.")
    node_software: NodeSoftware = Field(
        default=NodeSoftware(), description="Who installs what on GPU nodes."
    )
    weights: WeightsStore | None = Field(default=None, description="Bucket and file system.")
    registry_cache: dict[Prefix, CachedRegistry] = Field(
        default_factory=dict[str, CachedRegistry],
        description="Prefix of repositories in ECR: the registry they are copies of.",
    )
    load_balancer: Literal["internal", "internet-facing"] = Field(
        default="internal",
        description="Who reaches the gateway: whoever reaches the VPC, or everybody.",
    )
    dns: Dns | None = Field(default=None, description="Name and certificate of the gateway.")
    cost_center: Annotated[
        str,
        Form(
            r"(?! )[\w .:/=+@-]{1,128}(?<! )",
            "up to 128 letters, digits, blanks within and .:/=+@-",
            "name the team or budget that pays",
        ),
    ] = Field(description="Who pays; a tag of every resource.")


class AwsPool(Document):
    """How a pool gets its nodes on AWS."""

    instance_type: str = Field(description="Instance type in the catalog, e.g. p5.48xlarge.")
    zones: Annotated[tuple[str, ...], Field(max_length=6)] = Field(
        default=(), description="Default: the cluster's; a pool with EFA has exactly one."
    )
    manager: Literal["node-group", "karpenter"] = Field(
        default="node-group",
        description="node-group: an EKS managed node group, scaled by the cluster autoscaler; "
        "karpenter: nodes as pods ask for them.",
    )
    purchase: Purchase = Field(default="on-demand", description="How capacity is bought.")
    reservation: (
        Annotated[
            str,
            Form(r"cr-[0-9a-f]{8,17}", "an identifier such as cr-0123456789abcdef0"),
        ]
        | None
    ) = Field(default=None, description="reservation and capacity-block: which one.")
    min_nodes: Annotated[int, Field(ge=0, le=10000)] = Field(
        default=0, description="node-group: nodes that always run; the pool's `nodes` is the most."
    )
    placement_group: bool | None = Field(
        default=None,
        description="Nodes close together in one zone; default: with EFA, outside capacity blocks.",
    )
    root_volume: Annotated[Size, Between(quantity_value, "50Gi", "16Ti")] = Field(
        default="200Gi", description="Encrypted disk of each node, for images and logs."
    )

    @property
    def reserved(self) -> bool:
        """Whether it runs in capacity that was bought before."""
        return self.purchase in ("reservation", "capacity-block")

    @model_validator(mode="after")
    def _reservation_where_asked(self) -> AwsPool:
        if self.reserved and self.reservation is None:
            raise refused(
                f"is missing, and purchase {self.purchase} needs it",
                allowed="an identifier such as cr-0123456789abcdef0",
                remedy="add it, or choose another purchase",
                field="reservation",
            )
        if not self.reserved and self.reservation is not None:
            raise refused(
                f"has no meaning with purchase {self.purchase}",
                remedy="remove it, or choose purchase reservation or capacity-block",
                field="reservation",
            )
        if self.manager == "karpenter" and self.min_nodes:
            raise refused(
                f"found {self.min_nodes}, but Karpenter keeps no nodes without pods",
                allowed="0",
                remedy="remove it, or choose manager node-group",
                field="minNodes",
            )
        return self

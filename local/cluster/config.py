"""Configuration files and command lines of every component: pure functions of paths and spec."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from local.cluster import sandbox
from local.cluster.machine import Host
from local.cluster.spec import (
    API_PORT,
    FIRST_POD_IP,
    NODE_IP,
    POD_CIDR,
    SERVICE_CIDR,
    ClusterSpec,
    Paths,
    Programs,
)

CLUSTER_DOMAIN = "cluster.local"
PAUSE_IMAGE = "registry.k8s.io/pause:3.10.1"
HELPER_IMAGE = "docker.io/library/busybox:1.36"
RIGHTS = "rights"
"""Stands among what a component waits for, for roles that are no part of Kubernetes."""
USERS = (
    "controller-manager", "scheduler", "proxy", "kubelet", "coredns", "kwok", "provisioner",
)  # fmt: skip
"""Components that reach the API server through a kubeconfig."""


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False)  # pyright: ignore[reportUnknownMemberType]


def node_name(spec: ClusterSpec) -> str:
    """Name of the real node."""
    return f"{spec.name}-0"


def kubeconfig(paths: Paths, identity: str, server: str) -> str:
    """A kubeconfig with everything inside it."""

    def inline(name: str) -> str:
        return base64.b64encode((paths.pki / name).read_bytes()).decode()

    name = f"tokenworks-{paths.name}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [
            {
                "name": name,
                "cluster": {"server": server, "certificate-authority-data": inline("ca.crt")},
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": identity}}],
        "users": [
            {
                "name": identity,
                "user": {
                    "client-certificate-data": inline(f"{identity}.crt"),
                    "client-key-data": inline(f"{identity}.key"),
                },
            }
        ],
    }
    return _yaml(document)


def containerd_toml(paths: Paths, host: Host) -> str:
    """containerd's configuration; version 2 is read by every release since 1.3."""
    snapshotter = "overlayfs" if host.overlayfs else "native"
    oom = "false" if host.may_lower_oom_score else "true"
    return f"""version = 2
root = "{paths.root}/containerd"
state = "{paths.root}/run/state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", \
"io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", \
"io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]

[grpc]
  address = "{paths.containerd_socket}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{paths.root}/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = {oom}
  netns_mounts_under_state_dir = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{host.cni}"
    conf_dir = "{paths.etc}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def cni_conflist() -> str:
    """The pod network: a link of its own for each pod, routed by the node.

    On a bridge, answers of a Service's pod would return to a neighbour without passing
    the node, whose translation of addresses they need (br_netfilter is not everywhere).
    """
    address_management = {
        "type": "host-local",
        "ranges": [[{"subnet": POD_CIDR, "rangeStart": FIRST_POD_IP, "gateway": NODE_IP}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    plugins = [
        {"type": "ptp", "ipam": address_management},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return json.dumps({"cniVersion": "0.4.0", "name": "tokenworks", "plugins": plugins}, indent=1)


def kubelet_config(paths: Paths, host: Host, spec: ClusterSpec) -> dict[str, Any]:
    """KubeletConfiguration."""
    taints = [{"key": k, "value": v, "effect": e} for k, v, e in spec.real.taints]
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_IP,
        "healthzBindAddress": "127.0.0.1",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{paths.pki}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{paths.pki}/kubelet.crt",
        "tlsPrivateKeyFile": f"{paths.pki}/kubelet.key",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": sandbox.cgroup_root(paths),
        "enforceNodeAllocatable": [],
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [NODE_IP],
        "clusterDomain": CLUSTER_DOMAIN,
        "containerRuntimeEndpoint": f"unix://{paths.containerd_socket}",
        "resolvConf": f"{paths.etc}/resolv.conf",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        # Nothing can be pulled again, so images are never collected; a nearly full
        # disk of the host is not the cluster's affair.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "100Mi", "nodefs.available": "1%",
            "nodefs.inodesFree": "1%", "imagefs.available": "1%", "imagefs.inodesFree": "1%",
        },
        "registerWithTaints": taints,
        "maxPods": 110,
        "shutdownGracePeriod": "0s",
        "syncFrequency": "30s",
        "nodeStatusUpdateFrequency": "5s",
        "oomScoreAdj": -999 if host.may_lower_oom_score else 0,
        "logging": {"verbosity": 1},
    }  # fmt: skip


def proxy_config(paths: Paths, host: Host, node: str) -> dict[str, Any]:
    """KubeProxyConfiguration: nftables mode, no sysctls of the host touched."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": f"{paths.etc}/proxy.kubeconfig"},
        "clusterCIDR": POD_CIDR,
        "hostnameOverride": node,
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "conntrack": {"maxPerCore": 0, "min": 0},
        "nftables": {"minSyncPeriod": "100ms"},
        "nodePortAddresses": ["primary"],
        "oomScoreAdj": -999 if host.may_lower_oom_score else 0,
    }


def corefile(paths: Paths) -> str:
    """CoreDNS: cluster names only; nothing lies beyond.

    Its last zone, the root, makes every other name one that does not exist; without it
    they would be refused, and a program would wait and ask again.
    """
    return f""".:53 {{
    bind {NODE_IP}
    errors
    health 127.0.0.1:8079
    ready 127.0.0.1:8181
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa . {{
        kubeconfig {paths.etc}/coredns.kubeconfig
        pods verified
        ttl 5
    }}
    cache 5
    loadbalance
}}
"""


def provisioner_files(paths: Paths) -> dict[str, str]:
    """Configuration of the storage provisioner: where volumes go, and its helper pod."""
    volumes = f"{paths.root}/volumes"
    config = {"nodePathMap": [{"node": "DEFAULT_PATH_FOR_NON_LISTED_NODES", "paths": [volumes]}]}
    helper = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "helper-pod"},
        "spec": {
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {"name": "helper-pod", "image": HELPER_IMAGE, "imagePullPolicy": "IfNotPresent"}
            ],
        },
    }
    return {
        "config.json": json.dumps(config),
        "setup": '#!/bin/sh\nset -eu\nmkdir -m 0777 -p "$VOL_DIR"\n',
        "teardown": '#!/bin/sh\nset -eu\nrm -rf "$VOL_DIR"\n',
        "helperPod.yaml": _yaml(helper),
    }


def kwok_stages(folder: Path) -> str:
    """KWOK's own stages in one file: nodes that are ready at once, pods that run at once."""
    parts = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
    found = [p for part in parts for p in sorted((folder / part).glob("*.yaml"))]
    return "---\n".join(p.read_text() for p in found if p.name != "kustomization.yaml")


def files(paths: Paths, host: Host, spec: ClusterSpec, programs: Programs) -> dict[Path, str]:
    """Every configuration file and its text."""
    api = f"https://{NODE_IP}:{API_PORT}"
    found = {paths.etc / f"{u}.kubeconfig": kubeconfig(paths, u, api) for u in USERS}
    found[paths.etc / "containerd.toml"] = containerd_toml(paths, host)
    found[paths.etc / "cni" / "10-tokenworks.conflist"] = cni_conflist()
    found[paths.etc / "kubelet.yaml"] = _yaml(kubelet_config(paths, host, spec))
    found[paths.etc / "proxy.yaml"] = _yaml(proxy_config(paths, host, node_name(spec)))
    found[paths.etc / "Corefile"] = corefile(paths)
    found[paths.etc / "resolv.conf"] = f"nameserver {NODE_IP}\n"
    found[paths.etc / "kwok.yaml"] = kwok_stages(programs.kwok_stages)
    for name, text in provisioner_files(paths).items():
        found[paths.etc / "provisioner" / name] = text
    return found


def _etcd(paths: Paths) -> list[str]:
    pki, client, peer = paths.pki, "https://127.0.0.1:2379", "https://127.0.0.1:2380"
    return [
        "etcd", f"--data-dir={paths.root}/etcd", f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
        "--client-cert-auth", f"--trusted-ca-file={pki}/etcd-ca.crt",
        f"--cert-file={pki}/etcd.crt", f"--key-file={pki}/etcd.key", "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={pki}/etcd-ca.crt", f"--peer-cert-file={pki}/etcd.crt",
        f"--peer-key-file={pki}/etcd.key", "--log-level=warn", "--auto-compaction-retention=1h",
        # A cluster that can be made again in a minute need not wait for the disk.
        "--unsafe-no-fsync",
    ]  # fmt: skip


def _apiserver(paths: Paths) -> list[str]:
    pki = paths.pki
    return [
        "kube-apiserver", f"--advertise-address={NODE_IP}", f"--secure-port={API_PORT}",
        "--etcd-servers=https://127.0.0.1:2379", f"--etcd-cafile={pki}/etcd-ca.crt",
        f"--etcd-certfile={pki}/etcd-client.crt", f"--etcd-keyfile={pki}/etcd-client.key",
        f"--client-ca-file={pki}/ca.crt", f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key", "--anonymous-auth=false",
        f"--service-account-key-file={pki}/service-account.pub",
        f"--service-account-signing-key-file={pki}/service-account.key",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-cluster-ip-range={SERVICE_CIDR}", "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
        f"--kubelet-client-certificate={pki}/apiserver-kubelet.crt",
        f"--kubelet-client-key={pki}/apiserver-kubelet.key",
        f"--kubelet-certificate-authority={pki}/ca.crt",
        "--kubelet-preferred-address-types=InternalIP",
        f"--requestheader-client-ca-file={pki}/front-proxy-ca.crt",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={pki}/front-proxy.crt",
        f"--proxy-client-key-file={pki}/front-proxy.key", "--profiling=false",
        "--shutdown-delay-duration=0s",
    ]  # fmt: skip


def _controllers(paths: Paths) -> list[str]:
    config, pki = f"{paths.etc}/controller-manager.kubeconfig", paths.pki
    return [
        "kube-controller-manager", f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}",
        f"--service-account-private-key-file={pki}/service-account.key",
        f"--root-ca-file={pki}/ca.crt", f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key", "--use-service-account-credentials",
        "--leader-elect=false", "--bind-address=127.0.0.1", "--allocate-node-cidrs=false",
        f"--cluster-name=tokenworks-{paths.name}", "--profiling=false",
    ]  # fmt: skip


def _scheduler(paths: Paths) -> list[str]:
    config = f"{paths.etc}/scheduler.kubeconfig"
    return [
        "kube-scheduler", f"--kubeconfig={config}", f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}", "--leader-elect=false",
        "--bind-address=127.0.0.1", "--profiling=false",
    ]  # fmt: skip


def _kubelet(paths: Paths, spec: ClusterSpec) -> list[str]:
    return [
        "kubelet", f"--config={paths.etc}/kubelet.yaml",
        f"--kubeconfig={paths.etc}/kubelet.kubeconfig", f"--node-ip={NODE_IP}",
        f"--hostname-override={node_name(spec)}",
    ]  # fmt: skip


@dataclass(frozen=True)
class Component:
    """One supervised program. `after` names what must be there before it starts."""

    name: str
    argv: tuple[str, ...]
    after: tuple[str, ...] = ()
    ready: str = ""
    """URL or `unix:<socket>` that answers when it is ready; empty: running is ready."""
    trust: str = ""
    """Authority of pki.AUTHORITIES that vouches for the URL; empty: nobody does."""


def components(paths: Paths, spec: ClusterSpec, programs: Programs) -> tuple[Component, ...]:
    """What the supervisor runs, in the order in which it starts them."""
    kube, api = str(programs.kube), f"https://{NODE_IP}:{API_PORT}/readyz"
    after, rights = ("kube-apiserver",), ("kube-apiserver", RIGHTS)
    return (
        Component("etcd", (kube, *_etcd(paths)), ready="https://127.0.0.1:2379/health",
                  trust="etcd-ca"),
        Component("containerd", ("containerd", "--config", f"{paths.etc}/containerd.toml"),
                  ready=f"unix:{paths.containerd_socket}"),
        Component("kube-apiserver", (kube, *_apiserver(paths)), ("etcd",), api, "ca"),
        Component("kube-controller-manager", (kube, *_controllers(paths)), after,
                  "https://127.0.0.1:10257/healthz"),
        Component("kube-scheduler", (kube, *_scheduler(paths)), after,
                  "https://127.0.0.1:10259/healthz"),
        Component("kubelet", (kube, *_kubelet(paths, spec)), (*after, "containerd"),
                  "http://127.0.0.1:10248/healthz"),
        Component("kube-proxy", (kube, "kube-proxy", f"--config={paths.etc}/proxy.yaml"), after,
                  "http://127.0.0.1:10256/livez"),
        Component("coredns", (str(programs.coredns), "-conf", f"{paths.etc}/Corefile"), rights,
                  "http://127.0.0.1:8181/ready"),
        Component("kwok", (str(programs.kwok), f"--kubeconfig={paths.etc}/kwok.kubeconfig",
                           "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
                           f"--config={paths.etc}/kwok.yaml", "--node-lease-duration-seconds=40",
                           "--server-address=127.0.0.1:10247"), rights,
                  "http://127.0.0.1:10247/healthz"),
        Component("storage-provisioner",
                  (str(programs.provisioner), "start",
                   f"--config={paths.etc}/provisioner/config.json",
                   f"--kubeconfig={paths.etc}/provisioner.kubeconfig",
                   "--provisioner-name=rancher.io/local-path", f"--helper-image={HELPER_IMAGE}",
                   "--namespace=local-path-storage", "--configmap-name=local-path-config",
                   f"--helper-pod-file={paths.etc}/provisioner/helperPod.yaml",
                   "--service-account-name=default"), rights),
    )  # fmt: skip

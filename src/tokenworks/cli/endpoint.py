"""The address of an environment's gateway, as seen from this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tokenworks.errors import TokenworksError
from tokenworks.spec.stack import Stack

GATEWAY = "gateway"


def gateway_service(stack: Stack) -> str:
    """Name of the Service that the gateway's implementation makes for the Gateway."""
    return f"{GATEWAY}-{stack.environment.spec.gateway.implementation}"


@contextmanager
def gateway_url(stack: Stack) -> Iterator[str]:
    """An http URL of the gateway that works on this machine while the context lasts.

    Raises:
        TokenworksError: the gateway cannot be reached from here.
    """
    gateway = stack.environment.spec.gateway
    if stack.environment.spec.cluster.provider == "local":
        from local import cluster  # noqa: PLC0415 - only where the local cluster is used

        from tokenworks.cli.local import kube_programs  # noqa: PLC0415

        address = cluster.forward_service(
            stack.name, gateway.namespace, gateway_service(stack), gateway.port, kube_programs()
        )
        yield f"http://{address}"
        return
    with _port_forward(stack) as url:
        yield url


@contextmanager
def _port_forward(stack: Stack) -> Iterator[str]:
    spec = stack.environment.spec
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        raise TokenworksError("kubectl is not on PATH: it forwards to the gateway of this environment")
    command = [kubectl, "-n", spec.gateway.namespace, "port-forward"]
    command += ["--context", spec.cluster.context] if spec.cluster.context else []
    command += ["--kubeconfig", spec.cluster.kubeconfig] if spec.cluster.kubeconfig else []
    command += [f"service/{gateway_service(stack)}", f":{spec.gateway.port}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            match = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            if match is None:
                raise TokenworksError(f"kubectl port-forward failed: {process.stderr.read().strip()}")
            yield f"http://127.0.0.1:{match[1]}"
        finally:
            process.terminate()

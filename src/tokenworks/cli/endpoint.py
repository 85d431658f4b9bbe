"""The address of an environment's gateway, as seen from this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager

from tokenworks.check.kubectl import reason
from tokenworks.errors import TokenworksError
from tokenworks.spec.stack import Stack

GATEWAY = "gateway"


def gateway_service(stack: Stack) -> str:
    """Name of the Service that the gateway's implementation makes for the Gateway."""
    return f"{GATEWAY}-{stack.environment.spec.gateway.implementation}"


@contextmanager
def gateway_url(stack: Stack) -> Generator[str]:
    """An http URL of the gateway that works on this machine while the context lasts.

    Raises:
        TokenworksError: the gateway cannot be reached from here.
    """
    gateway = stack.environment.spec.gateway
    if stack.environment.spec.cluster.provider == "local":
        from local import cluster  # noqa: PLC0415 - only where the local cluster is used

        address = cluster.forward(
            stack.name, gateway.namespace, gateway_service(stack), gateway.port
        )
        yield f"http://{address}"
        return
    with _port_forward(stack) as url:
        yield url


def kubectl(stack: Stack) -> list[str]:
    """A kubectl call on the environment's cluster, without its own arguments.

    Raises:
        TokenworksError: kubectl is absent, or the local cluster does not run.
    """
    cluster = stack.environment.spec.cluster
    if cluster.provider == "local":
        from local.cluster import kubectl_command  # noqa: PLC0415

        return kubectl_command(stack.name, ())
    program = shutil.which("kubectl")
    if program is None:
        raise TokenworksError("kubectl is not on PATH: it reaches the cluster of this environment")
    command = [program, "--context", stack.kube_context]
    return command if stack.kubeconfig is None else [*command, "--kubeconfig", stack.kubeconfig]


def remedy(stack: Stack) -> str:
    """What to try when the environment's cluster does not answer as it should."""
    if stack.environment.spec.cluster.provider == "local":
        return (
            f"Is it up? ./tokenworks local status --env {stack.name}, ./tokenworks up {stack.name}"
        )
    return (
        f"Is it up? ./tokenworks up {stack.name}. Is it the right one? context "
        f"{stack.kube_context}, from stacks/{stack.name}/environment.yaml"
    )


@contextmanager
def _port_forward(stack: Stack) -> Generator[str]:
    gateway = stack.environment.spec.gateway
    command = [*kubectl(stack), "-n", gateway.namespace, "port-forward"]
    command += [f"service/{gateway_service(stack)}", f":{gateway.port}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            match = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
            if match is None:
                process.terminate()  # which ends its messages
                why = reason(process.stderr.read(), process.wait())
                raise TokenworksError(f"the gateway cannot be reached: {why}\n{remedy(stack)}")
            yield f"http://127.0.0.1:{match[1]}"
        finally:
            process.terminate()

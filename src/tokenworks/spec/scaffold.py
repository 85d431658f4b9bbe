"""First versions of documents: commented, valid, and refused where something exists already.

A new document is checked together with the whole environment before it is put in place,
so a command that fails leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final, Literal

from tokenworks.catalog.engines import load_engines
from tokenworks.errors import TokenworksError, UsageError, nearest
from tokenworks.spec.environment import Provider
from tokenworks.spec.load import environment_names, load_stack
from tokenworks.spec.problems import shown
from tokenworks.spec.sourced import EngineCatalog
from tokenworks.spec.stack import Stack
from tokenworks.spec.tenant import Tenant
from tokenworks.spec.yamlsource import plain_value

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
FIRST_TENANT: Final = "team"
"""Tenant of a new environment, for its owner to rename."""

_SCHEMA: Final = "# yaml-language-server: $$schema=${up}schemas/${schema}.schema.json\n"

_ENVIRONMENT: Final = Template(
    _SCHEMA
    + """#
# Node pools, platform and gateway of the environment ${name}.
apiVersion: tokenworks.dev/v1alpha1
kind: Environment
metadata:
  name: ${name}
spec:
  cluster:
${cluster}
  nodePools:
    # What quota and checks count on: change it to the nodes that are there.
    ${pool}:
      gpu: nvidia-h100-80gb
      gpusPerNode: 8
      nodes: 1
      labels:
        # ${labelled}
        tokenworks.dev/pool: ${pool}
  gateway:
    # ClusterIP where nothing hands out load balancers.
    serviceType: ${service}
    # The default for routes that set none; covers a whole answer.
    requestTimeout: 300s
"""
)

_CLUSTER: Final[Mapping[Provider, str]] = {
    "local": "    # A Kubernetes that `./tokenworks up` starts on this machine.\n"
    "    provider: local",
    "kind": "    # A cluster that kind makes.\n    provider: kind",
    "existing": "    # A cluster that is there already: a context of the kubeconfig that\n"
    "    # $$KUBECONFIG names.\n    provider: existing\n    context: ${context}",
}

_TENANT: Final = Template(
    _SCHEMA
    + """#
# Who owns models and how many GPUs they may hold. Rename it: file and name are the same.
apiVersion: tokenworks.dev/v1alpha1
kind: Tenant
metadata:
  name: ${name}
spec:
  quota:
    ${pool}:
      gpus: 8
"""
)

_MODEL: Final = Template(
    _SCHEMA
    + """#
# One file is one release: its commit rolls it out, its revert takes it back.
apiVersion: tokenworks.dev/v1alpha1
kind: ModelRelease
metadata:
  name: ${name}
spec:
  tenant: ${tenant}
  model:
${weights}
  engine:
    name: ${engine}
    version: ${version}
${place}  resources:
${resources}
${startup}"""
)

_SIMULATED: Final = {
    "weights": """    # The simulator reads no weights; the size only has to be more than zero.
    uri: dummy://${name}
    size: 1Mi
    # Tokens of prompt and answer together.
    maxContext: 8192""",
    "resources": """    gpus: ${gpus}
    cpu: 50m
    memory: 192Mi
    ephemeralStorage: 256Mi""",
    "startup": """  caches:
    weights:
      kind: none
  startup:
    load: 60s
    drain: 10s
""",
}

_REAL: Final = {
    "weights": """    # hf://org/name, s3://bucket/prefix, gs://bucket/prefix or pvc://claim/path
    uri: ${uri}
${revision}    # Bytes on disk: start-up time and storage are computed from it. Correct it.
    size: 2G
    # Tokens of prompt and answer together; more needs more GPU memory.
    maxContext: 8192""",
    "resources": """    # Each layer is divided over all of them.
    gpus: ${gpus}
    cpu: "4"
    memory: 16Gi
    ephemeralStorage: 20Gi""",
    "startup": """  startup:
    # Bandwidth to the weights, and the time from weights on disk to healthy.
    downloadBytesPerSecond: 100M
    load: 300s
    # The longest answer to wait for when a pod stops.
    drain: 120s
""",
}

_REVISION: Final = """\
    # The hub's commit to serve. Until it is known previews warn and `up` refuses.
    revision: unresolved
"""


@dataclass(frozen=True)
class Wanted:
    """What the user said about a new model; None: for us to choose."""

    engine: Literal["vllm", "simulator"] | None = None
    """Default: simulator where the provider makes the cluster, otherwise vllm."""
    tenant: str | None = None
    """Default: the environment's only tenant."""
    uri: str | None = None
    """Weights; an engine that loads some needs it."""


@dataclass(frozen=True)
class _Place:
    """Where a new model goes."""

    engine: str
    tenant: str
    pool: str | None
    replicas: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about the choice."""
        if self.replicas > 0:
            return ()
        return (
            f"tenant {self.tenant} has no GPU left on pool {self.pool}: replicas is 0; raise its "
            "quota, then replicas",
        )


@dataclass(frozen=True)
class Written:
    """What was written."""

    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    """What the writer decided and the user should know."""


def new_environment(
    root: Path, name: str, provider: Provider = "existing", context: str | None = None
) -> Written:
    """Writes `stacks/<name>/` with an environment and a first tenant.

    `context` is the kubeconfig context for provider existing (default: the name).
    Raises `UsageError` when the name is not one, is taken, or the context has no use.
    """
    _check_name(name)
    if name in environment_names(root) or (root / "stacks" / name).exists():
        raise UsageError(f"stacks/{name} exists already: choose another name, or edit its files")
    if context is not None and provider != "existing":
        raise UsageError(f"--context is for provider existing; provider {provider} makes its own")
    if provider == "aws":
        raise UsageError("an environment on AWS has no short form: copy stacks/staging and edit it")
    pool = "h100" if provider == "existing" else "sim"
    values = {
        "name": name,
        "pool": pool,
        "cluster": Template(_CLUSTER[provider]).substitute(context=_quoted(context or name)),
        "service": "LoadBalancer" if provider == "existing" else "ClusterIP",
        "labelled": "Label the pool's nodes with this: queues and pods find them by it."
        if provider == "existing"
        else "The node carries this label: queues and pods find it by it.",
    }
    texts = {
        "environment.yaml": _ENVIRONMENT.substitute(values, up="../../", schema="environment"),
        f"tenants/{FIRST_TENANT}.yaml": _TENANT.substitute(
            name=FIRST_TENANT, pool=pool, up="../../../", schema="tenant"
        ),
    }
    stacks = root / "stacks"
    with _staging(stacks) as staged:
        for relative, text in texts.items():
            file = staged / "stacks" / name / relative
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        load_stack(staged, name)
        (staged / "stacks" / name).rename(stacks / name)
    return Written(tuple(stacks / name / relative for relative in texts))


def new_model(
    root: Path, name: str, environment: str, wanted: Wanted, catalog: EngineCatalog | None = None
) -> Written:
    """Writes `stacks/<environment>/models/<name>.yaml`.

    Replicas start at 0 where the tenant's quota has no GPU left.
    Raises `UsageError` for what the user has to decide, `DocumentErrors` when the
    environment would not load with the new document.
    """
    _check_name(name)
    engines = catalog or load_engines()
    stack = load_stack(root, environment, engines)
    file = root / "stacks" / environment / "models" / f"{name}.yaml"
    if os.path.lexists(file):
        raise _exists(file, root)
    place = _place_for(stack, wanted)
    text = _model_text(name, place, wanted.uri, _newest(engines, place.engine))
    with _staging(root / "stacks") as staged:
        copy = staged / "stacks" / environment
        shutil.copytree(root / "stacks" / environment, copy, symlinks=False)
        target = copy / "models" / f"{name}.yaml"
        target.parent.mkdir(exist_ok=True)
        target.write_text(text, encoding="utf-8")
        load_stack(staged, environment, engines)
        file.parent.mkdir(exist_ok=True)
        _put_file(target, file, root)
    return Written((file,), place.notes)


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise UsageError(
            f"{shown(name)} is no name; allowed: lower-case letters, digits and dashes, a letter "
            "first, no dash last, at most 40"
        )


def _exists(file: Path, root: Path) -> UsageError:
    return UsageError(f"{file.relative_to(root)} exists already: choose another name, or edit it")


def _quoted(text: str) -> str:
    """A YAML scalar for any text: plain where that cannot be misread."""
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_.@/-]*(://[A-Za-z0-9_.@/-]+)?", text)
    if plain and plain_value(text, kubernetes=False) == text:
        return text
    return json.dumps(text, ensure_ascii=False)


def _place_for(stack: Stack, wanted: Wanted) -> _Place:
    existing = stack.environment.spec.cluster.provider in ("existing", "aws")
    engine = wanted.engine or ("vllm" if existing else "simulator")
    tenant = _tenant(stack, wanted.tenant)
    pools = [n for n, pool in stack.environment.spec.node_pools.items() if not pool.simulated]
    if not pools and engine == "simulator":
        return _Place(engine, tenant.metadata.name, None, 1)
    if not pools:
        raise UsageError(
            f"environment {stack.name} has no node pool with GPUs: add one to environment.yaml"
        )
    free = {pool: _free(stack, tenant, pool) for pool in pools}
    best = max(pools, key=lambda pool: free[pool])
    return _Place(engine, tenant.metadata.name, best, max(0, min(free[best], 1)))


def _tenant(stack: Stack, name: str | None) -> Tenant:
    names = [tenant.metadata.name for tenant in stack.tenants]
    if not names:
        raise UsageError(
            f"environment {stack.name} has no tenant to own the model: write "
            f"stacks/{stack.name}/tenants/<name>.yaml first"
        )
    if name is None and len(names) == 1:
        return stack.tenants[0]
    if name not in names:
        found = "several tenants" if name is None else f"no tenant {shown(name)}"
        near = None if name is None else nearest(name, names)
        raise UsageError(
            f"environment {stack.name} has {found}; pass --tenant with one of: {', '.join(names)}"
            + (f"; did you mean {near}?" if near else "")
        )
    return stack.tenants[names.index(name)]


def _free(stack: Stack, tenant: Tenant, pool: str) -> int:
    """GPUs of the pool that the tenant may still give to a model of its own."""
    quota = tenant.spec.quota.get(pool)
    specs = [model.spec for model in stack.models if model.spec.pool == pool]
    if quota is None:
        return 0
    if quota.borrow:
        shape = stack.environment.spec.node_pools[pool]
        used = sum(spec.replicas * spec.resources.gpus for spec in specs)
        return shape.nodes * shape.gpus_per_node - used
    own = [spec for spec in specs if spec.tenant == tenant.metadata.name]
    return quota.gpus - sum(spec.replicas * spec.resources.gpus for spec in own)


def _model_text(name: str, place: _Place, uri: str | None, version: str) -> str:
    simulated = place.engine == "simulator"
    if simulated and uri is not None:
        raise UsageError("--uri is for engines that load weights; engine simulator loads none")
    if not simulated and uri is None:
        raise UsageError(
            f"engine {place.engine} needs weights: pass --uri, such as hf://Qwen/Qwen3-0.6B"
        )
    values = {
        "name": name,
        "uri": _quoted(uri or ""),
        "revision": _REVISION if (uri or "").startswith("hf://") else "",
        "gpus": "0" if place.pool is None else "1",
    }
    parts = _SIMULATED if simulated else _REAL
    filled = {key: Template(part).substitute(values) for key, part in parts.items()}
    pool = "" if place.pool is None else f"  pool: {place.pool}\n"
    return _MODEL.substitute(
        filled,
        name=name,
        tenant=place.tenant,
        engine=place.engine,
        version=version,
        place=f"{pool}  replicas: {place.replicas}\n",
        up="../../../",
        schema="model-release",
    )


def _newest(catalog: EngineCatalog, engine: str) -> str:
    return max(
        catalog.versions(engine),
        key=lambda version: tuple(int(part) for part in version.split(".")),
    )


@contextmanager
def _staging(stacks: Path) -> Generator[Path]:
    """A folder beside the real ones, on the same file system, removed afterwards."""
    try:
        stacks.mkdir(exist_ok=True)
        staged = Path(tempfile.mkdtemp(prefix=".new-", dir=stacks))
        try:
            yield staged
        finally:
            shutil.rmtree(staged, ignore_errors=True)
    except OSError as error:
        raise TokenworksError(
            f"{error.filename or stacks}: cannot be written: {error.strerror}"
        ) from None


def _put_file(staged: Path, file: Path, root: Path) -> None:
    """A hard link fails where the name is taken, which a rename would not."""
    try:
        os.link(staged, file)
    except FileExistsError:
        raise _exists(file, root) from None

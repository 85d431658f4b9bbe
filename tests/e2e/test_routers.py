"""The real routers for prefill and decode, started from their images, between engines of ours."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from local.images import build_images, programs_needed
from local.toolchain import cache_dir, ensure
from tests.e2e.fakes import KV, Engines, engines, kubernetes, pod
from tests.e2e.platform import eventually
from tokenworks.catalog.bill import bill
from tokenworks.catalog.engines import load_routing
from tokenworks.catalog.routers import ImageRef, Plugin, WorkerRouter
from tokenworks.render.platform import image_reference

pytestmark = pytest.mark.e2e

LLM_D = load_routing().llm_d
OURS = LLM_D.version("0.4.0")
SIDECAR = OURS.sidecar
WORKER_ROUTERS = load_routing().worker_routers
PROMPT = {"model": "m", "prompt": "hello", "max_tokens": 5}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass(frozen=True)
class Image:
    """An image laid out in a folder."""

    root: Path
    config: dict[str, Any]

    def process(
        self, arguments: tuple[str, ...], program: tuple[str, ...], **options: Any
    ) -> subprocess.Popen[bytes]:
        """The image's process, as its user; `program` stands where Kubernetes' `command` does."""
        start = program or tuple(self.config["Entrypoint"])
        root = ["/usr/sbin/chroot", f"--userspec={self.config['User']}", str(self.root)]
        image_env = dict(text.split("=", 1) for text in self.config["Env"])
        env = {**image_env, **options.pop("env", {})}
        return subprocess.Popen([*root, *start, *arguments], env=env, **options)

    def says(self, *arguments: str, program: tuple[str, ...] = ()) -> str:
        """What a run that ends by itself prints."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with self.process(arguments, program, **pipes) as process:
            return process.communicate(timeout=60)[0].decode()


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Callable[[ImageRef], Image]:
    """Images of the bill as they are made here, each built and laid out once, as a pod has them."""
    made: dict[str, Image] = {}

    def of(ref: ImageRef) -> Image:
        name = image_reference(bill().image(ref.component, ref.image))
        if name not in made:
            archive = build_images(ensure(*programs_needed([name])), cache_dir(), [name])[name]
            made[name] = laid_out(archive, tmp_path_factory.mktemp("image"))
        return made[name]

    return of


def laid_out(archive: Path, root: Path) -> Image:
    root.chmod(0o755)
    with tarfile.open(archive) as tar:
        (manifest,) = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=tar.extractfile(layer)) as files:
                files.extractall(root, filter="fully_trusted")
        config = json.load(tar.extractfile(manifest["Config"]))  # type: ignore[arg-type]
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")  # what the kubelet brings
    return Image(root, config["config"])


@contextmanager
def killed(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """The process ends with the block."""
    with process:
        try:
            yield
        finally:
            process.kill()


@dataclass(frozen=True)
class Started:
    """A router that runs."""

    process: subprocess.Popen[bytes]
    url: str


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what a test started."""
    with ExitStack() as opened:
        yield opened


def answers(url: str, path: str) -> bool:
    return httpx.get(f"{url}{path}", timeout=5).status_code == 200


def completion(url: str, path: str = "/v1/completions", **more: Any) -> httpx.Response:
    headers = more.pop("headers", {})
    ask = CHAT if "chat" in path else PROMPT
    return httpx.post(f"{url}{path}", json={**ask, **more}, headers=headers, timeout=30)


def drains(router: Started, both: Engines, headers: dict[str, str]) -> bool:
    """Whether a stream that runs when SIGTERM comes ends well; nothing new is accepted."""
    both.gate.clear()
    ask = {**PROMPT, "stream": True}
    with httpx.stream(
        "POST", f"{router.url}/v1/completions", json=ask, headers=headers, timeout=60
    ) as answer:
        pieces = answer.iter_lines()
        first = next(pieces)
        router.process.terminate()
        eventually("it accepts no more", lambda: refuses(router.url), 30)
        both.gate.set()
        try:
            rest = list(pieces)
        except httpx.RemoteProtocolError:
            rest = []
    assert "decode" in first
    assert router.process.wait(30) == 0
    return "data: [DONE]" in rest


def refuses(url: str) -> bool:
    try:
        httpx.get(f"{url}/health", timeout=5)
    except httpx.ConnectError:
        return True
    return False


class TestSidecar:
    """In the decode pod: prefill elsewhere first, then decode here."""

    @pytest.fixture
    def both(self, stack: ExitStack) -> Engines:
        """Engines of which decode is where the sidecar looks for it, at localhost."""
        return stack.enter_context(engines("127.0.0.1"))

    @pytest.fixture
    def start(
        self, image: Callable[[ImageRef], Image], both: Engines, stack: ExitStack
    ) -> Callable[..., Started]:
        """Start it before the decode engine."""

        def with_connector(connector: str, **env: str) -> Started:
            port, flags = free_port(), SIDECAR.flags
            arguments = (
                f"{flags.port}={port}",
                f"{flags.engine_port}={both.port('decode')}",
                f"{flags.connector}={connector}",
                f"{flags.secure}=false",
            )
            process = image(SIDECAR.image).process(arguments, (), env=env)
            stack.enter_context(killed(process))
            url = f"http://127.0.0.1:{port}"
            eventually("the sidecar answers", lambda: answers(url, "/health"), 30)
            return Started(process, url)

        return with_connector

    @pytest.mark.parametrize("path", SIDECAR.paths)
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
    def test_prefill_comes_first_and_decode_gets_its_kv(
        self, start: Callable[..., Started], both: Engines, path: str, stream: bool
    ) -> None:
        url = start(SIDECAR.connectors["vllm"]).url
        headers = {LLM_D.prefill_header: both.address("prefill")}
        answer = completion(url, path, headers=headers, stream=stream)
        assert answer.status_code == 200
        assert "decode" in answer.text
        assert both.order() == ["prefill", "decode"]
        prefill, decode = both.of("prefill").body, both.of("decode").body
        assert prefill["kv_transfer_params"]["do_remote_decode"] is True
        assert (prefill["max_tokens"], prefill["stream"]) == (1, False)
        assert decode["kv_transfer_params"] == KV
        assert (decode["max_tokens"], decode["stream"]) == (5, stream)

    def test_without_the_header_decode_does_both(
        self, start: Callable[..., Started], both: Engines
    ) -> None:
        assert completion(start("nixlv2").url).status_code == 200
        assert both.order() == ["decode"]
        assert "kv_transfer_params" not in both.of("decode").body

    def test_decode_is_not_asked_when_prefill_is_gone(
        self, start: Callable[..., Started], both: Engines
    ) -> None:
        headers = {LLM_D.prefill_header: f"127.0.0.1:{free_port()}"}
        assert completion(start("nixlv2").url, headers=headers).status_code == 502
        assert both.order() == []

    def test_sglangs_engines_meet_in_one_bootstrap_room(
        self, start: Callable[..., Started], both: Engines
    ) -> None:
        router = start(SIDECAR.connectors["sglang"], **{LLM_D.env["bootstrapPort"]: "8999"})
        headers = {LLM_D.prefill_header: both.address("prefill")}
        assert "decode" in completion(router.url, headers=headers).text
        eventually("prefill was asked too", lambda: len(both.asked) == 2, 30)
        prefill, decode = both.of("prefill").body, both.of("decode").body
        assert prefill == decode
        assert (decode["bootstrap_host"], decode["bootstrap_port"]) == ("127.0.0.1", 8999)
        assert isinstance(decode["bootstrap_room"], int)

    def test_its_health_says_nothing_of_the_engine(self, start: Callable[..., Started]) -> None:
        url = start("nixlv2").url
        assert answers(url, "/health")
        assert not answers(url, "/nothing"), "anything else is the engine's answer"

    def test_it_cuts_what_runs_so_that_it_must_outlive_the_engine(
        self, start: Callable[..., Started], both: Engines
    ) -> None:
        headers = {LLM_D.prefill_header: both.address("prefill")}
        assert drains(start("nixlv2"), both, headers) is SIDECAR.drains

    def test_it_serves_tls_unless_told(
        self, image: Callable[[ImageRef], Image], stack: ExitStack
    ) -> None:
        port = free_port()
        process = image(SIDECAR.image).process((f"{SIDECAR.flags.port}={port}",), ())
        stack.enter_context(killed(process))
        url = f"https://127.0.0.1:{port}/health"
        told = lambda: httpx.get(url, verify=False, timeout=5).status_code == 200  # noqa: E731
        assert SIDECAR.secure_by_default == eventually("it answers over TLS", told, 30)


@pytest.mark.parametrize("name", sorted(WORKER_ROUTERS))
class TestWorkerRouters:
    """Routers that find prefill and decode pods themselves."""

    @pytest.fixture
    def router(self, name: str) -> WorkerRouter:
        return WORKER_ROUTERS[name]

    @pytest.fixture
    def both(self, stack: ExitStack) -> Engines:
        """Engines at one port of two addresses."""
        return stack.enter_context(engines("127.0.0.2"))

    @pytest.fixture
    def start(
        self,
        router: WorkerRouter,
        image: Callable[[ImageRef], Image],
        both: Engines,
        stack: ExitStack,
    ) -> Callable[[list[dict[str, Any]]], Started]:
        """Start it before a Kubernetes API with these pods."""

        def with_pods(pods: list[dict[str, Any]]) -> Started:
            laid_out, flags, port = image(router.image), router.flags, free_port()
            api = stack.enter_context(kubernetes(pods))
            (laid_out.root / "kubeconfig").write_text(kubeconfig(api.url))
            arguments = (
                flags.split, *router.switches,
                flags.host, "127.0.0.1", flags.port, str(port),
                flags.metrics_host, "127.0.0.1", flags.metrics_port, str(free_port()),
                flags.discovery, flags.discovery_namespace, "models",
                flags.discovery_port, str(both.port("decode")),
                flags.prefill_selector, "model=m", "role=prefill",
                flags.decode_selector, "model=m", "role=decode",
            )  # fmt: skip
            env = {"KUBECONFIG": "/kubeconfig"}
            process = laid_out.process(arguments, router.command, env=env)
            stack.enter_context(killed(process))
            url = f"http://127.0.0.1:{port}"
            eventually("it is alive", lambda: answers(url, router.paths.liveness), 60)
            asked = {
                f"/api/v1/namespaces/models/{r}" for rule in router.rules for r in rule.resources
            }
            eventually("it looks at pods", lambda: api.paths == asked, 30)
            return Started(process, url)

        return with_pods

    def pods(self, router: WorkerRouter) -> list[dict[str, Any]]:
        return [
            pod("prefill", "127.0.0.1", {router.bootstrap_annotation: "8997"}),
            pod("decode", "127.0.0.2", {}),
        ]

    @pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
    def test_prefill_and_decode_are_asked(
        self,
        router: WorkerRouter,
        start: Callable[..., Started],
        both: Engines,
        path: str,
        stream: bool,
    ) -> None:
        url = start(self.pods(router)).url
        eventually("it is ready", lambda: answers(url, router.paths.readiness), 60)
        answer = completion(url, path, stream=stream)
        assert answer.status_code == 200
        assert "decode" in answer.text
        prefill, decode = both.of("prefill").body, both.of("decode").body
        if router.order == "together":
            assert prefill == decode
            assert (decode["bootstrap_host"], decode["bootstrap_port"]) == ("127.0.0.1", 8997)
            assert isinstance(decode["bootstrap_room"], int)
        else:
            assert both.order() == ["prefill", "decode"]
            assert prefill["kv_transfer_params"]["do_remote_decode"] is True
            assert (prefill["max_tokens"], prefill["stream"]) == (1, False)
            assert decode["kv_transfer_params"] == KV
            assert decode["stream"] is stream

    @pytest.mark.parametrize("missing", ["prefill", "decode"])
    def test_it_is_not_ready_without_an_engine_of_each_role(
        self, router: WorkerRouter, start: Callable[..., Started], missing: str
    ) -> None:
        pods = self.pods(router)
        (without,) = (p for p in pods if p["metadata"]["labels"]["role"] == missing)
        without["status"]["conditions"][0]["status"] = "False"
        url = start(pods).url
        eventually("it saw the other", lambda: knows_workers(url), 60)
        assert answers(url, router.paths.liveness)
        assert not answers(url, router.paths.readiness)

    def test_it_drains(
        self, router: WorkerRouter, start: Callable[..., Started], both: Engines
    ) -> None:
        started = start(self.pods(router))
        eventually("it is ready", lambda: answers(started.url, router.paths.readiness), 60)
        assert drains(started, both, {})

    def test_its_flags_are_what_the_catalog_says(
        self, router: WorkerRouter, image: Callable[[ImageRef], Image]
    ) -> None:
        said = image(router.image).says("--help", program=router.command)
        known = set(re.findall(r"--[a-z0-9-]+", said))
        flags = {flag for flag in router.flags.model_dump().values() if flag}
        assert flags | {s for s in router.switches if s.startswith("--")} <= known

    def test_what_the_image_lacks_is_refused(
        self, router: WorkerRouter, image: Callable[[ImageRef], Image]
    ) -> None:
        said = image(router.image).says("--mini-lb", program=router.command)
        assert "--mini-lb: the load balancer for debugging is not in this image" in said


def knows_workers(url: str) -> bool:
    """Whether it registered an engine; each has its own path for the list."""
    for path in ("/workers", "/list_workers"):
        answer = httpx.get(f"{url}{path}", timeout=5)
        if answer.status_code == 200:
            found: dict[str, list[Any]] = answer.json()
            return bool(found.get("workers") or found.get("urls"))
    return False


def kubeconfig(server: str) -> str:
    clusters = [{"name": "c", "cluster": {"server": server}}]
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    users: list[dict[str, Any]] = [{"name": "u", "user": {}}]
    named = {"clusters": clusters, "contexts": contexts, "users": users}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "c", **named})


class TestPicker:
    """llm-d's picker; which pods it picks is shown on the cluster."""

    @pytest.fixture
    def picker(self, image: Callable[[ImageRef], Image]) -> Image:
        found = image(OURS.picker.image)
        (found.root / "kubeconfig").write_text(kubeconfig("http://127.0.0.1:1"))
        return found

    def says(self, picker: Image, plugins: list[Plugin]) -> str:
        """What it says of a configuration, before it fails for want of a cluster."""
        scorers = {"queue-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer"}
        filters = {
            r: getattr(OURS.picker.plugins, f"{r}_filter").type for r in OURS.picker.profiles
        }
        common = [{"pluginRef": name, "weight": 2} for name in sorted(scorers)]
        best = {"pluginRef": OURS.picker.plugins.best.type}
        profiles = [
            {"name": name, "plugins": [{"pluginRef": filters[role]}, *common, best]}
            for role, name in OURS.picker.profiles.items()
        ]
        text = yaml.safe_dump(
            {
                "apiVersion": OURS.picker.config_api_version,
                "kind": OURS.picker.config_kind,
                "plugins": [p.model_dump() for p in plugins],
                "schedulingProfiles": profiles,
            }
        )
        return picker.says("--pool-name=m", "--pool-namespace=models", "--tracing=false",
                           f"--config-text={text}", "--kubeconfig=/kubeconfig")  # fmt: skip

    def plugins(self) -> list[Plugin]:
        named = (
            getattr(OURS.picker.plugins, name) for name in type(OURS.picker.plugins).model_fields
        )
        return [plugin for plugin in named if plugin is not None]

    @pytest.mark.parametrize("decision", ["always", "uncached"])
    def test_it_takes_the_plugins_of_the_catalog(self, picker: Image, decision: str) -> None:
        decides = getattr(OURS.picker, decision).plugins
        said = self.says(picker, [*self.plugins(), *decides])
        assert "loaded configuration from file/text successfully" in said

    def test_it_refuses_a_plugin_that_it_does_not_know(self, picker: Image) -> None:
        newer = LLM_D.version("0.10.0").picker.always.plugins
        said = self.says(picker, [*self.plugins(), *newer])
        assert "always-disagg-pd-decider" in said
        assert "loaded configuration from file/text successfully" not in said

    def test_its_flags_are_what_the_catalog_says(self, picker: Image) -> None:
        assert OURS.picker.metric_flags is not None
        said = picker.says("--help")
        known = {f"--{name}" for name in re.findall(r"^  -([a-z-]+)", said, re.MULTILINE)}
        assert set(OURS.picker.metric_flags.values()) <= known

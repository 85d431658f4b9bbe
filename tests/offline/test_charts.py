"""A chart by reference: the real engine fetches it, renders it with our values, and shows it."""

from __future__ import annotations

import functools
import http.server
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.offline.previews import Step, steps_of
from tests.repo.tree import ROOT
from tokenworks.cli import offline
from tokenworks.render.release import Release, RemoteChart
from tokenworks.spec.load import load_stack

pytestmark = [pytest.mark.pulumi, pytest.mark.helm, pytest.mark.timeout(600)]
FILES = {
    "Chart.yaml": "apiVersion: v2\nname: operator\nversion: v1.2.3\n",
    "values.yaml": "size: small\n",
    "templates/settings.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: "{{ .Release.Namespace }}"}
data: {size: "{{ .Values.size }}"}
""",
    "templates/hook.yaml": """\
apiVersion: v1
kind: ConfigMap
metadata: {name: hook, annotations: {helm.sh/hook: pre-upgrade}}
""",
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "operators"}}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@pytest.fixture
def repository(helm: Path, tmp_path: Path) -> Iterator[str]:
    """Address of a Helm repository on loopback that has one chart."""
    chart, served = tmp_path / "operator", tmp_path / "served"
    for name, text in FILES.items():
        (chart / name).parent.mkdir(parents=True, exist_ok=True)
        (chart / name).write_text(text)
    subprocess.run([helm, "package", chart, "-d", served], check=True, capture_output=True)
    handler = functools.partial(_Quiet, directory=str(served))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}"
        index = [helm, "repo", "index", served, "--url", address]
        subprocess.run(index, check=True, capture_output=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield address
        server.shutdown()
        thread.join()


def previewed(release: Release) -> list[Step]:
    """What prod's last stack would make of this release alone."""
    with offline.standin() as port:
        *_, serving = offline.engines(load_stack(ROOT, "prod"), port)
        return steps_of(serving.applying([release]))


def test_it_is_fetched_and_rendered_with_our_values_and_without_hooks(
    repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKENWORKS_STATE", str(tmp_path / "state"))
    chart = RemoteChart("small", repository, "operator", "v1.2.3", "operators", {"size": "large"})
    steps = previewed(Release("small", "models", "operators", (NAMESPACE,), charts=(chart,)))
    made = {s["urn"].rpartition("::")[2]: s["newState"] for s in steps}
    (settings,) = [s for n, s in made.items() if n.endswith("operators/settings")]
    assert settings["inputs"]["data"] == {"size": "large"}
    assert settings["type"] == "kubernetes:core/v1:ConfigMap"
    assert settings["parent"].endswith("helm.sh/v4:Chart::small-chart")
    assert not [n for n in made if n.endswith("hook")]
    assert made["small-chart"]["parent"].endswith("tokenworks:platform:Release::small")

"""Whole environments: sound as they are, and what breaks one is said with its document."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from local.images import local_image_names
from local.toolchain import module_dir
from policies import Context, check
from policies.model import Severity
from tokenworks.check.context import context_of, unresolved_revisions
from tokenworks.check.environment import CheckTools, check_environment
from tokenworks.check.report import Report
from tokenworks.render import RenderTools, render
from tokenworks.render.release import Release
from tokenworks.spec.environment import ArgoCd
from tokenworks.spec.load import load_stack
from tokenworks.spec.lora import Lora
from tokenworks.spec.problems import DocumentErrors
from tokenworks.spec.stack import Manifest, Stack

pytestmark = [pytest.mark.helm, pytest.mark.kubeconform, pytest.mark.slow]

NGINX = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1.27"}]}
"""


@pytest.fixture(scope="module")
def tools(kubeconform: Path, tmp_path_factory: pytest.TempPathFactory) -> CheckTools:
    openapi = module_dir("k8s.io/kubernetes") / "api" / "openapi-spec" / "v3"
    return CheckTools(kubeconform, openapi, tmp_path_factory.mktemp("schemas"))


@pytest.fixture(scope="module", params=["local", "dev"])
def environment(
    request: pytest.FixtureRequest, root: Path, renderer: Path
) -> tuple[Stack, tuple[Release, ...]]:
    stack = load_stack(root, request.param)
    return stack, render(stack, RenderTools(renderer, module_dir))


def context(stack: Stack) -> Context:
    return context_of(stack, local_image_names())


def checked(stack: Stack, releases: tuple[Release, ...], tools: CheckTools) -> Report:
    return check_environment(stack, releases, context(stack), tools)


def test_our_environments_are_sound(
    environment: tuple[Stack, tuple[Release, ...]], tools: CheckTools
) -> None:
    stack, releases = environment
    report = checked(stack, releases, tools)
    assert [f for f in report.findings if f.severity == "error"] == []
    assert report.objects == sum(len(release.objects) for release in releases) > 100
    assert {f.rule for f in report.findings} <= {"image-digest", "unresolved-revision"}
    assert bool(report.findings) is (stack.name == "dev")


def test_an_environment_that_argocd_delivers_is_sound(
    tools: CheckTools, root: Path, renderer: Path
) -> None:
    """Argo CD itself, its sets and its alerts, by the schemas of their CRDs and by every rule."""
    stack = load_stack(root, "local")
    told = ArgoCd.model_validate({"repository": "https://git.example.com/p.git", "alerts": {}})
    spec = stack.environment.spec.model_copy(update={"delivery": "argocd", "argocd": told})
    environment = stack.environment.model_copy(update={"spec": spec})
    delivered = replace(stack, environment=environment)
    releases = render(delivered, RenderTools(renderer, module_dir))
    kinds = {manifest["kind"] for release in releases for manifest in release.objects}
    assert {"ApplicationSet", "Application", "AppProject", "PrometheusRule"} <= kinds
    assert checked(delivered, releases, tools).findings == ()


def test_the_releases_of_the_end_to_end_tests_are_sound_together(
    tools: CheckTools, root: Path, renderer: Path, tmp_path: Path
) -> None:
    """What a rule finds wrongly there would only show once a cluster is up."""
    shutil.copytree(root / "stacks" / "local", tmp_path / "stacks" / "local")
    for folder in ("topologies", "adapters"):
        for document in (root / "tests" / "e2e" / folder).glob("*.yaml"):
            shutil.copy(document, tmp_path / "stacks" / "local" / "models")
    file = tmp_path / "stacks" / "local" / "environment.yaml"
    changed = file.read_text().replace(
        "  platform:\n", "  platform:\n    llmD: {router: 0.4.0}\n", 1
    )
    file.write_text(changed)
    stack = load_stack(tmp_path, "local")
    report = checked(stack, render(stack, RenderTools(renderer, module_dir)), tools)
    assert report.findings == ()


def test_applying_refuses_what_is_unresolved(
    environment: tuple[Stack, tuple[Release, ...]], tools: CheckTools
) -> None:
    stack, releases = environment
    applying = replace(context(stack), unresolved="error")
    report = check_environment(stack, releases, applying, tools)
    assert report.exit_code == (1 if stack.name == "dev" else 0)
    assert bool(list(unresolved_revisions(stack, applying))) is (stack.name == "dev")


@pytest.fixture(scope="module")
def local(root: Path) -> Stack:
    return load_stack(root, "local")


def test_what_is_wrong_names_its_document(local: Stack, tools: CheckTools) -> None:
    web = yaml.safe_load(NGINX)
    web["spec"]["replicsa"] = 1
    place = (Path("stacks/local/manifests/web.yaml"), 2)
    stack = replace(local, manifests=(web,), manifest_sources=(place,))
    report = checked(stack, (Release("manifests", "models", "", (web,)),), tools)
    assert {f.rule for f in report.findings} == {"schema", "image-digest", "network-policy"}
    assert {(f.file, f.line) for f in report.findings} == {("stacks/local/manifests/web.yaml", 2)}
    assert {f.object for f in report.findings} == {"Deployment team/web"}
    assert report.exit_code == 1


def test_a_model_names_its_file(local: Stack, tools: CheckTools) -> None:
    name = local.models[0].metadata.name
    release = Release(f"model-{name}", "models", "team", (yaml.safe_load(NGINX),))
    files = {f.file for f in checked(local, (release,), tools).findings}
    assert files == {f"stacks/local/models/{name}.yaml"}


def test_an_empty_release_and_a_repeated_object(local: Stack, tools: CheckTools) -> None:
    space: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    releases = (
        Release("one", "platform", "", (space,)),
        Release("two", "platform", "", (space,)),
        Release("three", "platform", "", ()),
    )
    found = {f.rule: f for f in checked(local, releases, tools).findings}
    assert found.keys() == {"empty-render", "repeated-object"}
    assert found["empty-render"].object == "release three"
    assert "by release one and by release two" in found["repeated-object"].message


def test_an_environment_that_renders_nothing(local: Stack, tools: CheckTools) -> None:
    assert checked(local, (), tools).exit_code == 2


def test_a_kind_whose_crd_is_not_installed(local: Stack, tools: CheckTools) -> None:
    queue: Manifest = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue",
                       "metadata": {"name": "x"}}  # fmt: skip
    report = checked(local, (Release("queues", "platform", "", (queue,)),), tools)
    assert [f.rule for f in report.findings] == ["schema"]
    assert "no schema for kueue.x-k8s.io/v1beta2 ClusterQueue" in report.findings[0].message


def test_a_topology_is_held_against_the_crd_that_is_installed(
    environment: tuple[Stack, tuple[Release, ...]], tools: CheckTools
) -> None:
    stack, releases = environment
    levels = [{"nodeLabel": "example.com/rack"}, {"label": "example.com/row"}]
    topology: Manifest = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Topology",
        "metadata": {"name": "x"},
        "spec": {"levels": levels},
    }
    extra = Release("extra", "platform", "", (topology,), ("kueue-crds",))
    found = [f for f in checked(stack, (*releases, extra), tools).findings if f.rule == "schema"]
    assert {f.object for f in found} == {"Topology x"}


def test_objects_without_a_namespace_are_in_the_releases(local: Stack, tools: CheckTools) -> None:
    web = yaml.safe_load(NGINX)
    del web["metadata"]["namespace"]
    report = checked(local, (Release("extra", "models", "team", (web,)),), tools)
    assert {f.object for f in report.findings} == {"Deployment team/web"}


@pytest.mark.parametrize("severity", ["warning", "error"])
def test_adapters_that_nobody_looked_up(local: Stack, severity: Severity) -> None:
    """Previews warn and `up` refuses, as for images and weights."""
    known = {"uri": "hf://org/a", "size": "1M", "rank": 8}
    digest, commit = "sha256:" + "5a" * 32, "0" * 40
    lora = Lora.model_validate(
        {
            "adapters": {
                "known": {**known, "digest": digest, "revision": commit},
                "new": {**known, "digest": "unresolved", "revision": "unresolved"},
                "of-a-claim": {**known, "uri": "pvc://c/a", "digest": "unresolved"},
            }
        }
    )
    first, *_ = local.models
    model = first.model_copy(update={"spec": first.spec.model_copy(update={"lora": lora})})
    stack = replace(local, models=(model,))
    found = list(unresolved_revisions(stack, replace(context(stack), unresolved=severity)))
    assert {(f.rule, f.severity) for f in found} == {("unresolved-adapter", severity)}
    assert [f.field for f in found] == [
        "spec.lora.adapters.new.revision",
        "spec.lora.adapters.new.digest",
        "spec.lora.adapters.of-a-claim.digest",
    ]
    assert all("no pod will load it" in f.message and f.remedy for f in found)
    assert {f.file for f in found} == {f"stacks/local/models/{first.metadata.name}.yaml"}


def test_findings_point_at_the_document(local: Stack, tools: CheckTools) -> None:
    name = local.models[0].metadata.name
    web = yaml.safe_load(NGINX)
    releases = (
        Release(f"model-{name}", "models", "team", (web,)),
        Release("gateway", "platform", "", ()),
        Release("istiod", "operators", "", (web | {"metadata": {"name": "b", "namespace": "x"}},)),
    )
    found = checked(local, releases, tools).findings
    model, environment = f"stacks/local/models/{name}.yaml", "stacks/local/environment.yaml"
    assert {(f.rule, f.file) for f in found if f.object == "Deployment team/web"} == {
        ("image-digest", model), ("network-policy", model),
    }  # fmt: skip
    lines = Path(model).read_text().splitlines()
    (image,) = [f for f in found if f.rule == "image-digest" and f.file == model]
    assert image.line is not None and lines[image.line - 1].strip() == "engine:"
    (empty,) = [f for f in found if f.rule == "empty-render"]
    assert empty.file == environment
    gateway = {f.line for f in found if f.object == "Deployment x/b"}
    text = Path(environment).read_text().splitlines()
    assert [text[line - 1].strip() for line in gateway if line] == ["gateway:"]


def test_what_policies_name_is_found_in_the_document(tmp_path: Path, root: Path) -> None:
    folder = tmp_path / "stacks" / "local"
    shutil.copytree(root / "stacks" / "local", folder)
    file = folder / "environment.yaml"
    text = file.read_text()
    waiver = (
        "{rule: surge, object: Deployment a/b, reason: a test of what is said, owner: me, "
        "expires: 2020-01-01}"
    )
    file.write_text(text.replace("spec:", f"spec:\n  policies:\n    waivers:\n    - {waiver}", 1))
    line = file.read_text().splitlines().index(f"    - {waiver}") + 1
    stack = load_stack(tmp_path, "local")
    (finding,) = check([], context(stack))
    assert (finding.file, finding.line) == ("stacks/local/environment.yaml", line)
    assert "expired on 2020-01-01" in finding.message
    file.write_text(text.replace("spec:", "spec:\n  policies: {rules: {surg: warning}}", 1))
    with pytest.raises(DocumentErrors) as raised:
        context(load_stack(tmp_path, "local"))
    assert (
        "stacks/local/environment.yaml:9: spec.policies.rules.surg: there is no rule surg; did "
        "you mean surge?" in str(raised.value)
    )

"""Argo CD as it is rendered: pinned, bounded, told where to look and what it may do."""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.toolchain import module_dir
from tokenworks.catalog.alerts import alert_groups
from tokenworks.catalog.bill import bill
from tokenworks.catalog.health import health_checks
from tokenworks.render import Release, RenderTools, render
from tokenworks.render.applications import attempts, families, family_of
from tokenworks.render.model import model_ready_seconds
from tokenworks.render.platform import image_reference
from tokenworks.render.projects import ROOT, project_of
from tokenworks.render.tree import release_text, tree
from tokenworks.render.waves import WAVE, deliverable, key_of
from tokenworks.spec.environment import ArgoCd
from tokenworks.spec.load import load_stack
from tokenworks.spec.stack import Stack

pytestmark = [pytest.mark.helm, pytest.mark.slow]

REPOSITORY = "https://git.example.com/platform.git"
WINDOW = {"kind": "deny", "schedule": "0 18 * * 5", "duration": "1h30m", "timeZone": "Asia/Tokyo"}


def delivered(stack: Stack, **settings: Any) -> Stack:
    told = ArgoCd.model_validate({"repository": REPOSITORY, **settings})
    spec = stack.environment.spec.model_copy(update={"delivery": "argocd", "argocd": told})
    return replace(stack, environment=stack.environment.model_copy(update={"spec": spec}))


@pytest.fixture(scope="module")
def tools(renderer: Path) -> RenderTools:
    return RenderTools(renderer, module_dir)


@pytest.fixture(scope="module")
def pulumi(root: Path, tools: RenderTools) -> tuple[Release, ...]:
    return render(load_stack(root, "local"), tools)


@pytest.fixture(scope="module")
def releases(root: Path, tools: RenderTools) -> tuple[Release, ...]:
    return render(delivered(load_stack(root, "local"), windows=[WINDOW]), tools)


def objects(releases: tuple[Release, ...], name: str) -> tuple[dict[str, Any], ...]:
    return next(r.objects for r in releases if r.name == name)


def of_kind(releases: tuple[Release, ...], kind: str) -> dict[str, dict[str, Any]]:
    return {
        o["metadata"]["name"]: o for r in releases for o in r.objects if o["kind"] == kind
    }  # fmt: skip


def test_both_deliveries_render_the_same_bytes(
    pulumi: tuple[Release, ...], releases: tuple[Release, ...]
) -> None:
    alone = {r.name: release_text(r) for r in pulumi}
    added = {r.name: r.layer for r in releases if r.name not in alone}
    assert {r.name: release_text(r) for r in releases if r.name in alone} == alone
    assert set(added.values()) == {"crds", "operators", "delivery", "applications"}


def template_of(text: str, values: dict[str, Any]) -> str:
    """What our templates make of values: fields, and `trimSuffix` of one."""

    def filled(found: re.Match[str]) -> str:
        suffix, path = found.groups()
        value: Any = values
        for part in path.split("."):
            value = value[part]
        return str(value).removesuffix(suffix or "")

    return re.sub(r'\{\{ (?:trimSuffix "([^"]*)" )?\.([A-Za-z.]+) \}\}', filled, text)


def generated(releases: tuple[Release, ...], environment: str) -> dict[str, dict[str, Any]]:
    """The Applications of all sets by file, as their controller makes them of a pushed tree."""
    pushed = {f"rendered/{environment}/{path}": text for path, text in tree(releases).items()}
    found: dict[str, dict[str, Any]] = {}
    for made in of_kind(releases, "ApplicationSet").values():
        for generator in made["spec"]["generators"]:
            (wanted,) = generator["git"]["files"]
            for path in sorted(p for p in pushed if fnmatch(p, wanted["path"])):
                assert path not in found, "two sets deliver one file"
                first = next(yaml.safe_load_all(pushed[path]))
                folder, _, name = path.rpartition("/")
                values = {**first, "path": {"path": folder, "filename": name}}
                chosen = template_of(generator["git"]["values"]["namespace"], values)
                values["values"] = {"namespace": chosen}
                text = template_of(yaml.safe_dump(made["spec"]["template"], width=1000), values)
                found[path] = yaml.safe_load(text)
    return found


def test_every_release_that_serves_has_an_application_that_finds_its_file(
    releases: tuple[Release, ...],
) -> None:
    found, roots = generated(releases, "local"), of_kind(releases, "Application")
    assert roots.keys() == {ROOT}
    assert roots[ROOT]["spec"]["source"] == {
        "repoURL": REPOSITORY, "targetRevision": "main", "path": "rendered/local/applications",
    }  # fmt: skip
    served = {f"rendered/local/{r.layer}/{r.name}.yaml": r for r in releases if deliverable(r)}
    assert found.keys() == served.keys()
    for path, application in found.items():
        release, spec = served[path], application["spec"]
        assert application["metadata"]["name"] == release.name
        source = spec["source"]
        assert f"{source['path']}/{source['directory']['include']}" == path
        assert spec["destination"]["namespace"] == release.namespace
        assert spec["project"] == project_of(release)
        assert spec["syncPolicy"]["automated"] == {"prune": True, "selfHeal": True}
        tries = spec["syncPolicy"]["retry"]["limit"]
        assert tries >= attempts(release.ready_seconds)


def test_a_model_that_comes_changes_no_set(root: Path, tools: RenderTools) -> None:
    """Its file is enough, where it starts no slower than the slowest of them."""
    stack = delivered(load_stack(root, "local"))
    slowest = max(stack.models, key=model_ready_seconds)
    one, two = render(replace(stack, models=(slowest,)), tools), render(stack, tools)
    sets = of_kind(one, "ApplicationSet")
    assert sets.keys() == {"platform", "tenants", "models"}
    assert sets == of_kind(two, "ApplicationSet")


def test_sets_wait_for_each_other(releases: tuple[Release, ...]) -> None:
    by_set: dict[str, set[str]] = {}
    for release in releases:
        if deliverable(release):
            by_set.setdefault(family_of(release), set()).add(release.name)
    assert by_set == {
        "platform": {"queues", "gateway"}, "tenants": {"tenant-research"},
        "models": {"model-llama-sim", "model-qwen3-sim"},
    }  # fmt: skip
    waves = {
        name: int(made["metadata"].get("annotations", {}).get(WAVE, "0"))
        for name, made in of_kind(releases, "ApplicationSet").items()
    }
    assert waves == {"platform": 0, "tenants": 1, "models": 2}
    assert waves == {family.name: family.step for family in families(releases)}
    checks = health_checks().keys()
    assert checks >= {"argoproj.io_Application", "argoproj.io_ApplicationSet"}
    settings = of_kind(releases, "ConfigMap")["argocd-cmd-params-cm"]["data"]
    # Otherwise a set does not see that its applications are healthy, and the next wave waits.
    assert settings["applicationsetcontroller.enable.progressive.syncs"] == "true"
    rolling = [s for s in of_kind(releases, "ApplicationSet").values() if "strategy" in s["spec"]]
    assert rolling == []


def permitted(project: dict[str, Any], manifest: dict[str, Any]) -> bool:
    """As Argo CD judges: by kind, and by namespace or name."""
    spec, (group, kind) = project["spec"], key_of(manifest)
    name, namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace")
    if namespace is None:
        wide = spec["clusterResourceWhitelist"]
        mine = [r for r in wide if (r["group"], r["kind"]) == (group, kind)]
        return any(r.get("name", name) == name for r in mine)
    places = {d["namespace"] for d in spec["destinations"]}
    kinds = {(r["group"], r["kind"]) for r in spec["namespaceResourceWhitelist"]}
    return namespace in places and (group, kind) in kinds


def test_a_project_permits_its_releases_and_not_those_of_others(
    releases: tuple[Release, ...],
) -> None:
    projects = of_kind(releases, "AppProject")
    assert projects.keys() == {ROOT, "platform", "models"}
    for release in releases:
        for manifest in release.objects:
            told = f"{release.name}: {manifest['kind']} {manifest['metadata']['name']}"
            allowed = {name for name, project in projects.items() if permitted(project, manifest)}
            if deliverable(release):
                assert project_of(release) in allowed, told
            elif release.layer == "applications":
                assert allowed == {ROOT}, told
            elif release.name == "argocd-applications":
                assert not allowed, "Pulumi alone brings these"
            elif manifest["kind"] not in ("ConfigMap", "Service", "ServiceAccount", "Deployment"):
                assert not allowed, told
    assert "*" not in str([p["spec"].get("destinations") for p in projects.values()])
    assert all(p["spec"]["sourceRepos"] == [REPOSITORY] for p in projects.values())


def kinds_of(root: Path, *charts: str) -> set[str]:
    found: set[str] = set()
    for chart in charts:
        for file in (root / "charts" / chart / "templates").glob("*.yaml"):
            found |= set(re.findall(r"^kind: (\w+)$", file.read_text(), re.MULTILINE))
    return found


def test_projects_know_every_kind_of_the_charts_and_no_other(
    root: Path, releases: tuple[Release, ...]
) -> None:
    projects = of_kind(releases, "AppProject")

    def named(name: str) -> set[str]:
        spec = projects[name]["spec"]
        both = (*spec["clusterResourceWhitelist"], *spec["namespaceResourceWhitelist"])
        return {item["kind"] for item in both}

    assert named("models") == kinds_of(root, "model")
    # Charts do not bring their own namespace.
    assert named("platform") == {*kinds_of(root, "queues", "gateway", "tenant"), "Namespace"}


def test_windows_hold_for_what_serves(releases: tuple[Release, ...]) -> None:
    projects = of_kind(releases, "AppProject")
    assert "syncWindows" not in projects[ROOT]["spec"]
    for name in ("platform", "models"):
        (window,) = projects[name]["spec"]["syncWindows"]
        assert window == {
            "kind": "deny", "schedule": "0 18 * * 5", "duration": "5400s",
            "timeZone": "Asia/Tokyo", "applications": ["*"], "manualSync": True,
        }  # fmt: skip


@pytest.mark.parametrize("seconds", [1.0, 600.0, 36_000.0])
def test_a_sync_is_tried_for_longer_than_the_release_may_start(seconds: float) -> None:
    pauses = [min(10 * 2**n, 180) for n in range(attempts(seconds))]
    assert sum(pauses) >= seconds > sum(pauses[:-1])


def test_a_sync_may_last_as_long_as_what_it_waits_for(releases: tuple[Release, ...]) -> None:
    settings = of_kind(releases, "ConfigMap")["argocd-cmd-params-cm"]["data"]
    budget = {r.name: r.ready_seconds for r in releases}
    steps = ("queues", "tenant-research", "model-qwen3-sim")
    assert float(settings["controller.sync.timeout.seconds"]) >= sum(budget[n] for n in steps)
    assert budget["argocd-applications"] >= sum(budget[n] for n in steps)


def containers(releases: tuple[Release, ...]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for manifest in objects(releases, "argocd"):
        spec = manifest.get("spec", {}).get("template", {}).get("spec", {})
        for container in (*spec.get("initContainers", []), *spec.get("containers", [])):
            found[container["name"]] = container
    return found


def test_argocds_own_pods_are_pinned_and_bounded(releases: tuple[Release, ...]) -> None:
    found = containers(releases)
    assert found.keys() == {
        "argocd-application-controller", "argocd-applicationset-controller", "argocd-repo-server",
        "redis", "secret-init",
    }  # fmt: skip
    images = {image_reference(i) for i in bill().components["argocd"].images.values()}
    assert {c["image"] for c in found.values()} == images
    assert all(c["resources"]["limits"]["memory"] for c in found.values())
    assert "REDIS_PASSWORD)" not in str(found["redis"]["args"])


def test_requests_of_the_environment_count(root: Path, tools: RenderTools) -> None:
    asked = {"cpu": "7m", "memory": "7Mi"}
    found = containers(render(delivered(load_stack(root, "local"), requests=asked), tools))
    assert found["argocd-application-controller"]["resources"]["requests"] == asked
    assert found["argocd-repo-server"]["resources"]["requests"] == asked
    assert found["redis"]["resources"]["requests"] != asked


def test_everything_of_argocd_is_in_its_namespace(releases: tuple[Release, ...]) -> None:
    for manifest in objects(releases, "argocd"):
        if manifest["kind"] in ("Namespace", "ClusterRole"):
            continue
        if "subjects" in manifest:
            assert {s["namespace"] for s in manifest["subjects"]} == {"argocd"}
        if manifest["kind"] != "ClusterRoleBinding":
            assert manifest["metadata"]["namespace"] == "argocd", manifest


def test_settings_reach_argocd(root: Path, tools: RenderTools) -> None:
    told = {"revision": "live", "path": "deploy/tree", "poll": "45s"}
    found = render(delivered(load_stack(root, "local"), **told), tools)
    models = of_kind(found, "ApplicationSet")["models"]["spec"]
    git = models["generators"][0]["git"]
    assert (git["repoURL"], git["revision"]) == (REPOSITORY, "live")
    assert git["files"] == [{"path": "deploy/tree/local/models/model-*.yaml"}]
    assert git["requeueAfterSeconds"] == 45
    source = models["template"]["spec"]["source"]
    assert source["targetRevision"] == "live"
    assert source["path"] == "deploy/tree/local/models"
    data = of_kind(found, "ConfigMap")["argocd-cm"]["data"]
    assert data["timeout.reconciliation"] == "45s"
    for kind, check in health_checks().items():
        assert data[f"resource.customizations.health.{kind}"] == check


def test_plain_objects_have_a_project_of_their_own(root: Path, tools: RenderTools) -> None:
    stack = delivered(load_stack(root, "local"))
    plain = (
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "research"}},
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "r"}},
    )
    found = render(replace(stack, manifests=plain), tools)
    spec = of_kind(found, "AppProject")["manifests"]["spec"]
    assert spec["namespaceResourceWhitelist"] == [{"group": "", "kind": "Secret"}]
    assert [d["namespace"] for d in spec["destinations"]] == ["research"]
    assert spec["clusterResourceWhitelist"] == [
        {"group": "node.k8s.io", "kind": "RuntimeClass", "name": "r"}
    ]
    spec = generated(found, "local")["rendered/local/models/manifests.yaml"]["spec"]
    assert spec["project"] == "manifests"
    assert spec["destination"]["namespace"] == "research", "one that its project permits"


def test_plain_objects_without_a_namespace_may_be_in_none(root: Path, tools: RenderTools) -> None:
    plain = ({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "r"}},)
    found = render(replace(delivered(load_stack(root, "local")), manifests=plain), tools)
    spec = of_kind(found, "AppProject")["manifests"]["spec"]
    (place,) = spec["destinations"]
    made = generated(found, "local")["rendered/local/models/manifests.yaml"]["spec"]
    assert made["destination"]["namespace"] == place["namespace"]
    assert spec["namespaceResourceWhitelist"] == []


@pytest.fixture(scope="module")
def alerted(root: Path, tools: RenderTools) -> tuple[Release, ...]:
    told = {"labels": {"release": "monitoring"}}
    return render(delivered(load_stack(root, "local"), alerts=told), tools)


def test_alerts_are_there_where_they_are_asked_for(
    releases: tuple[Release, ...], alerted: tuple[Release, ...], root: Path
) -> None:
    kinds = {"PrometheusRule", "ServiceMonitor"}
    assert not kinds & {o["kind"] for r in releases for o in r.objects}
    found = objects(alerted, "argocd-alerts")
    assert {o["kind"] for o in found} == kinds
    assert all(o["metadata"]["labels"]["release"] == "monitoring" for o in found)
    assert all(o["metadata"]["namespace"] == "argocd" for o in found)
    rules = [r for group in found[0]["spec"]["groups"] for r in group["rules"]]
    guide = (root / "docs/argocd.md").read_text()
    assert {rule["alert"] for rule in rules} == set(re.findall(r"^\| `(ArgoCD\w+)`", guide, re.M))


def test_monitors_select_services_that_have_the_port(alerted: tuple[Release, ...]) -> None:
    services = [o for o in objects(alerted, "argocd") if o["kind"] == "Service"]
    for monitor in of_kind(alerted, "ServiceMonitor").values():
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        (mine,) = [s for s in services if wanted <= s["metadata"]["labels"].items()]
        ports = {port["name"] for port in mine["spec"]["ports"]}
        assert {e["port"] for e in monitor["spec"]["endpoints"]} <= ports


def test_alerts_read_what_argocd_tells() -> None:
    """A metric or label of another name would never fire."""
    module = module_dir("github.com/argoproj/argo-cd/v3")
    known: set[str] = set()
    for file in ("controller/metrics/metrics.go", "applicationset/metrics/metrics.go"):
        known |= set(re.findall(r'"([a-z_]+)"', (module / file).read_text()))
    rules = [rule for group in alert_groups("argocd") for rule in group["rules"]]
    assert rules
    for rule in rules:
        said = " ".join([rule["expr"], *rule["annotations"].values()])
        used = set(re.findall(r"argocd_\w+", said)) | set(re.findall(r"(\w+)(?:!=|=~|=)\"", said))
        used |= set(re.findall(r"\$labels\.(\w+)", said))
        assert used <= known, rule["alert"]


def test_values_that_alerts_compare_are_values_of_argocd() -> None:
    module = module_dir("github.com/argoproj/argo-cd/v3")
    types = (module / "pkg/apis/application/v1alpha1/applicationset_types.go").read_text()
    assert '"ApplicationSetUpToDate"' in types
    rules = {r["alert"]: r["expr"] for g in alert_groups("argocd") for r in g["rules"]}
    assert "ApplicationSetUpToDate" in rules["ArgoCDSetFails"]

"""The charts' own rules, and the linters that chart-testing runs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
import yamale
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from tests.charts.rendering import CHARTS, NAMES, ROOT, Helm

TEMPLATES = sorted(p for c in (*NAMES, "tokenworks-lib") for p in (CHARTS / c).glob("templates/*"))
HELPERS = [p for p in TEMPLATES if p.suffix == ".tpl"]
MANIFESTS = [p for p in TEMPLATES if p.suffix == ".yaml"]
CT = yaml.safe_load((ROOT / "ct.yaml").read_text())
LONGEST = 25

# What makes the same values render differently tomorrow, or elsewhere.
UNSTABLE = re.compile(
    r"\b(rand\w+|gen(CA|PrivateKey|SelfSigned|Signed)\w*|now|ago|date\w*|uuidv4|lookup|derivePassword"
    r"|htpasswd|bcrypt|encryptAES|getHostByName|env|expandenv)\b|\.Capabilities|\.Release\.Revision"
    r"|\.Release\.Is"
)


def named(path: Path) -> str:
    return str(path.relative_to(CHARTS))


def actions(path: Path) -> Iterator[str]:
    """What stands between braces, without comments."""
    for action in re.findall(r"\{\{-?(.*?)-?\}\}", path.read_text(), re.DOTALL):
        if not action.strip().startswith("/*"):
            # Fields may be called `env`; functions may not.
            yield re.sub(r"\.\w+|\"[^\"]*\"", lambda m: m[0] if m[0] in KEPT else "", action)


KEPT = (".Capabilities",)


def helpers(path: Path) -> Iterator[tuple[str, int]]:
    """Name and number of lines of each helper."""
    text = path.read_text()
    for match in re.finditer(r'\{\{- define "([^"]+)" -\}\}\n(.*?)\{\{- end -\}\}\n', text, re.S):
        yield match[1], match[2].count("\n")


@pytest.mark.parametrize("path", TEMPLATES, ids=named)
def test_a_template_is_a_function_of_its_values(path: Path) -> None:
    text = path.read_text()
    found = [m[0] for action in actions(path) for m in UNSTABLE.finditer(action)]
    found += re.findall(r"\.Capabilities|\.Release\.(?:Revision|Is\w+)", text)
    assert found == []


def test_the_lint_sees_what_it_forbids(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text('a: {{ randAlphaNum 5 }}\nb: {{ now | date "2006" }}\nc: {{ .Values.env }}\n')
    found = [m[0] for action in actions(path) for m in UNSTABLE.finditer(action)]
    assert found == ["randAlphaNum", "now", "date"]


@pytest.mark.parametrize("path", HELPERS, ids=named)
def test_helpers_are_short_prefixed_and_explained(path: Path) -> None:
    chart, text = path.parents[1].name, path.read_text()
    found = list(helpers(path))
    assert len(found) == text.count("define "), "a helper is not written as the others"
    for name, lines in found:
        assert name.startswith(f"{chart}."), name
        assert lines <= LONGEST, f"{name} has {lines} lines"
    assert text.count("{{/*") == len(found)


@pytest.mark.parametrize("path", MANIFESTS, ids=named)
def test_a_template_makes_objects_of_one_kind(path: Path) -> None:
    text = path.read_text()
    assert len(re.findall(r"^kind: ", text, re.MULTILINE)) == 1
    assert "---" not in text or "range" in text


BARE = re.compile(r"^\s*(?:- )?(?:[\w./\"-]+: |- )\{\{-? (?P<action>.*?) -?\}\}$")
WHOLE = re.compile(r"quote$|nindent \d+$|^toJson |toJson$|int64$|^int64 |^eq ")
"""Text in quotes, a part of its own, or a number or a boolean."""


def bare(path: Path) -> Iterator[str]:
    """Text that YAML could take for a boolean, a number, or null."""
    for line in path.read_text().splitlines():
        match = BARE.match(line)
        if match and not WHOLE.search(match["action"]):
            yield line.strip()


@pytest.mark.parametrize("path", [*MANIFESTS, *HELPERS], ids=named)
def test_text_is_quoted(path: Path) -> None:
    assert list(bare(path)) == []


def test_the_lint_sees_text_without_quotes(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("a: {{ .Values.a }}\n- {{ $b }}\nc: {{ .c | quote }}\nd: {{ int64 .d }}\n")
    assert list(bare(path)) == ["a: {{ .Values.a }}", "- {{ $b }}"]


def test_no_helper_is_unused() -> None:
    text = "".join(path.read_text() for path in TEMPLATES)
    names = [name for path in HELPERS for name, _ in helpers(path)]
    assert [name for name in names if f'include "{name}"' not in text] == []


# What chart-testing runs


@pytest.mark.parametrize("chart", [*NAMES, "tokenworks-lib"])
def test_yamllint(chart: str) -> None:
    config = YamlLintConfig(file=str(ROOT / CT["lint-conf"]))
    files = [p for p in (CHARTS / chart).glob("*.yaml") if p.is_file()]
    assert CHARTS / chart / "Chart.yaml" in files
    problems = [(p.name, str(f)) for p in files for f in linter.run(p.read_text(), config)]
    assert problems == []


@pytest.mark.parametrize("chart", [*NAMES, "tokenworks-lib"])
def test_yamale(chart: str) -> None:
    schema = yamale.make_schema(ROOT / CT["chart-yaml-schema"])
    yamale.validate(schema, yamale.make_data(CHARTS / chart / "Chart.yaml"))


@pytest.mark.parametrize(
    "line",
    [
        "version: '1'",
        "name: Model",
        "extra: true",
        "description: short",
        "dependencies: [{name: x}]",
    ],
)
def test_yamale_refuses(line: str) -> None:
    chart = yaml.safe_load((CHARTS / "model" / "Chart.yaml").read_text()) | yaml.safe_load(line)
    schema = yamale.make_schema(ROOT / CT["chart-yaml-schema"])
    with pytest.raises(yamale.YamaleError):
        yamale.validate(schema, yamale.make_data(content=yaml.safe_dump(chart)))


@pytest.mark.helm
@pytest.mark.parametrize("chart", NAMES)
def test_helm_lint(chart: str, charts: Helm) -> None:
    done = charts.run("lint", CT["helm-lint-extra-args"], CHARTS / chart)
    assert done.returncode == 0, done.stdout


def test_ct_finds_the_charts() -> None:
    (folder,) = CT["chart-dirs"]
    found = sorted(p.parent.name for p in (ROOT / folder).glob("*/Chart.yaml"))
    assert found == sorted([*NAMES, "tokenworks-lib"])


# Installing by hand


@pytest.mark.helm
@pytest.mark.parametrize("chart", NAMES)
def test_it_installs_with_defaults_and_nothing_fetched(chart: str, charts: Helm) -> None:
    """Client side, with an empty home: no repository is known, nothing is downloaded."""
    done = charts.run("install", "demo", CHARTS / chart, "--dry-run=client")
    assert done.returncode == 0, done.stderr
    assert "NOTES:" in done.stdout


@pytest.mark.helm
@pytest.mark.parametrize("chart", NAMES)
def test_a_package_holds_the_library(chart: str, charts: Helm, tmp_path: Path) -> None:
    done = charts.run("package", CHARTS / chart, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr
    (package,) = tmp_path.glob("*.tgz")
    from_package = charts.run("template", "demo", package, "--namespace", "research")
    from_folder = charts.run("template", "demo", CHARTS / chart, "--namespace", "research")
    assert from_package.stdout == from_folder.stdout != ""


@pytest.mark.helm
def test_a_clone_without_links_says_what_is_missing(charts: Helm, tmp_path: Path) -> None:
    """As git makes on systems without symbolic links: the link is a file with its target."""
    copy = tmp_path / "model"
    shutil.copytree(CHARTS / "model", copy, symlinks=True)
    (copy / "charts" / "tokenworks-lib").unlink()
    done = charts.run("template", "demo", copy)
    assert done.returncode != 0
    assert "tokenworks-lib" in done.stderr


def test_versions_agree() -> None:
    library = yaml.safe_load((CHARTS / "tokenworks-lib" / "Chart.yaml").read_text())["version"]
    for chart in NAMES:
        text = (CHARTS / chart / "Chart.yaml").read_text()
        (dependency,) = yaml.safe_load(StringIO(text))["dependencies"]
        assert dependency == {"name": "tokenworks-lib", "version": library}
        assert (CHARTS / chart / "charts" / "tokenworks-lib").readlink() == Path(
            "../../tokenworks-lib"
        )

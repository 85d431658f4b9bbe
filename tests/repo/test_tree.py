"""What may stand in the tree: sizes, names, pins. Each rule says what it prevents."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pytest
import yaml

from tests.repo.tree import (
    ROOT,
    Violation,
    files,
    last_change,
    numbered,
    refuse,
    text_of,
    waivers,
)

# Spelt in two pieces, or this file would break its own rule.
REGISTRIES = [
    f"{host}.{domain}"
    for host, domain in [
        ("pypi", "org"),
        ("files.pythonhosted", "org"),
        ("proxy.golang", "org"),
        ("sum.golang", "org"),
        ("registry.npmjs", "org"),
        ("crates", "io"),
        ("repo1.maven", "org"),
        ("deb.debian", "org"),
        ("security.debian", "org"),
        ("archive.ubuntu", "com"),
    ]
]


@dataclass(frozen=True)
class TextRule:
    """Text that may not stand in the files of a pattern."""

    name: str
    pattern: str
    why: str
    where: str = "*"
    but: tuple[str, ...] = ()
    broken: str = ""
    """A line that breaks the rule, to show that the pattern finds it."""

    def breaches(self, file: str) -> Iterator[Violation]:
        if not fnmatchcase(file, self.where) or any(fnmatchcase(file, b) for b in self.but):
            return
        if file.startswith("rendered/"):  # made of others' words too
            return
        for number, line in numbered(file):
            if re.search(self.pattern, line):
                yield Violation(self.name, file, number, f"{line.strip()[:80]} ({self.why})")


RULES = (
    TextRule(
        "floating-image",
        r"\w:latest\b",
        "what runs must be what was reviewed",
        # Rules and their tests name the tag in order to refuse it.
        but=("tests/*", "policies/*", "docs/*"),
        broken="image: nginx:" + "latest",
    ),
    TextRule(
        "unfinished",
        r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b",
        "finish it, or leave it out",
        broken="# TO" + "DO: later",
    ),
    TextRule(
        "registry-host",
        "|".join(re.escape(host) for host in REGISTRIES),
        "which index or mirror serves packages is the machine's setting",
        broken="--index-url https://" + REGISTRIES[0],
    ),
    TextRule(
        "machine-path",
        r"(?<![\w.$}~*/-])/(root|work|home/\w+|tmp/b)/\w",
        "it exists on one machine only",
        broken="path: /" + "root/cache",
    ),
    TextRule(
        "history",
        r"\b([Tt]his|[Nn]ext|[Ll]ater) issue\b|\b[Ii]ssue #?\d",
        "the tree speaks of what it is, not of how it came to be",
        but=("tests/repo/test_tree.py",),
        broken="the caches of this issue",
    ),
    TextRule(
        "sleeping-test",
        r"\bsleep\((?!0\))",
        "wait for the thing itself; a nap is too long or too short",
        where="tests/*.py",
        broken="time." + "sleep" + "(1)",
    ),
    TextRule(
        "skipped-test",
        r"pytest\.(skip|xfail|importorskip)\b|mark\.(skip|skipif|xfail)\b",
        "a test that does not run proves nothing",
        where="tests/*.py",
        broken="@pytest." + "mark." + "skip",
    ),
    TextRule(
        "ignored-failure",
        r"pyright: basic|# type: ignore$|# noqa$",
        "say which complaint is wrong, and why",
        where="*.py",
        but=("tests/repo/test_tree.py",),
        broken="x = 1  # no" + "qa",
    ),
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_no_file_holds_what_the_rule_forbids(rule: TextRule) -> None:
    refuse(v for file in files() for v in rule.breaches(file))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_rule_finds_what_it_forbids(rule: TextRule) -> None:
    assert re.search(rule.pattern, rule.broken)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_rule_looks_at_some_file(rule: TextRule) -> None:
    assert any(fnmatchcase(f, rule.where) for f in files())
    for pattern in rule.but:
        assert any(fnmatchcase(f, pattern) for f in files()), pattern


@pytest.mark.parametrize(
    ("pattern", "most"),
    [("components/*.py", 150), ("__main__.py", 40), ("tokenworks", 100)],
)
def test_long_files_are_split_before_they_are_long(pattern: str, most: int) -> None:
    matched = [f for f in files() if fnmatchcase(f, pattern)]
    assert matched, f"{pattern} matches no file"
    lengths = {f: len(text_of(f).splitlines()) for f in matched}
    long = [Violation("size", f, n, f"{n} lines, at most {most}") for f, n in lengths.items()]
    refuse(v for v in long if v.line > most)


def names_of_tests(file: str) -> list[str]:
    """Names of the test functions of a file."""
    found = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.walk(ast.parse(text_of(file), file))
    return [n.name for n in nodes if isinstance(n, found) and n.name.startswith("test_")]


@pytest.mark.slow
def test_every_test_is_collected() -> None:
    for file in (f for f in files() if f.endswith(".py")):
        name = file.rsplit("/", 1)[-1]
        is_test = file.startswith("tests/") and name.startswith("test_")
        assert is_test == bool(names_of_tests(file)), (
            f"{file}: tests live in tests/**/test_*.py, and such a file holds at least one"
        )


def test_every_room_with_code_has_tests() -> None:
    """tests/ mirrors the rooms."""
    tested = {f.split("/")[1] for f in files() if f.startswith("tests/") and f.count("/") > 1}
    parts = {f.split("/")[2] for f in files() if re.match(r"src/tokenworks/\w+/\w+\.py", f)}
    rooms = {
        f.split("/")[0] for f in files() if re.match(r"(charts|components|local|policies)/", f)
    }
    assert (parts | rooms) - {"catalog"} - tested == set()


def test_exceptions_are_needed_and_not_expired() -> None:
    today = last_change()
    expired = [f"{w.file}: {w.rule} expired on {w.expires}" for w in waivers() if w.expires < today]
    assert expired == []
    used = {(v.rule, v.file) for rule in RULES for f in files() for v in rule.breaches(f)}
    known = {rule.name for rule in RULES}
    unused = [w for w in waivers() if w.rule in known and (w.rule, w.file) not in used]
    assert unused == [], "remove them from tests/repo/exceptions.yaml"


def rooms_of_readme() -> set[str]:
    """First column of the table under `## The house`."""
    section = (ROOT / "README.md").read_text().split("## The house")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    return {name.rstrip("/") for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_the_readmes_map_is_the_tree() -> None:
    top = {f.split("/")[0] for f in files()}
    folders = {name for name in top if (ROOT / name).is_dir() and not name.startswith(".")}
    named = rooms_of_readme()
    assert {name for name in named if not (ROOT / name).exists()} == set()
    assert folders - {name.split("/")[0] for name in named} == set()


def anchors(text: str) -> set[str]:
    """What a link into a page may name: its headings, in lower case, with dashes for blanks."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


def test_links_lead_somewhere() -> None:
    # Comments on changes quote what somebody wrote to lead astray.
    ours = (f for f in files() if f.endswith(".md") and not f.startswith("tests/review/"))
    for file in ours:
        text = re.sub(r"```.*?```", "", text_of(file), flags=re.DOTALL)
        for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)", text):
            target, _, anchor = link.partition("#")
            page = (ROOT / file).parent / target if target else ROOT / file
            assert page.exists(), f"{file} links to {link}"
            assert not anchor or anchor in anchors(page.read_text()), f"{file} links to {link}"


def test_yaml_has_no_duplicate_keys() -> None:
    """PyYAML keeps the last one silently; a reviewer reads the first."""

    skipped = re.compile(r"charts/[^/]+/templates/|rendered/|tests/.*(broken|bad|invalid)")
    for file in (f for f in files() if f.endswith((".yaml", ".yml")) and not skipped.search(f)):
        for document in yaml.compose_all(text_of(file), yaml.CSafeLoader):
            for mapping in mappings(document):
                keys = [str(key.value) for key, _ in mapping.value]
                assert len(keys) == len(set(keys)), f"{file}:{mapping.start_mark.line + 1}: {keys}"


def mappings(node: Any) -> Iterator[yaml.MappingNode]:
    """Every mapping in a YAML document."""
    if isinstance(node, yaml.MappingNode):
        yield node
        for _, value in node.value:
            yield from mappings(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from mappings(item)

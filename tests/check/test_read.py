"""Reading: every kind of bad file has its line and hides no other; every good one its objects."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from tests.check import fuzz
from tokenworks.check.read import Reading, read_paths
from tokenworks.errors import UsageError

TWO = "apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n"
CONFIG = POD.replace("Pod", "ConfigMap")


def read(*paths: Path | str, stdin: bytes = b"") -> Reading:
    return read_paths([str(path) for path in paths], io.BytesIO(stdin))


def write(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def kinds(reading: Reading) -> list[str]:
    return [str(item.manifest["kind"]) for item in reading.objects]


GOOD: dict[str, tuple[str, bytes, list[str]]] = {
    "one": ("a.yaml", POD.encode(), ["Pod"]),
    "yml": ("a.yml", POD.encode(), ["Pod"]),
    "two documents": ("a.yaml", TWO.encode(), ["Pod", "Pod"]),
    "empty documents": ("a.yaml", f"---\n---\n# nothing\n---\n{POD}---\n...\n".encode(), ["Pod"]),
    "windows line ends": ("a.yaml", POD.replace("\n", "\r\n").encode(), ["Pod"]),
    "byte order mark": ("a.yaml", b"\xef\xbb\xbf" + POD.encode(), ["Pod"]),
    "utf-16": ("a.yaml", POD.encode("utf-16"), ["Pod"]),
    "json": ("a.json", json.dumps({"apiVersion": "v1", "kind": "Pod"}).encode(), ["Pod"]),
    "tab after a value": ("a.yaml", POD.replace("Pod", "Pod\t").encode(), ["Pod"]),
    "tab before a comment": ("a.yaml", POD.replace("Pod", "Pod\t# one").encode(), ["Pod"]),
    "no line end": ("a.yaml", b"---\n" + TWO.rstrip().encode(), ["Pod", "Pod"]),
    "json with tabs": ("a.json", b'{\n\t"apiVersion": "v1",\n\t"kind": "Pod"\n}', ["Pod"]),
    "list": (
        "a.yaml",
        b"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n"
        b"- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Service}]}\n",
        ["Pod", "Service"],
    ),
    "typed list": ("a.yaml", b"apiVersion: v1\nkind: PodList\nitems: [{metadata: {}}]", ["Pod"]),
    "empty list": ("a.yaml", b"apiVersion: v1\nkind: List\nitems: []", []),
    "anchors": (
        "a.yaml",
        b"apiVersion: v1\nkind: Pod\nmetadata: {labels: &l {a: b}}\nspec: {<<: *l, x: *l}",
        ["Pod"],
    ),
    "git's words in text": (
        "a.yaml",
        f"{CONFIG}data:\n  text: |\n    Title\n    =======\n    <<<<<<< not a conflict\n".encode(),
        ["ConfigMap"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "data", "expected"), GOOD.values(), ids=list(GOOD))
def test_good_files(tmp_path: Path, name: str, data: bytes, expected: list[str]) -> None:
    reading = read(write(tmp_path, name, data))
    assert [finding.message for finding in reading.findings] == []
    assert kinds(reading) == expected


BAD: dict[str, tuple[bytes, str, int | None, str]] = {
    "syntax": (b"apiVersion: v1\nkind: Pod\n  metadata: x\n", "unreadable", 3, "unreadable YAML"),
    "tab": (b"a:\n\tb: c\n", "unreadable", 2, "unreadable YAML"),
    "unclosed": (b'apiVersion: v1\nkind: "Pod\n', "unreadable", 3, "unreadable YAML"),
    "duplicate key": (POD.encode() + b"kind: Job\n", "unreadable", 5, "key given twice"),
    "nested duplicate": (POD.encode() + b"  name: b\n", "unreadable", 5, "key given twice"),
    "unknown alias": (POD.encode() + b"spec: *x\n", "unreadable", 5, "alias *x"),
    "tag": (POD.encode() + b"spec: !vault x\n", "unreadable", 5, "tag"),
    "anchor in itself": (POD.encode() + b"spec: &a [*a]\n", "unreadable", 5, "contains itself"),
    "binary": (b"apiVersion: v1\n\x00\x01", "unreadable", 2, "binary"),
    "latin-1": (b"apiVersion: v1\nkind: caf\xe9\n", "unreadable", 2, "not utf-8 text"),
    "conflict": (b"<<<<<<< HEAD\n" + POD.encode(), "leftover", 1, "merge conflict"),
    "end of a conflict": (POD.encode() + b">>>>>>> b\n", "leftover", 5, "merge conflict"),
    "helm template": (b"{{- if .Values.x }}\n" + POD.encode(), "leftover", 1, "template syntax"),
    "value from helm": (b"kind: Pod\nmetadata:\n  name: {{ .x }}\n", "leftover", 3, "template"),
    "placeholder name": (
        POD.replace("name: a", "name: ${NAME}").encode(),
        "leftover",
        4,
        "${NAME}",
    ),
    "placeholder image": (
        POD.encode() + b"spec:\n  containers:\n  - image: <your image>\n",
        "leftover",
        7,
        "<your image>",
    ),
    "placeholder image of a shell": (
        POD.encode() + b"spec:\n  containers:\n  - image: $IMAGE\n",
        "leftover",
        7,
        "$IMAGE",
    ),
    "placeholder for an account": (
        POD.encode() + b"spec:\n  serviceAccountName: KSA_NAME\n",
        "leftover",
        6,
        "KSA_NAME",
    ),
    "placeholder for a claim": (
        POD.encode() + b"spec:\n  volumes:\n  - persistentVolumeClaim: {claimName: YOUR-PVC}\n",
        "leftover",
        7,
        "YOUR-PVC",
    ),
    "placeholder for a secret": (
        POD.encode() + b"spec:\n  containers:\n  - env:\n    - name: A\n      valueFrom: "
        b"{secretKeyRef: {name: <secret>, key: a}}\n",
        "leftover",
        9,
        "<secret>",
    ),
    "quoted template": (
        POD.encode() + b'spec: {nodeName: "{{ .Values.x }}"}\n',
        "leftover",
        5,
        "{{ .Values.x }}",
    ),
    "no apiVersion": (b"kind: Pod\nmetadata: {}\n", "not-an-object", 1, "apiVersion is missing"),
    "misspelt kind": (b"apiVersion: v1\nKind: Pod\n", "not-an-object", 1, "kind is missing"),
    "kind of the wrong type": (b"apiVersion: v1\nkind: 3\n", "not-an-object", 2, "is no text"),
    "a list": (b"- a\n- b\n", "not-an-object", 1, "found no map"),
    "a word": (b"hello\n", "not-an-object", 1, "found no map"),
    "our own document": (
        b"apiVersion: tokenworks.dev/v1alpha1\nkind: Tenant\n",
        "not-an-object",
        1,
        "not a Kubernetes",
    ),
    "twice": (f"{POD}---\n{POD}".encode(), "repeated-object", 6, "line 1 too"),
}


@pytest.mark.parametrize(("data", "rule", "line", "says"), BAD.values(), ids=list(BAD))
def test_bad_files(tmp_path: Path, data: bytes, rule: str, line: int | None, says: str) -> None:
    path = write(tmp_path, "bad.yaml", data)
    good = write(tmp_path, "good.yaml", POD.replace("name: a", "name: good"))
    reading = read(path, good)
    assert [(f.rule, f.line, f.file) for f in reading.findings] == [(rule, line, str(path))]
    assert says in reading.findings[0].message
    assert reading.findings[0].remedy
    assert "good" in [item.manifest["metadata"]["name"] for item in reading.objects[-1:]]


@pytest.mark.parametrize(
    "text",
    [
        'kind: PrometheusRule\nspec: {summary: "{{ $labels.pod }} is down"}',
        'kind: ApplicationSet\nspec: {name: "{{ .path.basename }}"}',
        'kind: Pod\nspec: {args: ["--chat-template", "{% for m in x %}{{ m.role }}{% endfor %}"]}',
        'kind: Pod\nspec: {args: ["$(VAR)", "${VAR}", "<|im_start|>"]}',
        'kind: ConfigMap\ndata: {template: "{{ .Values.global.hub }}"}',
        "kind: Pod\nspec: {containers: [{name: x, env: [{name: HF_TOKEN, value: $X}]}]}",
        "kind: Pod\nspec: {volumes: [{name: a, secret: {secretName: a-b}, items: [{key: A_B}]}]}",
        "kind: CustomResourceDefinition\nspec: {image: '<registry>/<name>'}",
    ],
)
def test_templates_that_belong_there(tmp_path: Path, text: str) -> None:
    reading = read(write(tmp_path, "a.yaml", f"apiVersion: v1\n{text}\n"))
    assert [finding.message for finding in reading.findings] == []


def test_alias_bombs_are_refused_quickly(tmp_path: Path) -> None:
    lines = ["apiVersion: v1", "kind: Pod", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    reading = read(write(tmp_path, "bomb.yaml", "\n".join(lines)))
    assert [finding.rule for finding in reading.findings] == ["unreadable"]


def test_lines_of_fields(tmp_path: Path) -> None:
    text = f"{POD}spec:\n  containers:\n  - name: x\n    image: y\n"
    item = read(write(tmp_path, "a.yaml", text)).objects[0]
    assert item.line() == 1
    assert item.line(("metadata", "name")) == 4
    assert item.line(("spec", "containers", 0, "image")) == 8
    assert item.line(("spec", "containers", 0, "startupProbe")) == 7
    assert item.line(("spec", "volumes", 3)) == 5


def test_folders(tmp_path: Path) -> None:
    for name in ("b/a.yaml", "a.yml", "c.json", "d.txt", ".git/x.yaml", "node_modules/x.yaml"):
        write(tmp_path, name, POD if not name.endswith("json") else '{"x": 1}')
    write(tmp_path, "values.yaml", "replicas: 1\nspec: {}\n")
    write(tmp_path, "tenant.yaml", "apiVersion: tokenworks.dev/v1alpha1\nkind: Tenant\n")
    reading = read(tmp_path)
    assert [Path(item.file).name for item in reading.objects] == ["a.yml", "a.yaml"]
    assert sorted(Path(f).name for f in reading.without_objects) == [
        "c.json", "tenant.yaml", "values.yaml",
    ]  # fmt: skip
    assert reading.files == 5
    assert reading.findings == ()


def test_a_misspelt_object_in_a_folder_is_no_other_file(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "apiVerson: v1\nkind: Pod\nmetadata: {name: x}\n")
    assert [finding.rule for finding in read(tmp_path).findings] == ["not-an-object"]


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path, "a.yaml", POD)
    assert len(read(path, tmp_path, path).objects) == 1


def test_standard_input() -> None:
    reading = read("-", stdin=POD.encode())
    assert kinds(reading) == ["Pod"]
    assert reading.objects[0].file == "(standard input)"


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read(tmp_path / "absent.yaml")


def test_a_link_that_leads_nowhere_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "absent")
    assert [finding.rule for finding in read(tmp_path).findings] == ["unreadable"]


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert read_paths([str(tmp_path)], io.BytesIO()).files == 0


def test_patches_of_a_kustomization_are_no_objects(tmp_path: Path) -> None:
    write(tmp_path, "base.yaml", POD)
    write(tmp_path, "patch.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {x: 1}\n")
    write(tmp_path, "ops.yaml", "- op: remove\n  path: /spec\n")
    kustomization = "resources: [base.yaml]\npatches:\n- path: patch.yaml\n- {path: ./ops.yaml}\n"
    write(tmp_path, "kustomization.yaml", kustomization)
    reading = read(tmp_path)
    assert reading.findings == ()
    assert [Path(item.file).name for item in reading.objects] == ["base.yaml"]
    assert kinds(read(tmp_path / "patch.yaml")) == ["Pod"]


@pytest.mark.slow
def test_long_lists_are_read_whole(tmp_path: Path) -> None:
    item = {"apiVersion": "v1", "kind": "ConfigMap", "data": {f"k{n}": "v" for n in range(50)}}
    items = [{**item, "metadata": {"name": f"c{n}"}} for n in range(4200)]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    reading = read(write(tmp_path, "list.json", text))
    assert reading.findings == ()
    assert len(reading.objects) == 4200


def test_a_list_knows_the_places_of_its_items(tmp_path: Path) -> None:
    text = "---\n# two\napiVersion: v1\nkind: List\nitems:\n"
    items = "".join(f"- apiVersion: v1\n  kind: Pod\n  metadata: {{name: {n}}}\n" for n in "ab")
    reading = read(write(tmp_path, "a.yaml", text + items))
    assert [item.place(()) for item in reading.objects] == [(6, 3), (9, 3)]
    assert [item.place(("metadata", "name")) for item in reading.objects] == [(8, 14), (11, 14)]
    twice = read(write(tmp_path, "b.yaml", text + items.replace("name: b", "name: a")))
    (finding,) = twice.findings
    assert (finding.line, finding.message) == (9, "the same object is in line 6 too")


def test_one_doubtful_object_has_its_own_line_among_many(tmp_path: Path) -> None:
    pods = [POD.replace("name: a", f"name: a{n}") for n in range(20)]
    pods[13] += "spec: {containers: [{name: x, image: $IMAGE}]}\n"
    pods[17] += "spec: [a]\n"
    text = "---\n".join(pods)
    reading = read(write(tmp_path, "a.yaml", text))
    assert len(reading.objects) == 20
    lines = text.splitlines()
    assert [(f.rule, lines[(f.line or 0) - 1][:5]) for f in reading.findings] == [
        ("leftover", "spec:"), ("malformed", "spec:"),
    ]  # fmt: skip


def test_what_is_read_does_not_hang_on_the_length_of_the_file(tmp_path: Path) -> None:
    odd = "apiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec: {type: NodePort}\t\n"
    short = read(write(tmp_path, "a.yaml", odd))
    long = read(write(tmp_path, "b.yaml", odd + f"# {'-' * 200_000}\n"))
    assert short.findings == long.findings == ()
    assert [o.manifest for o in short.objects] == [o.manifest for o in long.objects]


def test_columns_point_at_the_key(tmp_path: Path) -> None:
    text = f"{POD}spec:\n  containers:\n  - name: x\n    image: y\n"
    item = read(write(tmp_path, "a.yaml", text)).objects[0]
    assert item.place(("spec", "containers", 0, "image")) == (8, 5)
    assert item.place(("spec", "containers", 0, "startupProbe")) == (7, 5)
    flow = "{apiVersion: v1, kind: Pod, spec: {containers: [{name: x, image: y}]}}\n"
    item = read(write(tmp_path, "b.yaml", flow)).objects[0]
    assert item.place(("spec", "containers", 0, "image")) == (1, 59)


@pytest.mark.parametrize("seed", range(40))
def test_broken_texts_end_with_findings(seed: int) -> None:
    """A few of those that `make fuzz` makes for as long as one likes."""
    sources = [file.read_text("utf-8") for file in sorted(fuzz.CORPUS.glob("*.yaml"))]
    assert fuzz.wrong(fuzz.text(seed, sources)) is None


# JSON documents one after the other


def pod_json(name: str, **more: object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, **more})


@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
@pytest.mark.parametrize("between", ["\n", "", " ", "\n\n  ", "\r\n", "\t"])
def test_json_documents_follow_each_other(tmp_path: Path, name: str, between: str) -> None:
    texts = [pod_json("a"), pod_json("b", spec={"x": 1}), pod_json("c")]
    reading = read(write(tmp_path, name, between.join(texts)))
    assert reading.findings == ()
    assert kinds(reading) == ["Pod"] * 3
    text = between.join(texts).replace("\r\n", "\n")
    for item, letter in zip(reading.objects, "abc", strict=True):
        line, column = item.place(("metadata", "name"))
        rest = text.split("\n")[line - 1][column - 1 :]
        assert rest.startswith(f'"name": "{letter}"')


def test_a_broken_document_hides_none_before_it_and_has_its_own_line(tmp_path: Path) -> None:
    text = f'{pod_json("a")}{pod_json("b")}\n{{"apiVersion": "v1",\n "kind": Pod" ]'
    reading = read(write(tmp_path, "a.json", text))
    assert kinds(reading) == ["Pod", "Pod"]
    (finding,) = reading.findings
    assert finding.rule == "unreadable"
    assert finding.line == 3


def test_an_object_that_comes_twice_is_said_by_lines_of_the_stream(tmp_path: Path) -> None:
    text = f"{pod_json('a')}{pod_json('b')}\n\n{pod_json('a')}"
    (finding,) = read(write(tmp_path, "a.json", text)).findings
    assert (finding.line, finding.rule) == (3, "repeated-object")
    assert "in line 1 too" in finding.message


def test_a_template_is_no_json(tmp_path: Path) -> None:
    (finding,) = read(write(tmp_path, "a.yaml", "{{ if .Values.x }}\nkind: Pod\n")).findings
    assert finding.rule == "leftover"


def test_characters_that_json_writes_in_two_parts(tmp_path: Path) -> None:
    spec = {
        "x": "\N{GRINNING FACE}",
        "y": "\\ud83d",
        "z\N{GRINNING FACE}\N{GRINNING FACE}": 1,
        "w": 2,
    }
    text = pod_json("a", spec=spec)
    assert "\\ud83d\\ude00" in text
    reading = read(write(tmp_path, "a.json", text))
    assert reading.findings == ()
    assert reading.objects[0].manifest["spec"] == spec
    assert text[reading.objects[0].place(("spec", "w"))[1] - 1 :].startswith('"w"')


def asked(tmp_path: Path, field: str, value: str) -> list[str]:
    """Placeholders that are found in one field of a pod."""
    spec: dict[str, object] = {
        "args": {"containers": [{"name": "c", "image": "x", "args": [value]}]},
        "script": {"containers": [{"name": "c", "image": "x", "command": ["sh", "-c", value]}]},
        "env": {"containers": [{"name": "c", "env": [{"name": "REGION", "value": value}]}]},
        "secret": {"containers": [{"name": "c", "env": [{"name": "HF_TOKEN", "value": value}]}]},
        "node": {"nodeSelector": {"pool": value}},
        "volume": {"volumes": [{"csi": {"driver": "x", "volumeAttributes": {"a": value}}}]},
        "handle": {"csi": {"driver": "x", "volumeHandle": value}},
    }
    annotations = {"a": value} if field == "annotation" else {}
    text = json.dumps({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "annotations": annotations},
        "spec": spec.get(field, {}),
    })  # fmt: skip
    found = read(write(tmp_path, "a.json", text)).findings
    return [finding.field for finding in found if finding.rule == "leftover"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("args", "<MODEL_ID>"),
        ("args", "--url=https://<your-domain>/v1"),
        ("args", "your-bucket-name"),
        ("script", "exec serve --model <MODEL_ID> --port 80"),
        ("script", "exec serve --model <your model>"),
        ("env", "<region>"),
        ("env", "REPLACE_ME"),
        ("env", "changeme"),
        ("node", "YOUR_NODE_POOL"),
        ("node", "$NODE_POOL"),
        ("volume", "${BUCKET}"),
        ("volume", "<bucket>"),
        ("handle", "fs-xxxxxxxx::fsap-xxxx"),
        ("handle", "xxxxx"),
        ("annotation", "arn:aws:iam::<ACCOUNT_ID>:role/reader"),
    ],
)
def test_what_somebody_has_to_fill_in_is_left_over(tmp_path: Path, field: str, value: str) -> None:
    assert len(asked(tmp_path, field, value)) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("args", word) for word in (
            "<|im_end|>", "<s>", "<pad>", "<image>", "<think>", "<end_of_turn>", "<tool_call>",
            "<extra_id_0>", "<IMG_CONTEXT>", "<END>", "your", "xx", "todo-list", "a<b>c",
            "changelog", "maximum",
        )),
        ("script", "sort <in >out; cat <file>copy; exec serve --stop '</think>'"),
        ("script", "cat <<EOF\nx\nEOF"),
        ("script", "exec serve $MODEL ${REGION}"),
        ("env", "prose that says <your name>"),
        ("secret", "<your-token>"),  # plain-secret says it, and what to do
        ("node", "$5"),
        ("volume", "${pvc.metadata.name}"),
        ("handle", "fs-0123456789abcdef0::fsap-0123456789abcdef0"),
        ("annotation", "kubectl logs <name>"),
        ("annotation", "ask <your team> for access"),
    ],
)  # fmt: skip
def test_what_only_looks_like_a_placeholder_is_left_alone(
    tmp_path: Path, field: str, value: str
) -> None:
    assert asked(tmp_path, field, value) == []

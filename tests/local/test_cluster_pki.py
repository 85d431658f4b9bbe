"""Keys and certificates of a cluster: who signed whom, for which names, and what is repaired."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from local.cluster import pki
from local.cluster.files import write
from local.cluster.spec import NODE_IP, SERVICE_IP

NODE = "lab-0"
FILES = sorted(
    [f"{name}.{kind}" for name in pki.AUTHORITIES for kind in ("crt", "key")]
    + [f"{i.file}.{kind}" for i in pki.identities(NODE) for kind in ("crt", "key")]
    + ["service-account.key", "service-account.pub"]
)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Keys of a new cluster."""
    folder = tmp_path / "pki"
    assert pki.make(folder, NODE)
    return folder


def certificate(folder: Path, name: str) -> x509.Certificate:
    """A certificate of the folder."""
    return x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of the folder."""
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def faults(folder: Path, node: str = NODE) -> Iterator[str]:
    """What is wrong among the keys."""
    for identity in pki.identities(node):
        own = certificate(folder, identity.file)
        key = serialization.load_pem_private_key(
            (folder / f"{identity.file}.key").read_bytes(), password=None
        )
        if own.public_key() != key.public_key():
            yield f"{identity.file}: another key"
        try:
            own.verify_directly_issued_by(certificate(folder, identity.signer))
        except (InvalidSignature, ValueError):
            yield f"{identity.file}: not signed by {identity.signer}"
    for authority in pki.AUTHORITIES:
        own = certificate(folder, authority)
        own.verify_directly_issued_by(own)
    signing = serialization.load_pem_private_key(
        (folder / "service-account.key").read_bytes(), password=None
    )
    if signing.public_key() != serialization.load_pem_public_key(
        (folder / "service-account.pub").read_bytes()
    ):
        yield "service-account: another key"


def test_everything_is_made_and_fits(keys: Path) -> None:
    assert sorted(contents(keys)) == FILES
    assert list(faults(keys)) == []


def test_a_second_run_makes_nothing(keys: Path) -> None:
    before = contents(keys)
    assert not pki.make(keys, NODE)
    assert contents(keys) == before


def test_nobody_else_can_read_them(keys: Path) -> None:
    assert keys.stat().st_mode & 0o777 == 0o700
    assert {p.stat().st_mode & 0o777 for p in keys.iterdir()} == {0o600}


def test_modes_that_were_opened_are_closed_again(keys: Path) -> None:
    keys.chmod(0o755)
    (keys / "admin.key").chmod(0o644)
    pki.make(keys, NODE)
    test_nobody_else_can_read_them(keys)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("apiserver", {"kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost",
                       "kubernetes.default.svc.cluster.local", "127.0.0.1", NODE_IP, SERVICE_IP}),
        ("kubelet", {NODE, NODE_IP}),
        ("etcd", {"localhost", "127.0.0.1"}),
    ],
)  # fmt: skip
def test_servers_are_certified_for_the_names_they_are_reached_by(
    keys: Path, name: str, wanted: set[str]
) -> None:
    extension = certificate(keys, name).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert {str(entry.value) for entry in extension.value} == wanted


def test_clients_cannot_pass_for_servers(keys: Path) -> None:
    for identity in pki.identities(NODE):
        uses = certificate(keys, identity.file).extensions.get_extension_for_class(
            x509.ExtendedKeyUsage
        )
        assert (ExtendedKeyUsageOID.SERVER_AUTH in uses.value) == bool(identity.names)


def test_one_identity_alone_is_all_powerful(keys: Path) -> None:
    masters = [
        i.file
        for i in pki.identities(NODE)
        if "system:masters"
        in {
            a.value
            for a in certificate(keys, i.file).subject.get_attributes_for_oid(
                NameOID.ORGANIZATION_NAME
            )
        }
    ]
    assert masters == ["admin"]


def test_etcd_lets_in_the_api_server_alone() -> None:
    vouched = {i.file for i in pki.identities(NODE) if i.signer == "etcd-ca"}
    assert vouched == {"etcd", "etcd-client"}


@pytest.mark.parametrize("damage", [None, b"", b"\xff\xfe garbage"], ids=["gone", "empty", "junk"])
@pytest.mark.parametrize("file", FILES)
def test_what_was_damaged_is_made_again_and_fits(
    keys: Path, file: str, damage: bytes | None
) -> None:
    (keys / file).unlink()
    if damage is not None:
        (keys / file).write_bytes(damage)
    assert pki.make(keys, NODE)
    assert list(faults(keys)) == []
    assert not pki.make(keys, NODE)


def test_what_was_not_damaged_is_left_alone(keys: Path) -> None:
    before = contents(keys)
    (keys / "kwok.crt").write_bytes(b"")
    pki.make(keys, NODE)
    after = contents(keys)
    assert {n for n in FILES if after[n] != before[n]} == {"kwok.crt", "kwok.key"}


def test_a_new_authority_signs_all_that_the_old_one_had(keys: Path) -> None:
    """A run that ended between the authority and what it signs is completed by the next."""
    before = contents(keys)
    for kind in ("crt", "key"):
        (keys / f"etcd-ca.{kind}").unlink()
    pki.make(keys, NODE)
    after = contents(keys)
    for name in ("etcd.crt", "etcd.key"):  # as if the run had not come that far
        write(keys / name, before[name].decode())
    assert list(faults(keys)) == ["etcd: not signed by etcd-ca"]
    assert pki.make(keys, NODE)
    assert list(faults(keys)) == []
    assert contents(keys)["admin.crt"] == before["admin.crt"] == after["admin.crt"]


def test_keys_that_were_swapped_are_made_again(keys: Path) -> None:
    swapped = (keys / "kwok.key").read_text()
    write(keys / "coredns.key", swapped)
    assert list(faults(keys)) == ["coredns: another key"]
    assert pki.make(keys, NODE)
    assert list(faults(keys)) == []


def test_another_node_gets_another_identity(keys: Path) -> None:
    before = contents(keys)
    assert pki.make(keys, "other-0")
    assert list(faults(keys, "other-0")) == []
    changed = {n for n in FILES if contents(keys)[n] != before[n]}
    assert changed == {"kubelet.crt", "kubelet.key"}
    subject = certificate(keys, "kubelet").subject
    assert subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "system:node:other-0"


def test_certificates_are_renewed_before_they_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "pki"
    monkeypatch.setattr(pki, "YEARS", 0.05)  # 18 days
    pki.make(folder, NODE)
    before = contents(folder)
    monkeypatch.undo()
    assert pki.make(folder, NODE)
    after = contents(folder)
    assert {n for n in FILES if n.endswith(".crt") and after[n] == before[n]} == set()
    assert not pki.make(folder, NODE)

"""Keys and certificates, made per cluster and readable by root alone."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from local.cluster.spec import NODE_IP, SERVICE_IP

YEARS = 5


@dataclass(frozen=True)
class Identity:
    """One certificate: file name, subject, and the names it serves."""

    file: str
    user: str
    groups: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    signer: str = "ca"


def identities(node: str) -> tuple[Identity, ...]:
    """Every certificate of a cluster whose real node is `node`."""
    api = (
        "kubernetes", "kubernetes.default", "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local", "localhost", "127.0.0.1", NODE_IP, SERVICE_IP,
    )  # fmt: skip
    return (
        Identity("apiserver", "kube-apiserver", names=api),
        Identity("apiserver-kubelet", "tokenworks:apiserver-kubelet", ("tokenworks:kubelet-api",)),
        Identity("etcd", "etcd", names=("localhost", "127.0.0.1")),
        Identity("admin", "tokenworks:admin", ("system:masters",)),
        Identity("controller-manager", "system:kube-controller-manager"),
        Identity("scheduler", "system:kube-scheduler"),
        Identity("proxy", "system:kube-proxy"),
        Identity("kubelet", f"system:node:{node}", ("system:nodes",), (node, NODE_IP)),
        Identity("coredns", "tokenworks:coredns"),
        Identity("kwok", "tokenworks:kwok"),
        Identity("provisioner", "tokenworks:provisioner"),
        Identity("node-resources", "tokenworks:node-resources"),
        Identity("front-proxy", "front-proxy-client", signer="front-proxy-ca"),
    )


def _write(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as out:
        out.write(data)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _subject(user: str, groups: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, g) for g in groups]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=365 * YEARS))
    )


def _authority(folder: Path, name: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(f"tokenworks-{name}", ())
    certificate = (
        _builder(subject, key)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(folder / f"{name}.key", _key_pem(key))
    _write(folder / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def _leaf(folder: Path, identity: Identity) -> None:
    signer_key = serialization.load_pem_private_key(
        (folder / f"{identity.signer}.key").read_bytes(), password=None
    )
    assert isinstance(signer_key, ec.EllipticCurvePrivateKey)
    signer = x509.load_pem_x509_certificate((folder / f"{identity.signer}.crt").read_bytes())
    key = ec.generate_private_key(ec.SECP256R1())
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    uses += [ExtendedKeyUsageOID.SERVER_AUTH] if identity.names else []
    builder = (
        _builder(_subject(identity.user, identity.groups), key)
        .issuer_name(signer.subject)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    )
    if identity.names:
        names = [_alternative(n) for n in identity.names]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    certificate = builder.sign(signer_key, hashes.SHA256())
    _write(folder / f"{identity.file}.key", _key_pem(key))
    _write(folder / f"{identity.file}.crt", certificate.public_bytes(serialization.Encoding.PEM))


def make(folder: Path, node: str) -> bool:
    """Make what is missing of the cluster's keys; True when anything was made.

    A certificate is written after its key, so a certificate that is there is whole.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    made = False
    for authority in ("ca", "front-proxy-ca"):
        if not (folder / f"{authority}.crt").exists():
            _authority(folder, authority)
            made = True
    if not (folder / "service-account.pub").exists():
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder / "service-account.key", _key_pem(key))
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        _write(folder / "service-account.pub", public)
        made = True
    for identity in identities(node):
        if made or not (folder / f"{identity.file}.crt").exists():
            _leaf(folder, identity)
            made = True
    return made

"""Keys and certificates, made per cluster and readable by root alone."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from local.cluster.files import write
from local.cluster.spec import NODE_IP, SERVICE_IP

YEARS = 5
AUTHORITIES = ("ca", "etcd-ca", "front-proxy-ca")


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
        # An authority of its own: etcd lets in everybody whom its authority vouches for.
        Identity("etcd", "etcd", names=("localhost", "127.0.0.1"), signer="etcd-ca"),
        Identity("etcd-client", "kube-apiserver", signer="etcd-ca"),
        Identity("admin", "tokenworks:admin", ("system:masters",)),
        Identity("controller-manager", "system:kube-controller-manager"),
        Identity("scheduler", "system:kube-scheduler"),
        Identity("proxy", "system:kube-proxy"),
        Identity("kubelet", f"system:node:{node}", ("system:nodes",), (node, NODE_IP)),
        Identity("coredns", "tokenworks:coredns"),
        Identity("kwok", "tokenworks:kwok"),
        Identity("provisioner", "tokenworks:provisioner"),
        Identity("supervisor", "tokenworks:supervisor"),
        Identity("front-proxy", "front-proxy-client", signer="front-proxy-ca"),
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return pem.decode()


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
    write(folder / f"{name}.key", _key_pem(key))
    write(folder / f"{name}.crt", certificate.public_bytes(serialization.Encoding.PEM).decode())


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
    write(folder / f"{identity.file}.key", _key_pem(key))
    write(
        folder / f"{identity.file}.crt",
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
    )


def _fits(path: Path, identity: Identity) -> bool:
    """Whether the certificate is there and says what the identity says."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        extensions = certificate.extensions
    except (OSError, ValueError):
        return False
    try:
        found = list(extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except x509.ExtensionNotFound:
        found = []
    wanted = [_alternative(n) for n in identity.names]
    return found == wanted and certificate.subject == _subject(identity.user, identity.groups)


def _service_account(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    write(folder / "service-account.key", _key_pem(key))
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    write(folder / "service-account.pub", public.decode())


def make(folder: Path, node: str) -> bool:
    """Make what is missing of the cluster's keys; True when anything was made.

    A certificate is written after its key, so a certificate that is there has one.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = False
    for authority in AUTHORITIES:
        if not (folder / f"{authority}.crt").exists():
            _authority(folder, authority)
            made = True
    if not (folder / "service-account.pub").exists():
        _service_account(folder)
        made = True
    for identity in identities(node):
        if made or not _fits(folder / f"{identity.file}.crt", identity):
            _leaf(folder, identity)
            made = True
    return made

"""Keys and certificates, made per cluster and readable by root alone."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from local.cluster.files import write
from local.cluster.spec import NODE_IP, SERVICE_IP

YEARS = 5
_RENEW_BEFORE = datetime.timedelta(days=30)
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


def _public_pem(key: ec.EllipticCurvePrivateKey) -> str:
    pem = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
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


@dataclass(frozen=True)
class _Pair:
    """A certificate and its key, as read from disk."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def _read_key(file: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(file.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(f"{file}: not one of our keys")
    return key


def _read(folder: Path, name: str) -> _Pair | None:
    """A certificate that is whole, fits its key, and is valid for some time to come."""
    try:
        certificate = x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())
        key = _read_key(folder / f"{name}.key")
    except (OSError, ValueError):
        return None
    late = datetime.datetime.now(datetime.UTC) + _RENEW_BEFORE
    fits = certificate.public_key() == key.public_key()
    return _Pair(certificate, key) if fits and certificate.not_valid_after_utc > late else None


def _write(folder: Path, name: str, pair: _Pair) -> None:
    write(folder / f"{name}.key", _key_pem(pair.key))
    pem = pair.certificate.public_bytes(serialization.Encoding.PEM)
    write(folder / f"{name}.crt", pem.decode())


def _authority(name: str) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(f"tokenworks-{name}", ())
    certificate = (
        _builder(subject, key)
        .issuer_name(subject)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _Pair(certificate, key)


def _leaf(identity: Identity, signer: _Pair) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    uses += [ExtendedKeyUsageOID.SERVER_AUTH] if identity.names else []
    builder = (
        _builder(_subject(identity.user, identity.groups), key)
        .issuer_name(signer.certificate.subject)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    )
    if identity.names:
        names = [_alternative(n) for n in identity.names]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return _Pair(builder.sign(signer.key, hashes.SHA256()), key)


def _names(certificate: x509.Certificate) -> set[x509.GeneralName]:
    try:
        return set(
            certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        )
    except x509.ExtensionNotFound:
        return set()


def _fits(pair: _Pair, identity: Identity, signer: _Pair) -> bool:
    """Whether the certificate says what it should, and today's authority signed it."""
    try:
        pair.certificate.verify_directly_issued_by(signer.certificate)
    except (InvalidSignature, ValueError, TypeError):
        return False
    subject = _subject(identity.user, identity.groups)
    wanted = {_alternative(n) for n in identity.names}
    return pair.certificate.subject == subject and _names(pair.certificate) == wanted


def _make_service_account(folder: Path) -> bool:
    """The pair that signs tokens of service accounts."""
    try:
        key, made = _read_key(folder / "service-account.key"), False
    except (OSError, ValueError):
        key, made = ec.generate_private_key(ec.SECP256R1()), True
    write(folder / "service-account.key", _key_pem(key))
    return write(folder / "service-account.pub", _public_pem(key)) or made


def make(folder: Path, node: str) -> bool:
    """Make what is missing, broken, about to expire or no longer fitting; True when any was made.

    Every certificate is held against its key and its authority, so a run that was
    interrupted anywhere is completed by the next one.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    made = False
    authorities: dict[str, _Pair] = {}
    for name in AUTHORITIES:
        pair = _read(folder, name)
        if pair is None:
            pair, made = _authority(name), True
            _write(folder, name, pair)
        authorities[name] = pair
    made |= _make_service_account(folder)
    for identity in identities(node):
        pair, signer = _read(folder, identity.file), authorities[identity.signer]
        if pair is None or not _fits(pair, identity, signer):
            _write(folder, identity.file, _leaf(identity, signer))
            made = True
    for file in folder.iterdir():
        file.chmod(0o600)
    return made

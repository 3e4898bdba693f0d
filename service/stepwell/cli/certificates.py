"""Makes a private authority and certificates of it, to try TLS. It needs cryptography, the extra `certs`."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 5 * 365
_SKEW = timedelta(hours=1)
"""Certificates hold from so long ago, for machines whose clock is behind."""


class CertificatesRefused(ValueError):
    """Certificates can't be made there, or for these names; the message says why."""


class Pair(NamedTuple):
    """The files of a certificate and of its key."""

    certificate: Path
    key: Path


class Made(NamedTuple):
    """The files of one folder."""

    authority: Pair
    server: Pair
    client: Pair
    is_new_authority: bool


class _Issuer(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make(folder: Path, names: Sequence[str], *, days: int, now: datetime) -> Made:
    """Write an authority, unless the folder has one, and a new pair for servers and for clients.

    `names`: the host names and addresses that clients dial. Files are replaced as wholes, a key before its certificate.

    Raises:
        CertificatesRefused: a name is none, the folder's authority is damaged or over, or can't be written.
    """
    pairs = [
        Pair(folder / f"{name}.pem", folder / f"{name}-key.pem")
        for name in ("ca", "server", "client")
    ]
    authority, server, client = pairs
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_new = not (authority.certificate.exists() or authority.key.exists())
        issuer = _new_authority(authority, now) if is_new else _read_authority(authority, now)
        end = min(now + timedelta(days=days), issuer.certificate.not_valid_after_utc)
        _issue(server, issuer, names[0], ExtendedKeyUsageOID.SERVER_AUTH, (now, end), alternatives)
        _issue(client, issuer, "client", ExtendedKeyUsageOID.CLIENT_AUTH, (now, end))
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise CertificatesRefused(f"{error.filename or folder}: {why}") from None
    return Made(authority, server, client, is_new)


def _new_authority(pair: Pair, now: datetime) -> _Issuer:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named("Stepwell private authority")
    end = now + timedelta(days=AUTHORITY_DAYS)
    builder = _builder(name, name, key.public_key(), (now, end), key)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    _write(pair, certificate, key)
    return _Issuer(certificate, key)


def _read_authority(pair: Pair, now: datetime) -> _Issuer:
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        key = serialization.load_pem_private_key(pair.key.read_bytes(), password=None)
    except (ValueError, TypeError):
        raise CertificatesRefused(
            f"{pair.certificate} and {pair.key} are no authority of this command; name another folder"
        ) from None
    if (
        not isinstance(key, ec.EllipticCurvePrivateKey)
        or certificate.public_key() != key.public_key()
    ):
        raise CertificatesRefused(f"{pair.key} is not the key of {pair.certificate}")
    if certificate.not_valid_after_utc <= now:
        raise CertificatesRefused(f"{pair.certificate} has expired; name another folder")
    return _Issuer(certificate, key)


def _issue(
    pair: Pair,
    issuer: _Issuer,
    name: str,
    purpose: x509.ObjectIdentifier,
    valid: tuple[datetime, datetime],
    alternatives: x509.SubjectAlternativeName | None = None,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = issuer.certificate.subject
    builder = _builder(_named(name), subject, key.public_key(), valid, issuer.key)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    _write(pair, builder.sign(issuer.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    valid: tuple[datetime, datetime],
    signer: ec.EllipticCurvePrivateKey,
) -> x509.CertificateBuilder:
    begin, end = valid
    of_signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - _SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(of_signer, critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        pass
    labels = text.removeprefix("*.").split(".")
    if len(text) > 253 or not all(_is_label(label) for label in labels):
        raise CertificatesRefused(f"{text!r} is neither a host name nor an address, without a port")
    return x509.DNSName(text)


def _is_label(text: str) -> bool:
    plain = text.replace("-", "a").replace("_", "a")
    return 0 < len(text) < 64 and plain.isascii() and plain.isalnum() and text[0] != "-"


def _write(pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    form = serialization.PrivateFormat.PKCS8
    none = serialization.NoEncryption()
    _replace(pair.key, key.private_bytes(serialization.Encoding.PEM, form, none), 0o600)
    _replace(pair.certificate, certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def _replace(path: Path, content: bytes, mode: int) -> None:
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        os.write(file, content)
        os.fsync(file)
    finally:
        os.close(file)
    draft.replace(path)


def moment(now_us: int) -> datetime:
    """Return the moment of microseconds since 1970."""
    return datetime.fromtimestamp(now_us / 1_000_000, UTC)

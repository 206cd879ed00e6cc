"""Certificates for tests of TLS: an authority, and what it has issued."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey


def write_certificates(directory: Path) -> None:
    """Write PEM files: `ca`, and `good`, `expired` and `other` that it has issued, and `self`."""
    authority = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    soon, day = now + timedelta(days=30), timedelta(days=1)
    _write(
        directory, "ca", authority, _issued("Test authority", authority, authority, now - day, soon)
    )
    for name, host, until in (
        ("good", "localhost", soon),
        ("expired", "localhost", now - day),
        ("other", "other.example", soon),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        made = _issued(host, key, authority, now - 2 * day, until)
        _write(directory, name, key, made)
    own = ec.generate_private_key(ec.SECP256R1())
    _write(directory, "self", own, _issued("localhost", own, own, now - day, soon))


def _issued(host: str, key: Key, issuer: Key, since: datetime, until: datetime) -> x509.Certificate:
    is_authority = key is issuer and host != "localhost"
    issuer_name = host if key is issuer else "Test authority"
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(host))
        .issuer_name(_name(issuer_name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer, hashes.SHA256())


def _name(host: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])


def _write(directory: Path, name: str, key: Key, made: x509.Certificate) -> None:
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (directory / f"{name}.key").write_bytes(private)
    (directory / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))

"""A self-signed certificate for one run, so that a stack can speak TLS to its own driver."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leadline.host.textfile import write_private

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

_DAYS = 30
_NAME = "leadline"


@dataclass(frozen=True)
class Certificate:
    """ECDSA on P-256, signed with SHA-256, for ``localhost`` and the loopback addresses. PEM texts."""

    certificate: str
    key: str

    def write(self, directory: Path) -> tuple[Path, Path]:
        """``tls.crt`` and ``tls.key`` (for this user only) in ``directory``."""
        certificate, key = directory / "tls.crt", directory / "tls.key"
        certificate.write_text(self.certificate)
        write_private(key, self.key)
        return certificate, key

    def write_keystore(self, path: Path, password: str, name: str = _NAME) -> None:
        """Both as a PKCS#12 file under ``name``, for Java servers; for this user only."""
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12

        key = serialization.load_pem_private_key(self.key.encode(), None)
        certificate = x509.load_pem_x509_certificate(self.certificate.encode())
        encryption = serialization.BestAvailableEncryption(password.encode())
        keystore = pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, None, encryption)  # type: ignore[arg-type]
        write_private(path, keystore)


def _general_name(name: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def make_certificate(names: Sequence[str] = ()) -> Certificate:
    """A new one, also for the addresses or host names ``names``; its validity begins an hour ago, for clocks that
    differ, and ends in 30 days.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.UTC)
    subjects = dict.fromkeys(["localhost", "127.0.0.1", "::1", *names])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in subjects]), critical=False)
        # rustls takes no certificate of an authority for a server's own
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Certificate(
        built.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )

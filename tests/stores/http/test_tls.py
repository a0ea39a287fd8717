"""``https://``: certificates are verified, always; one of one's own is named with ca_file."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot.errors import LedgerError, StoreUnavailable
from chatsnapshot.testing.servers.http import HttpServer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that no system trusts, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert, private = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    private.chmod(0o600)
    return cert, private


@pytest.fixture(scope="module")
def secure(certificate: tuple[Path, Path]) -> Iterator[HttpServer]:
    cert, private = certificate
    with HttpServer("--tls-cert", str(cert), "--tls-key", str(private)) as server:
        yield server


@pytest.mark.parametrize("mode", ["direct", "spool"])
def test_a_certificate_that_is_trusted_by_name_lets_record(
    secure: HttpServer,
    certificate: tuple[Path, Path],
    mode: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with chatsnapshot.open(f"{secure.address}?ledger={mode}&mode={mode}&ca_file={certificate[0]}") as ledger:
        ledger.record("execution.message", {"role": "user", "content": "Hello"}, correlation_id="run-1")
        assert ledger.flush(30).ok
        assert ledger.head == 1
        assert ledger.verify().ok


def test_a_certificate_that_is_not_trusted_is_refused_before_anything_is_sent(secure: HttpServer) -> None:
    with pytest.raises(StoreUnavailable, match="certificate is not trusted"):
        chatsnapshot.open(f"{secure.address}?ledger=other&mode=direct")


def test_a_certificate_for_another_name_is_refused(
    secure: HttpServer, certificate: tuple[Path, Path]
) -> None:
    url = secure.address.replace("127.0.0.1", "localhost")
    with pytest.raises(StoreUnavailable, match="certificate is not trusted"):
        chatsnapshot.open(f"{url}?ledger=other&mode=direct&ca_file={certificate[0]}")


def test_plain_http_to_a_secure_service_is_an_error_in_time(secure: HttpServer) -> None:
    url = secure.address.replace("https", "http")
    with pytest.raises(StoreUnavailable):
        chatsnapshot.open(f"{url}?ledger=other&mode=direct&timeout=2")


def test_a_file_of_certificates_that_cannot_be_read_says_so() -> None:
    with pytest.raises(LedgerError, match="ca_file"):
        chatsnapshot.open("https://127.0.0.1:9?mode=direct&ca_file=/nowhere.pem")

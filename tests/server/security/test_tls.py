"""https with a certificate of one's own, and a reverse proxy that is believed only when it is named."""

from __future__ import annotations

import datetime
import ipaddress
import signal
import socket
import ssl
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

import chatsnapshot
from chatsnapshot.server.tls import Renewal, Tls

WRONG = "csk_aaaaaaaa_" + "A" * 43


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return made_certificate(tmp_path_factory.mktemp("tls"))


def made_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert, private = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    private.chmod(0o600)
    return cert, private


def test_https_is_served_and_the_store_over_http_records_through_it(
    serve: Any, keys: Any, certificate: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, private = certificate
    _, text = keys.create(["ingest", "read"])
    service = serve(
        "--ledger", tmp_path / "runs.db", "--keys", keys.path, "--tls-cert", cert, "--tls-key", private
    )
    assert service.url.startswith("https://127.0.0.1:")
    context = ssl.create_default_context(cafile=str(cert))
    with httpx.Client(base_url=service.url, verify=context) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/v1/head").status_code == 401
        assert client.get("/healthz", headers={"Origin": service.url}).status_code == 200
        assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 421
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{service.url}/healthz")  # signed by nobody that is known
    monkeypatch.setenv("CHATSNAPSHOT_KEY", text)
    with chatsnapshot.open(f"{service.url}?mode=direct&ca_file={cert}") as ledger:
        entry = ledger.record("execution.message", {"content": "over TLS"}, correlation_id="run-1")
        assert ledger.get(entry.event_id).event.payload == {"content": "over TLS"}
    old = ssl.create_default_context(cafile=str(cert))
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
    old.set_ciphers("DEFAULT")
    assert httpx.get(f"{service.url}/healthz", verify=old).status_code == 200
    with pytest.raises(httpx.HTTPError):
        httpx.get(service.url.replace("https", "http") + "/healthz")


def test_files_that_are_no_certificate_and_key_are_named_before_anything_is_served(
    command: Any, certificate: Any, tmp_path: Path
) -> None:
    cert, private = certificate
    wide = tmp_path / "wide.pem"
    wide.write_bytes(private.read_bytes())
    wide.chmod(0o644)
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("nothing")
    nonsense.chmod(0o600)
    for one, two in (
        (cert, tmp_path / "none.pem"), (cert, wide), (cert, nonsense), (nonsense, private), (private, private)
    ):  # fmt: skip
        done = command(
            "serve", "--port", 0, "--ledger", tmp_path / "x.db", "--tls-cert", one, "--tls-key", two
        )
        assert done.returncode == 1 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
        assert "PRIVATE" not in done.stderr
    assert not (tmp_path / "x.db").exists()


def shown_by(port: int) -> bytes:
    """The certificate that a new connection is shown."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), 20) as sock, context.wrap_socket(sock) as wrapped:
        return wrapped.getpeercert(binary_form=True) or b""


def der(cert: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert(cert.read_text())


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no SIGHUP on this system")
def test_a_renewed_certificate_is_shown_after_sighup_and_open_connections_go_on(
    serve: Any, tmp_path: Path
) -> None:
    cert, private = made_certificate(tmp_path)
    before = der(cert)
    service = serve("--ledger", tmp_path / "runs.db", "--tls-cert", cert, "--tls-key", private)
    port = int(service.url.rpartition(":")[2])
    context = ssl.create_default_context(cafile=str(cert))
    with httpx.Client(base_url=service.url, verify=context) as client:
        assert client.get("/healthz").status_code == 200
        assert shown_by(port) == before

        private.write_text("nothing")
        private.chmod(0o600)
        service.process.send_signal(signal.SIGHUP)
        assert shown_by(port) == before  # files that cannot be used change nothing

        after = der(made_certificate(tmp_path)[0])
        service.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 20
        while shown_by(port) != after:
            assert time.monotonic() < deadline
        assert client.get("/healthz").status_code == 200


def test_a_certificate_that_changed_is_noticed_without_a_signal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = Tls(*map(str, made_certificate(tmp_path)))
    made: list[ssl.SSLContext] = []

    def make() -> ssl.SSLContext:
        made.append(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        return made[-1]

    renewal = Renewal(tls, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), make)
    renewal.look()
    assert not made
    made_certificate(tmp_path)
    renewal.look()
    renewal.look()
    assert len(made) == 1
    (tmp_path / "key.pem").write_text("nothing")
    renewal.look()
    renewal.look()
    assert len(made) == 1
    assert caplog.text.count("the one before is kept") == 1
    (tmp_path / "key.pem").unlink()
    renewal.look()
    made_certificate(tmp_path)
    renewal.look()
    assert len(made) == 2


def test_who_is_forwarded_for_is_believed_of_a_named_proxy_only(
    serve: Any, keys: Any, kit: Any, tmp_path: Path
) -> None:
    for named in (False, True):
        path = tmp_path / f"{named}.db"
        more = ("--proxy", "127.0.0.1") if named else ()
        service = serve("--ledger", path, "--keys", keys.path, *more)
        statuses = [
            service.client.get(
                "/v1/head",
                headers={
                    **kit.bearer(WRONG),
                    "X-Forwarded-For": f"198.51.100.{number}, 203.0.113.{number % 2}",
                },
            ).status_code
            for number in range(12)
        ]
        assert statuses == ([401] * 10 + [429] * 2 if named else [401] * 5 + [429] * 7)
        service.end()
        with chatsnapshot.open(path, read_only=True) as ledger:
            networks = {
                entry.event.payload["network"] for entry in ledger.read(event_type="ledger.access_refused")
            }
        assert networks == ({"203.0.113.0/24"} if named else {"127.0.0.0/24"})


def test_a_forwarded_host_or_scheme_changes_nothing_that_is_checked(serve: Any, tmp_path: Path) -> None:
    service = serve("--ledger", tmp_path / "runs.db", "--proxy", "127.0.0.1", "--host-name", "ledger.example")
    for headers, status in (
        ({"Host": "evil.example", "X-Forwarded-Host": "localhost"}, 421),
        ({"Host": "ledger.example", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}, 200),
        ({"Host": "ledger.example", "Origin": "https://ledger.example", "X-Forwarded-Proto": "https"}, 200),
        ({"Forwarded": "host=localhost", "Host": "evil.example"}, 421),
    ):
        assert service.client.get("/v1/head", headers=headers).status_code == status, headers

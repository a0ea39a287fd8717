"""Checks 30 to 38: what a page in a browser can make happen on this machine, and what answers say to browsers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chatsnapshot.server.guard import Headers, host_of
from chatsnapshot.server.routes import ENDPOINTS

PATHS = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/v1/openapi.json",
    "/v1/head",
    "/v1/events",
    "/v1/stream",
    "/nothing",
)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example:80", "[::1", "[::1]x", "::1",
     "[::ffff:1.2.3.4]", "localhost:x", "localhost:99999", "localhost:80:80", "", "0.0.0.0", "127.0.0.2",
     "user@localhost", "localhost/", "localhost, evil.example", "localhost evil", "l\u00f6calhost", "127.1", "2130706433",
     "[::1%25lo]"],
)  # fmt: skip
def test_check_30_another_name_is_answered_with_421_by_every_method(
    open_service: Any, kit: Any, host: str
) -> None:
    port = open_service.url.rpartition(":")[2]
    for method, path in (("GET", "/v1/head"), ("POST", "/v1/events"), ("DELETE", "/x"), ("OPTIONS", "/v1/events"),
                         ("HEAD", "/healthz")):  # fmt: skip
        with kit.raw(open_service.url) as raw:
            raw.send(
                f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode("latin-1")
            )
            status = raw.answer().split(b" ")[1]
            assert status in (b"421", b"400"), (host, port)
            assert status == b"421" or host in ("", "l\u00f6calhost", "localhost evil"), host


def test_check_30_our_names_are_answered_with_and_without_a_port(
    open_service: Any, serve: Any, tmp_path: Any
) -> None:
    for host in ("localhost", "LOCALHOST.", "127.0.0.1:1", "[::1]", "[0:0:0:0:0:0:0:1]:8420", "localhost:80"):
        assert open_service.client.get("/v1/head", headers={"Host": host}).status_code == 200, host
    named = serve("--ledger", tmp_path / "x.db", "--host-name", "Ledger.example", "--host-name", "192.0.2.7")
    for host in ("ledger.example", "LEDGER.EXAMPLE:443", "192.0.2.7", "localhost"):
        assert named.client.get("/healthz", headers={"Host": host}).status_code == 200, host
    assert named.client.get("/healthz", headers={"Host": "other.example"}).status_code == 421


def test_check_30_no_host_and_two_hosts_are_refused(open_service: Any, kit: Any) -> None:
    for head in (b"GET /v1/head HTTP/1.0\r\n\r\n", b"GET /v1/head HTTP/1.1\r\n\r\n",
                 b"GET /v1/head HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
                 b"GET http://evil.example/v1/head HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
                 ):  # fmt: skip
        with kit.raw(open_service.url) as raw:
            raw.send(head)
            assert raw.answer().split(b" ")[1] in (b"400", b"421", b"404"), head


def test_check_31_a_foreign_page_is_refused_on_every_route(open_service: Any, kit: Any) -> None:
    own = open_service.url
    foreign: list[dict[str, str]] = [
        {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:3000"}, {"Origin": ""},
        {"Origin": own.replace("127.0.0.1", "localhost")}, {"Origin": own.replace("http", "ftp")},
        {"Origin": own + ".evil.example"}, {"Origin": f"{own}, https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Sec-Fetch-Site": "nonsense"},
        {"Origin": own, "Sec-Fetch-Site": "cross-site"},
    ]  # fmt: skip
    routes = [*(("GET", path) for path in PATHS), *((one.method, "/v1" + one.path) for one in ENDPOINTS)]
    for headers in foreign:
        for method, path in routes if headers == foreign[0] else routes[:7]:
            answer = open_service.client.request(method, path, headers=headers)
            assert (answer.status_code, kit.kind(answer)) == (403, "origin"), (headers, method, path)
    for headers in ({"Origin": own}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {}):
        assert open_service.client.get("/v1/head", headers=headers).status_code == 200, headers


def test_check_31_behind_a_proxy_the_origin_is_that_of_the_name_asked_for(serve: Any, tmp_path: Any) -> None:
    named = serve("--ledger", tmp_path / "x.db", "--host-name", "ledger.example")
    for host, origin, status in (
        ("ledger.example", "https://ledger.example", 200), ("ledger.example", "http://ledger.example", 200),
        ("ledger.example:443", "https://ledger.example", 200), ("ledger.example", "https://ledger.example:8443", 403),
        ("localhost", "https://ledger.example", 403), ("ledger.example", "http://localhost", 403),
    ):  # fmt: skip
        answer = named.client.get("/v1/head", headers={"Host": host, "Origin": origin})
        assert answer.status_code == status, (host, origin)


def test_check_32_nothing_is_allowed_to_other_origins_and_no_cookie_is_set(
    open_service: Any, kit: Any
) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    for headers in ({"Origin": open_service.url}, {"Origin": "https://evil.example"}, {}):
        for method, path in (("OPTIONS", "/v1/events"), ("GET", "/v1/head"), ("GET", "/nothing")):
            answer = open_service.client.request(method, path, headers={**asked, **headers})
            names = set(answer.headers)
            assert (
                not [one for one in names if one.startswith("access-control")] and "set-cookie" not in names
            )
            assert method == "GET" or answer.status_code in (403, 405)


@pytest.mark.parametrize(
    "form",
    ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", "", "image/png"],
)
def test_check_33_no_form_of_a_page_changes_anything(open_service: Any, kit: Any, form: str) -> None:
    headers = {"content-type": form} if form else {}
    before = open_service.client.get("/v1/head").json()["position"]
    body = b'{"event_type":"a.b","correlation_id":"c"}'
    for endpoint in ENDPOINTS:
        if endpoint.method != "GET" and "{" not in endpoint.path:
            path = f"/v1/ledgers/main{endpoint.path}"
            answer = open_service.client.request(endpoint.method, path, content=body, headers=headers)
            assert answer.status_code == 415, (path, answer.text)
    assert open_service.client.get("/v1/head").json()["position"] == before


def test_check_34_every_answer_tells_browsers_to_do_nothing_with_it(open_service: Any) -> None:
    answers = [open_service.client.get(path) for path in PATHS if path != "/v1/stream"]
    answers += [
        open_service.client.request("PATCH", "/v1/events"),
        open_service.client.post("/v1/events", content=b"{"),
    ]
    answers.append(open_service.client.get("/v1/head", headers={"Host": "evil.example"}))
    with open_service.client.stream("GET", "/v1/stream") as stream:
        answers.append(stream)
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers
        assert answer.headers["content-type"].partition(";")[0] in (
            "application/json", "application/problem+json", "text/plain", "text/event-stream"
        )  # fmt: skip


def test_check_34_an_error_that_nobody_foresaw_has_them_too() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        await send(
            {"type": "http.response.start", "status": 500, "headers": [(b"Cache-Control", b"private")]}
        )

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "headers": [(b"host", b"localhost")],
        "query_string": b"",
        "server": ("127.0.0.1", 1),
    }
    asyncio.run(Headers(broken)(scope, None, send))  # type: ignore[arg-type]
    names = [name.lower() for name, _ in sent[0]["headers"]]
    assert b"content-security-policy" in names and names.count(b"cache-control") == 1


def test_check_38_a_blob_is_an_attachment_that_no_browser_shows(open_service: Any, kit: Any) -> None:
    page = "<script>alert(1)</script>" * 20_000
    open_service.client.post("/v1/events", json=kit.event(payload={"page": page}))
    (entry,) = open_service.client.get("/v1/events?reverse=true&limit=1").json()["entries"]
    name = entry["event"]["payload"]["page"]["$blob"]
    answer = open_service.client.get(f"/v1/blobs/{name}")
    assert page.encode() in answer.content
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_names_of_hosts_are_read_as_they_are_written() -> None:
    assert host_of("[::1]:8420") == host_of("[0::1]") == "::1"
    assert host_of("A.example.:1") == "a.example"
    assert [host_of(bad) for bad in ("", ":80", "[::1", "a b", "a:b", "[a]", "a:")] == [None] * 7

"""The server answers its own page on this machine, and nobody else."""

from __future__ import annotations

import socket

import pytest
from web_server import TOKEN, save_photo

from diffbcp_cli.errors import UsageError
from diffbcp_cli.web.serve import listen


def test_the_page_and_its_files_come_with_the_token(served):
    page = served.raw(f"/{TOKEN}/")
    assert page.status == 200
    assert b"<title>diffbcp</title>" in page.body
    for name in ("app.js", "style.css", "icon.svg"):
        assert served.ask(f"static/{name}").status == 200
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", ["/", "/api/state", "/a-token-of-the-test/", "//", f"/x/{TOKEN}/", "/%00/"])
def test_without_the_token_nothing_is_said(served, path):
    answer = served.raw(path)
    assert answer.status == 403
    assert b"token" in answer.body


@pytest.mark.parametrize(
    "host",
    ["example.com", "127.0.0.1.example.com", "127.0.0.2", "169.254.169.254", "", "[", "localhost.evil"],
)
def test_a_host_that_is_not_loopback_is_refused(served, host):
    assert served.ask("api/state", Host=host).status == 403


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost:8000", "[::1]:80", "LOCALHOST"])
def test_a_tunnel_may_have_another_port(served, host):
    assert served.ask("api/state", Host=host).status == 200


@pytest.mark.parametrize("origin", ["http://example.com", "null", "https://127.0.0.1", "http://127.0.0.1:1"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_another_origin_is_refused(served, origin, method):
    assert served.ask("api/photos", method=method, body=b"", Origin=origin).status == 403


def test_the_pages_own_origin_is_let_in(served):
    origin = f"http://127.0.0.1:{served.port}"
    assert served.ask("api/state", Origin=origin, Sec_Fetch_Site="same-origin").status == 200
    assert served.ask("api/state", Sec_Fetch_Site="cross-site").status == 403
    assert served.ask("api/state", Sec_Fetch_Site="same-site").status == 403


@pytest.mark.parametrize(
    "path",
    [
        *("static/../../etc/passwd", "static/..%2f..%2fserver.py", "static/%2e%2e/server.py", "static/"),
        *("api/photos/../view", "api/photos/..%2f..%2fetc/view", "api/photos/%2Fetc%2Fpasswd/view"),
        *("api/runs/..%2f1/file", "api/photos/1/../../../etc/passwd", "static/app.js%00.png", "restored/"),
    ],
)
def test_no_path_leads_out_of_the_session(served, tmp_path, path):
    served.store.add(save_photo(tmp_path / "photo.png"))
    answer = served.ask(path)
    assert answer.status in (400, 404, 405)
    assert b"root:" not in answer.body
    assert b"import" not in answer.body


def test_it_listens_on_this_machine_only(served):
    assert served.listening.getsockname()[0] == "127.0.0.1"
    mine = socket.gethostbyname(socket.gethostname())
    with socket.socket() as other:
        other.settimeout(2)
        assert mine.startswith("127.") or other.connect_ex((mine, served.port)) != 0


def test_a_port_that_is_taken_is_said(served):
    with pytest.raises(UsageError, match=f"port {served.port} is taken"):
        listen(served.port)


def test_a_web_socket_is_not_spoken(served):
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Version": "13"}
    assert served.ask("api/state", Sec_WebSocket_Key="AAAAAAAAAAAAAAAAAAAAAA==", **headers).status != 101


def test_whoever_comes_before_the_server_has_begun_waits_and_is_not_turned_away():
    with listen(0) as listening, socket.create_connection(listening.getsockname(), timeout=5):
        pass

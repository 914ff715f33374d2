"""HTTP: what is served, in which formats, and where."""

from __future__ import annotations

import gzip
import socket
import urllib.request

import pytest

from dutycycle_exporter.errors import ExporterError
from dutycycle_exporter.web import Scrapes, Server, make_app, parse_address
from dutycycle_exporter.web import server as web
from tests.exporter.held_page import Verdicts, get


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "text/plain;version=0.0.4",
        "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;q=0.5",
        "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
    ],
)
def test_metrics_are_text_whatever_is_asked_for(server, accept):
    """OpenMetrics has no histogram of seconds: its parsers refuse the whole page for a bucket that is no integer."""
    status, headers, body = get(server, "/metrics", Accept=accept)
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b"up_ 1.0" in body
    assert b"# EOF" not in body


def test_metrics_are_compressed_for_those_who_can_take_it(server):
    _, headers, body = get(server, "/metrics", Accept_Encoding="gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert b"up_ 1.0" in gzip.decompress(body)


@pytest.mark.parametrize(
    ("accept", "compressed"),
    [
        ("deflate, gzip;q=1.0, *;q=0.5", True),
        ("GZIP", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, identity", False),
        ("gzipped", False),
        ("identity", False),
        ("", False),
    ],
)
def test_only_those_who_can_take_it_are_sent_it_compressed(server, accept, compressed):
    _, headers, body = get(server, "/metrics", Accept_Encoding=accept)
    assert (headers["Content-Encoding"] == "gzip") == compressed
    assert len(body) == int(headers["Content-Length"])


def test_a_head_request_has_the_answers_headers_and_nothing_else(server):
    status, headers, body = get(server, "/metrics", "HEAD")
    assert (status, body) == (200, b"")
    assert headers["Content-Length"] == get(server, "/metrics")[1]["Content-Length"]


def test_a_page_that_cannot_be_made_is_a_500_and_one_line_of_the_log(server, scrapes, caplog, capfd):
    scrapes._make_page = lambda: 1 / 0
    status, _, body = get(server, "/metrics")
    assert status == 500
    assert b"Traceback" not in body
    assert "ZeroDivisionError" in caplog.text
    assert capfd.readouterr().err == ""
    scrapes._make_page = list
    assert get(server, "/metrics")[0] == 200


@pytest.mark.parametrize(("path", "attribute"), [("/-/ready", "why_unready"), ("/-/healthy", "why_unhealthy")])
def test_probes_answer_503_with_the_reason(server, verdicts, path, attribute):
    assert get(server, path)[0] == 200
    setattr(verdicts, attribute, "the driver is not loaded")
    status, _, body = get(server, path)
    assert (status, body) == (503, b"the driver is not loaded\n")


def test_the_landing_page_names_the_others(server):
    status, headers, body = get(server, "/")
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert all(path in body for path in (b"/metrics", b"/-/healthy", b"/-/ready"))


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("HEAD", "/nowhere", 404),
        ("PUT", "/metrics", 405),
        ("GET", "/metrics/x", 404),
        ("POST", "/metrics", 405),
        ("OPTIONS", "/metrics", 405),
    ],
)
def test_other_requests_are_turned_away(server, method, path, status):
    assert get(server, path, method)[0] == status


def test_it_stops_at_once_though_it_looks_seldom(verdicts, monkeypatch):
    monkeypatch.setattr(web, "_LOOK", 3600.0)
    server = Server("127.0.0.1:0", make_app(Scrapes(list), verdicts))
    server.start()
    assert get(server, "/-/ready")[0] == 200
    server.stop()
    assert not server._thread.is_alive()


def test_every_interface_is_served_over_both_protocols(verdicts):
    server = Server(":0", make_app(Scrapes(list), verdicts))
    server.start()
    try:
        for host in ("127.0.0.1", *(["[::1]"] if socket.has_dualstack_ipv6() else [])):
            with urllib.request.urlopen(f"http://{host}:{server.server_port}/-/ready", timeout=60) as response:
                assert response.status == 200
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":9836", ("", 9836)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("gpu-node.example:80", ("gpu-node.example", 80)),
        ("[::1]:9836", ("::1", 9836)),
        ("[fe80::1%eth0]:9836", ("fe80::1%eth0", 9836)),
    ],
)
def test_addresses(text, expected):
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["", "9836", "localhost", ":", ":65536", "::1:9836", ":port", "a b:1", ":-1"])
def test_what_is_no_address_is_refused_by_the_flags_name(text):
    with pytest.raises(ExporterError, match=r"--web\.listen-address"):
        parse_address(text)


def test_a_port_that_is_taken_is_an_error_that_names_the_flag(server, collector):
    with pytest.raises(ExporterError, match=r"--web\.listen-address"):
        Server(f"127.0.0.1:{server.server_port}", make_app(Scrapes(list), Verdicts()))

"""The client against real engines: a Prometheus behind TLS with passwords and certificates, and a VictoriaMetrics."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.promql.client import Client
from dutycycle_alerter.settings.prometheus import Prometheus
from tests.exporter.certificates import Authority, Pair
from tests.prometheus.server import PrometheusServer, VictoriaMetricsServer

T = 1_700_000_000
DATA = f"""\
# TYPE busy gauge
busy{{node="n1",gpu="0",mig=""}} 0.25 {T}
busy{{node="n1",gpu="0",mig=""}} 0.5 {T + 15}
busy{{node="n1",gpu="1"}} 1e-300 {T + 15}
busy{{node="né\\"\\\\1",gpu="0"}} +Inf {T + 15}
# TYPE odd gauge
odd{{node="n1"}} NaN {T + 15}
# EOF
"""
SESAME = "$2b$04$abcdefghijklmnopqrstuuinwY/tkBVrn3xrxQI/TgnMHhkvl85RW"


@dataclass(frozen=True)
class Site:
    """A Prometheus that asks for a client's certificate and a password, and what opens it."""

    server: PrometheusServer
    ca: Path
    client: Pair
    password: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("engines")
    authority = Authority(directory)
    own, client = authority.issue("prometheus", "DNS:prometheus.example"), authority.issue("dutycycle")
    web = directory / "web.yml"
    web.write_text(
        f"tls_server_config: {{cert_file: {own.cert}, key_file: {own.key}, client_ca_file: {authority.pair.cert},"
        f" client_auth_type: RequireAndVerifyClientCert}}\nbasic_auth_users: {{dutycycle: '{SESAME}'}}\n"
    )
    password = directory / "password"
    password.write_text("sesame\n")
    with PrometheusServer(directory / "data", openmetrics=DATA, web_config=web, scheme="https") as server:
        yield Site(server, authority.pair.cert, client, password)


@pytest.fixture
def asking(site: Site) -> Iterator[Callable[..., Client]]:
    """Clients of the site; what a test gives is instead of what opens it."""
    made = []

    def client(**changes: Any) -> Client:
        given = {
            "url": site.server.url,
            "username": "dutycycle",
            "password_file": site.password,
            "ca_file": site.ca,
            "cert_file": site.client.cert,
            "key_file": site.client.key,
            "server_name": "prometheus.example",
            **changes,
        }
        made.append(Client(Prometheus(**{key: value for key, value in given.items() if value is not None})))
        return made[-1]

    yield client
    for one in made:
        one.close()


def test_a_vector_has_the_labels_that_were_asked_for(asking: Callable[..., Client]) -> None:
    vector = asking().instant("busy", at=T + 20, labels=("gpu", "nix", "node"))
    assert dict(zip(vector.keys, vector.values.tolist(), strict=True)) == {
        ("0", "", "n1"): 0.5,
        ("1", "", "n1"): 1e-300,
        ("0", "", 'né"\\1'): math.inf,
    }
    assert vector.values.dtype == np.float64
    assert vector.warnings == ()


def test_a_matrix_has_the_raw_samples(asking: Callable[..., Client]) -> None:
    matrix = asking().raw("busy[1m]", at=T + 20, labels=("node", "gpu"))
    place = matrix.keys.index(("n1", "0"))
    part = slice(matrix.offsets[place], matrix.offsets[place + 1])
    assert (matrix.times[part].tolist(), matrix.values[part].tolist()) == ([T, T + 15], [0.25, 0.5])
    assert matrix.offsets.tolist() == sorted(matrix.offsets.tolist())
    assert matrix.offsets[-1] == len(matrix.times) == 4


def test_not_a_number_stays_that(asking: Callable[..., Client]) -> None:
    client = asking()
    assert np.isnan(client.instant("odd", at=T + 20, labels=("node",)).values).tolist() == [True]
    assert np.isnan(client.raw("odd[1m]", at=T + 20, labels=()).values).tolist() == [True]


@pytest.mark.parametrize("labels", [(), ("class", "from"), ("node", "__name__")])
def test_any_labels_can_be_asked_for(asking: Callable[..., Client], labels: tuple[str, ...]) -> None:
    vector = asking().instant('busy{gpu="1"}', at=T + 20, labels=labels)
    assert vector.keys == [{(): (), ("class", "from"): ("", "")}.get(labels, ("n1", "busy"))]


def test_nothing_found_is_an_empty_answer(asking: Callable[..., Client]) -> None:
    client = asking()
    assert len(client.instant("nothing", at=T, labels=("a",)).values) == 0
    matrix = client.raw("nothing[1m]", at=T, labels=("a",))
    assert (matrix.keys, matrix.offsets.tolist(), len(matrix.times), len(matrix.values)) == ([], [0], 0, 0)


def test_use_is_counted(asking: Callable[..., Client]) -> None:
    client = asking()
    client.instant("busy", at=T, labels=())
    seconds, size = client.seconds, client.bytes
    assert (client.queries, seconds > 0, size > 0) == (1, True, True)
    with pytest.raises(SourceError):
        client.instant("busy[", at=T, labels=())
    assert (client.queries, client.seconds > seconds, client.bytes > size) == (2, True, True)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("busy[", "answered 400 bad_data: invalid parameter"),
        ("busy[1m]", "answered a matrix, not a vector"),
        ("1", "answered a scalar, not a vector"),
        ('"a"', "answered a string, not a vector"),
        ("busy + on () group_left () busy", "answered 422 execution: found duplicate series"),
    ],
)
def test_a_query_that_fails_says_why(asking: Callable[..., Client], query: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        asking().instant(query, at=T + 20, labels=())


def test_a_query_of_megabytes_is_sent(asking: Callable[..., Client]) -> None:
    matcher = "|".join(f"n{number}" for number in range(200_000))
    assert len(asking().instant(f'busy{{node=~"{matcher}"}}', at=T + 20, labels=()).keys) == 2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"username": "", "password_file": None}, r"answered 401 .*credentials"),
        ({"username": "nobody"}, "answered 401"),
        ({"password_file": None, "password": "wrong"}, "answered 401"),
        (
            {"cert_file": None, "key_file": None},
            "certificate required|bad certificate|EOF occurred|reset|[Bb]roken pipe",
        ),
        ({"ca_file": None}, "CERTIFICATE_VERIFY_FAILED"),
        ({"server_name": ""}, "IP address mismatch|CERTIFICATE_VERIFY_FAILED"),
        ({"server_name": "other.example"}, "other.example"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_who_is_not_let_in_hears_why(asking: Callable[..., Client], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceError, match=said):
        asking(**changes).instant("busy", at=T, labels=())


def test_verification_can_be_skipped(asking: Callable[..., Client]) -> None:
    assert asking(ca_file=None, server_name="", insecure_skip_verify=True).instant("busy", at=T, labels=()).keys


def test_a_password_file_and_a_certificate_are_read_again_when_they_change(
    asking: Callable[..., Client], site: Site, tmp_path: Path
) -> None:
    password, cert = tmp_path / "password", tmp_path / "cert"
    password.write_text("sesame")
    cert.write_bytes(site.client.cert.read_bytes())
    client = asking(password_file=password, cert_file=cert)
    assert client.instant("busy", at=T, labels=()).keys
    password.write_text("barley")
    with pytest.raises(SourceError, match="401"):
        client.instant("busy", at=T, labels=())
    password.write_text("sesame")
    cert.write_text("nonsense")
    with pytest.raises(SourceError, match="cert_file"):
        client.instant("busy", at=T, labels=())
    cert.write_bytes(site.client.cert.read_bytes())
    assert client.instant("busy", at=T, labels=()).keys


def test_an_engine_that_comes_back_is_asked_again(asking: Callable[..., Client], site: Site) -> None:
    client = asking()
    assert client.instant("busy", at=T, labels=()).keys
    site.server.stop()
    with pytest.raises(SourceError, match="refused"):
        client.instant("busy", at=T, labels=())
    site.server.start()
    assert client.instant("busy", at=T, labels=()).keys
    client.close()
    assert client.instant("busy", at=T, labels=()).keys


def test_an_engine_whose_remote_storage_is_down_has_no_whole_answer(tmp_path: Path) -> None:
    remote = "remote_read: [{url: 'http://127.0.0.1:1/read', read_recent: true}]"
    with PrometheusServer(tmp_path, openmetrics=DATA, more=remote) as server:
        client = Client(Prometheus(url=server.url))
        with pytest.raises(SourceError, match="may not be the whole one: remote_read"):
            client.instant("busy", at=T + 20, labels=("gpu",))
        client.close()


def test_victoria_metrics_is_read_too(tmp_path: Path) -> None:
    """It leaves NaN out, and answers raw samples under another content type."""
    with VictoriaMetricsServer(tmp_path, openmetrics=DATA) as server:
        client = Client(Prometheus(url=server.url))
        try:
            vector = client.instant("busy", at=T + 20, labels=("gpu", "node"))
            assert dict(zip(vector.keys, vector.values.tolist(), strict=True))["0", "n1"] == 0.5
            matrix = client.raw('busy{node="n1",gpu="0"}[1m]', at=T + 20, labels=("node",))
            assert (matrix.keys, matrix.times.tolist()) == ([("n1",)], [T, T + 15])
            with pytest.raises(SourceError, match="answered 422"):
                client.instant("busy[", at=T, labels=())
        finally:
            client.close()

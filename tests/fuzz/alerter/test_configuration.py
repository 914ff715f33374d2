"""What people tell the alerter: its file and the small languages within it, addresses, moments."""

from __future__ import annotations

import math
import os
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock
from zoneinfo import ZoneInfo, available_timezones

import yaml
from hypothesis import example
from hypothesis import strategies as st

from dutycycle_alerter import config_file
from dutycycle_alerter.cli.moments import parse_moment
from dutycycle_alerter.config_file import load
from dutycycle_alerter.credentials import secret, secret_lines
from dutycycle_alerter.errors import ConfigError, SourceError, StoreError
from dutycycle_alerter.notify.addresses import read_map
from dutycycle_alerter.printable import printable
from dutycycle_alerter.scale import parse_duration, write_duration
from dutycycle_alerter.settings import Settings, calendar
from dutycycle_alerter.settings.calendar import zone_of
from dutycycle_alerter.settings.notify.address import is_address
from dutycycle_alerter.store.url import mask_url, parse_url, show_url
from dutycycle_alerter.web.listen import ListenAddress
from tests.fuzz.exporter.test_configuration import YAML
from tests.fuzz.hostile import documents, texts, values
from tests.fuzz.running import fuzz

SMALL = b"""time_scale: 60
database: sqlite:///x.sqlite3
source: {interval: 5s, resolution: 1m}
prometheus: {url: 'http://prometheus:9090', matchers: ['cluster="a"'], headers: {X-Scope-OrgID: a}, timeout: 5s}
slurm: {url: 'unix:///run/slurmrestd.sock', gpu_order: nvml}
kubernetes: [{cluster: a, resources: [nvidia.com/gpu], namespaces: [ml], label_selector: 'app in (a, b)'}]
judging: {coverage: 0.5, rules: {idle: {window: 30m, below: 0.01}}}
notify:
  receivers:
    - {name: mail, email: {host: mail.example, security: none, sender: a@example.org, to: [b@example.org]}}
    - {name: chat, slack: {token: hunter2-do-not-show, channel: C12345}}
  routes: [{receiver: mail, rules: [idle], severity: warning}]
  timezone: Europe/Oslo
policies:
  maintenance: [{name: a, reason: upgrade, start: '2026-12-01', end: '2026-12-02T18:00:00+01:00', node: 'n[1-2]*'}]
  exceptions: [{name: b, reason: agreed, user: 'a*', exclude: true, rules: [idle], expires: '2026-12-31'}]
web: {listen_address: '127.0.0.1:9837', auth: {tokens: [{name: a, role: operator, token_file: /x}]}}
"""
KEYS = (
    *YAML,
    b"${HOME}",
    b"${NOT_THERE}",
    b"24:00",
    b"1320",
    b"25:61",
    b"0s",
    b"36501d",
    b"2026-02-30",
    b"yes",
    b"{}",
    b"[]",
)
SECRET = "hunter2-do-not-show"


def refused_well(error: ConfigError, origin: str) -> None:
    text = str(error)
    assert text.startswith(origin), "names the file"
    assert len(text) < 20_000


@fuzz(content=documents([SMALL], tokens=KEYS))
def test_a_configuration_is_settings_or_refused(content: bytes, directory: Path) -> None:
    path = directory / "alerter.yaml"
    path.write_bytes(content)
    os.environ.pop("NOT_THERE", None)
    try:
        settings = load(path)
    except ConfigError as error:
        refused_well(error, str(path))
        return
    assert settings.time_scale > 0
    settings.scaled()


STRANGE = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        10**400,
        1e308,
        math.nan,
        math.inf,
        -0.0,
        0.5,
        "",
        "0s",
        "-1s",
        "30m",
        "1e9d",
        "nan",
        "NaN",
    ),
    *(
        "\0",
        "\ud800",
        "\u202e",
        "a" * 5000,
        "${HOME}",
        "*",
        "[",
        "(?",
        "http://",
        "http://[::1",
        "//",
        "a@b",
        "24:00",
        "x=y",
    ),
    *(
        [],
        {},
        [[]],
        [None],
        [""],
        {"": ""},
        {"a": {"b": {"c": {}}}},
        [{}],
        list(range(300)),
        "mon",
        "idle",
        "2026-12-31",
    ),
)
TREES = [yaml.safe_load(SMALL)]


@fuzz(tree=values(TREES, strange=STRANGE))
def test_any_tree_of_values_is_settings_or_refused(tree: object) -> None:
    try:
        settings = config_file.parse(tree, origin="alerter.yaml")
    except ConfigError as error:
        refused_well(error, "alerter.yaml")
        return
    settings.scaled()
    assert config_file.parse(settings.model_dump(mode="json", exclude_unset=True, exclude_none=True) | _secrets(tree))


def _secrets(tree: object) -> dict[str, object]:
    """What is written out hides secrets; the section that has one stays as it was."""
    return {"notify": tree["notify"]} if isinstance(tree, dict) and "notify" in tree else {}


def test_the_trees_that_are_mutated_are_sound() -> None:
    for tree in TREES:
        assert isinstance(config_file.parse(tree), Settings)


DURATIONS = texts(["30s", "15m", "1h30m", "250ms", "1w2d", "0.5h"], tokens=["ms", "w", ".", "9" * 40 + "w"])


@fuzz(text=DURATIONS)
def test_a_duration_is_seconds_or_refused(text: str) -> None:
    try:
        found = parse_duration(text)
    except ValueError:
        return
    assert math.isfinite(found)
    assert found >= 0


@fuzz(seconds=st.floats(0.001, 3e9) | st.integers(1, 10**9).map(float))
def test_a_duration_is_read_as_it_was_written(seconds: float) -> None:
    assert parse_duration(write_duration(seconds)) == seconds


MOMENTS = (
    "2026-11-20",
    "2026-11-20T08:30:00Z",
    "7d",
    "1w",
    "2026-03-29T02:30:00",
    "20261120",
    "2026-W10-1",
    "9999-12-31",
)


@fuzz(
    text=texts(MOMENTS, tokens=["0001-01-01", "24:00", "+23:59", "-23:59", "T", "W"]),
    zone=st.sampled_from([UTC, ZoneInfo("Europe/Oslo"), None]),
    end=st.booleans(),
)
def test_a_moment_is_unix_seconds_or_refused(text: str, zone: ZoneInfo | None, end: bool) -> None:
    try:
        assert math.isfinite(parse_moment(text, now=1.8e9, zone=zone, end_of_day=end))
    except ValueError as error:
        assert "is no moment" in str(error)


ZONES = available_timezones()


@fuzz(text=texts(["Europe/Oslo", "UTC", "Etc/GMT+12"], tokens=["../", "/", "\0", "America", "posixrules", "zone.tab"]))
def test_a_zone_is_known_or_refused(text: str) -> None:
    try:
        # Which there are is looked up on the disk for each that there is not: as long as all else.
        with mock.patch.object(calendar, "available_timezones", return_value=ZONES):
            assert zone_of(text).utcoffset(datetime(2026, 7, 1)) is not None  # noqa: DTZ001 - of the zone that was found
    except ValueError as error:
        assert "is not a time zone" in str(error)
        assert str(error).isprintable()
        assert len(str(error)) < 1000


@fuzz(text=texts(["127.0.0.1:9837", ":9837", "[::1]:9837", "[fe80::1%eth0]:1", "n1.example:65535"]))
def test_where_to_listen_is_a_host_and_a_port_or_refused(text: str) -> None:
    try:
        found = ListenAddress.parse(text)
    except ConfigError as error:
        assert "[HOST]:PORT" in str(error)
        return
    assert 0 <= found.port <= 65535
    assert not set(found.host) & set("[]@/ ")


@fuzz(content=documents([b"ada ada@example.org\nbob\n# nobody\n\xef\xbb\xbfeve eve@example.org # her\n"]))
def test_a_map_of_addresses_is_read_or_refused(content: bytes, directory: Path) -> None:
    path = directory / "map"
    path.write_bytes(content)
    try:
        found = read_map(path)
    except ConfigError as error:
        assert str(error).startswith(str(path))
        assert len(str(error)) < 2000
        return
    assert all(user for user in found)
    assert all(address is None or is_address(address) for address in found.values())


@fuzz(text=texts(["ada@example.org", '"a b"@example.org', "a@[127.0.0.1]", "a@xn--bcher-kva.example"]))
def test_an_address_is_plain_ascii(text: str) -> None:
    if is_address(text):
        assert text.isascii()
        assert text.isprintable()
        assert len(text) <= 254
        assert not set(text) & set(' ,;<>"\r\n')


@fuzz(content=documents([b"hunter2\n", b"# tokens\na-secret-of-some-length\r\n\nanother\n"]))
def test_a_file_of_secrets_is_read_or_refused(content: bytes, directory: Path) -> None:
    path = directory / "secret"
    path.write_bytes(content)
    for read in (lambda: [secret("token", None, path)], lambda: secret_lines("token_file", path)):
        try:
            found = read()
        except SourceError as error:
            assert "token_file" in str(error)
            continue
        assert all(one is None or one == one.strip("\r\n") for one in found)


URLS = (
    *(
        "sqlite:////var/lib/x.sqlite3",
        "sqlite:///x.sqlite3?timeout=3",
        "postgresql://user:hunter2-do-not-show@host/name",
    ),
    *("postgresql://u@/n?host=/run&sslmode=require", "postgres://u@h:5432/n?password_file=/nowhere&host=a,b"),
)


@fuzz(text=texts(URLS, tokens=["?password=hunter2-do-not-show", "%00", "%ff", "@", ":", "?", "&", "[::1]", ":port"]))
@example(text="sqlite:///\udcff.sqlite3")
@example(text="postgres://u@h:5432/n?password_file=\x00/nowhere&host=a,b")
def test_a_database_is_a_url_or_refused(text: str) -> None:
    shown = mask_url(text)
    try:
        shown += show_url(parse_url(text))
    except StoreError as error:
        shown += str(error)
    if text.count(SECRET) == 1 and text in URLS:
        assert SECRET not in shown


@fuzz(text=st.text(max_size=200) | texts(["ada"]), limit=st.none() | st.integers(1, 50))
def test_what_is_shown_is_one_harmless_line(text: str, limit: int | None) -> None:
    shown = printable(text, limit)
    assert shown.isprintable()
    assert limit is None or len(shown) <= limit
    assert printable(shown) == shown

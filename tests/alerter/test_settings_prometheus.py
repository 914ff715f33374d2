"""The section on the PromQL engine: what is refused names the key, and a secret is never shown."""

import re
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from dutycycle_alerter.settings.prometheus import Prometheus
from dutycycle_alerter.settings.types import divided


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://prometheus:9090", "http://prometheus:9090"),
        ("https://mimir.example/prometheus/", "https://mimir.example/prometheus"),
        ("http://[::1]:9090/", "http://[::1]:9090"),
        ("http://vmselect:8481/select/0/prometheus", "http://vmselect:8481/select/0/prometheus"),
    ],
)
def test_a_url_ends_before_the_api(url: str, base: str) -> None:
    assert Prometheus(url=url).url == base


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"url": ""}, "url.*expected a URL like"),
        ({"url": "prometheus:9090"}, "expected a URL like"),
        ({"url": "ftp://prometheus"}, "expected a URL like"),
        ({"url": "http://"}, "expected a URL like"),
        ({"url": "http://:9090"}, "no valid host"),
        ({"url": "http://a:port"}, "no valid host and port"),
        ({"url": "http://a:99999"}, "no valid host and port"),
        ({"url": "http://[::1"}, "no valid host and port"),
        ({"url": "http://a b"}, "expected a URL like"),
        ({"url": "http://user:s3cret@a"}, "username and password_file"),
        ({"url": "http://a?x=1"}, "under params"),
        ({"url": "http://a#x"}, "under params"),
        ({"url": "http://a/api/v1"}, "ends before /api/v1"),
        ({"url": "http://a/prometheus/api/v1/query"}, "ends before /api/v1"),
        ({"bearer_token": "s3cret", "bearer_token_file": "/x"}, "bearer_token and bearer_token_file exclude"),
        ({"username": "u", "password": "s3cret", "password_file": "/x"}, "password and password_file exclude"),
        ({"bearer_token": "s3cret", "username": "u", "password": "s3cret"}, "bearer_token and username exclude"),
        ({"password": "s3cret"}, "no username"),
        ({"username": "u"}, "neither password nor password_file"),
        ({"username": "u:v", "password": "s3cret"}, "username.*colon"),
        ({"bearer_token": ""}, "bearer_token.*is empty"),
        ({"bearer_token": "s3cret\nX-Admin: yes"}, "bearer_token.*control character"),
        ({"headers": {"X-A": "s3cret\r\nB: c"}}, "headers.*control character"),
        ({"headers": {"X A": "s3cret"}}, "not the name of a header"),
        ({"headers": {"Host": "s3cret"}}, "set by the request itself"),
        ({"headers": {"content-Type": "s3cret"}}, "set by the request itself"),
        ({"headers": {"authorization": "s3cret"}, "bearer_token": "s3cret"}, "headers.Authorization and bearer_token"),
        ({"params": {"query": "up"}}, "query, time and timeout are set"),
        ({"params": {"": "up"}}, "has a name"),
        ({"ca_file": "/x"}, "ca_file means nothing for http"),
        ({"insecure_skip_verify": True}, "insecure_skip_verify means nothing for http"),
        ({"url": "https://a", "key_file": "/x"}, "no cert_file"),
        ({"matchers": ["cluster=a"]}, "matchers.0.*a matcher is written like"),
        ({"matchers": ['a="1",b="2"']}, "a matcher is written like"),
        ({"shards": ['__name__=~"a.*"']}, "not a label's name"),
        ({"timeout": 0}, "timeout"),
        ({"max_bytes": 10}, "max_bytes"),
        ({"metrics": "nvml"}, "metrics"),
        ({"tokn": "x"}, "tokn"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError) as error:
        Prometheus(**given)
    [item] = error.value.errors(include_url=False, include_input=False)
    assert re.search(why, f"{'.'.join(map(str, item['loc']))} {item['msg']}")
    assert "s3cret" not in item["msg"]


def test_matchers_are_kept_in_one_spelling() -> None:
    section = Prometheus(matchers=("cluster = 'a'",), shards=(r'node=~"gpu\\d.*"', r'node!~"gpu\\d.*"'))
    assert section.matchers == ('cluster="a"',)
    assert section.shards == (r'node=~"gpu\\d.*"', r'node!~"gpu\\d.*"')
    assert Prometheus(matchers=section.matchers, shards=section.shards) == section


def test_no_secret_is_shown() -> None:
    section = Prometheus(url="https://a", bearer_token=SecretStr("s3cret"), headers={"X-Key": SecretStr("s3cret")})
    assert "s3cret" not in repr(section) + str(section) + str(section.model_dump(mode="json"))


def test_the_time_scale_leaves_the_time_out_alone() -> None:
    scaled = divided(Prometheus(), 10)
    assert (scaled.timeout, scaled.scrape_interval) == (60, 1.5)

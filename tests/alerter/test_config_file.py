"""Reading the configuration file: errors name the file, the key and the remedy, and no file can do harm."""

import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dutycycle_alerter.config_file import MAX_BYTES, load, parse
from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.settings import Settings


def file_of(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "alerter.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ConfigError) as refused:
        load(path)
    message = str(refused.value)
    assert str(path) in message
    assert refused.value.usage
    return message


@pytest.mark.parametrize("content", ["", "\n\n", "# nothing\n", "---\n", "{}", "\ufeff# with a mark\n"])
def test_an_empty_file_means_every_default(tmp_path: Path, content: str) -> None:
    assert load(file_of(tmp_path, content)) == Settings()


def test_a_file_changes_what_it_names(tmp_path: Path) -> None:
    settings = load(
        file_of(
            tmp_path,
            """
            time_scale: 30
            source: {targets: [http://gpu01:9836/metrics], interval: 5s}
            judging: {rules: {idle: {window: 2h}}}
            kinds:
            - {kind: interactive, workload: "*/notebook-*"}
            """,
        )
    )
    assert settings.time_scale == 30
    assert settings.source.interval == 5
    assert settings.judging.rules.idle.window == 7200
    assert settings.kinds[0].workload == "*/notebook-*"
    assert settings.schedule == Settings().schedule


@pytest.mark.parametrize(
    ("content", "key", "hint"),
    [
        ("sorce: {}", "sorce", "did you mean 'source'?"),
        ("source: {intervall: 5s}", "source.intervall", "did you mean 'interval'?"),
        ("judging: {rules: {idle: {windw: 30m}}}", "judging.rules.idle.windw", "did you mean 'window'?"),
        ("judging: {rules: {idel: {}}}", "judging.rules.idel", "did you mean 'idle'?"),
        ("kinds: [{kind: batch}, {kind: serving, usr: bob}]", "kinds.1.usr", "did you mean 'user'?"),
        ("uneven_by_design: [{partitoin: big}]", "uneven_by_design.0.partitoin", "did you mean 'partition'?"),
        ("costs: {zzz: 1}", "costs.zzz", "valid keys here: co2_grams_per_kwh, currency, gpu_hour"),
        ("kinds: [{kind: batch, zzz: 1}]", "kinds.0.zzz", "valid keys here: account, cluster, job_name, kind,"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_valid_one(tmp_path: Path, content: str, key: str, hint: str) -> None:
    assert f"{key}: unknown key; {hint}" in refusal(file_of(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "key"),
    [
        ("source: {interval: soon}", "source.interval"),
        ("source: {interval: yes}", "source.interval"),
        ("source: {targets: http://x}", "source.targets"),
        ("source: {targets: ['dns+ftp://x/metrics']}", "source.targets.0"),
        ("source: {targets: ['dns+http://u:p@x/metrics']}", "source.targets.0: dns+ is followed by a URL"),
        (
            "source: {targets: ['dns+http://x:99999/metrics']}",
            "source.targets.0: dns+ is followed by a URL",
        ),
        (
            "source: {targets: ['dns+http://[::1]:1/metrics']}",
            "source.targets.0: dns+ is followed by a URL",
        ),
        ("judging: {rules: {idle: {window: 10m}}}", "judging.rules.idle.window"),
        ("judging: {rules: {idle: {window: null}}}", "judging.rules.idle.window"),
        ("judging: {rules: {idle: {window: []}}}", "judging.rules.idle.window"),
        ("judging: {rules: {idle: {window: {a: 1}}}}", "judging.rules.idle.window"),
        ("judging: {coverage: 80}", "judging.coverage"),
        ("kinds: [{kind: game}]", "kinds.0.kind"),
        ("source: {resolution: 1s}", "source.resolution"),
        ("source: {resolution: 301s}", "source.resolution: must not be longer than 5m"),
        ("source: {retention: 23h}", "source.retention: must not be shorter than 1d"),
        ("judging: {rules: {idle: {below: 0.02}}}", "judging.rules.idle: below must be lower than clear_above"),
        ("1: 2", "1"),
        ("source: {2: 3}", "source.2"),
        ("null: 2", "None"),
    ],
)
def test_a_wrong_value_is_named_by_its_key(tmp_path: Path, content: str, key: str) -> None:
    assert key in refusal(file_of(tmp_path, content))


def test_every_error_of_a_file_is_told_at_once_but_not_thousands(tmp_path: Path) -> None:
    message = refusal(file_of(tmp_path, "source: {interval: soon}\nsorce: {}\ncosts: {gpu_hour: -1}\n"))
    assert len(message.splitlines()) == 3
    many = refusal(file_of(tmp_path, "\n".join(f"key{i}: 1" for i in range(5000))))
    assert "and 4980 errors more" in many
    assert len(many.splitlines()) == 21


def test_a_key_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    """The first of the two would be a configuration that nothing reads."""
    message = refusal(file_of(tmp_path, "source: {interval: 5s}\nweb: {}\nsource: {interval: 10s}\n"))
    assert "alerter.yaml:3:1: not YAML: the key 'source' is given twice" in message


def test_a_nul_in_a_value_is_refused_by_its_place(tmp_path: Path) -> None:
    """Each place that opens a file by such a name would end in an error of its own."""
    content = 'notify: {receivers: [{name: a, slack: {}}, {name: b, email: {password_file: "/s3cret\\0"}}]}'
    message = refusal(file_of(tmp_path, content))
    assert message.endswith("notify.receivers.1.email.password_file: there is a NUL character in it: remove it")


@pytest.mark.parametrize("content", ["[]", "- a", "text", "7", "true"])
def test_the_top_level_is_a_mapping(tmp_path: Path, content: str) -> None:
    assert "expected a mapping of keys at the top level" in refusal(file_of(tmp_path, content))


# The environment


def test_a_variable_of_the_environment_is_filled_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUTYCYCLE_TEST_PASSWORD", "p${HOME}#: 'x'")
    monkeypatch.setenv("DUTYCYCLE_TEST_HOST", "gpu01")
    monkeypatch.setenv("DUTYCYCLE_TEST_RATIO", "0.5")
    settings = load(
        file_of(
            tmp_path,
            """
            database: "postgresql://dutycycle:${DUTYCYCLE_TEST_PASSWORD}@db/dutycycle"
            source: {targets: ["http://${DUTYCYCLE_TEST_HOST}:9836/metrics"]}
            judging: {coverage: "${DUTYCYCLE_TEST_RATIO}"}
            """,
        )
    )
    # What a variable holds is text: it is not expanded again, and it is no YAML.
    assert settings.database == "postgresql://dutycycle:p${HOME}#: 'x'@db/dutycycle"
    assert settings.source.targets == ("http://gpu01:9836/metrics",)
    assert settings.judging.coverage == 0.5


def test_a_missing_variable_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DUTYCYCLE_TEST_NONE", raising=False)
    message = refusal(file_of(tmp_path, "kinds: [{kind: batch, user: 'x${DUTYCYCLE_TEST_NONE}'}]"))
    assert "${DUTYCYCLE_TEST_NONE} is used, but the environment has no DUTYCYCLE_TEST_NONE" in message


def test_a_dollar_alone_is_a_dollar() -> None:
    assert parse({"costs": {"currency": "$US"}}).costs.currency == "$US"


# Hostile files


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "content",
    [
        LAUGHS,
        "a: &a [*a]",
        "a: &a {b: *a}",
        "a: &a {x: 1}\nsource: {<<: [*a, *a]}",
        "\tsource: {}",
        "source:\n\tinterval: 5s",
        "source: {",
        "source: 'open",
        "a: b: c",
        "%YAML 9.9\n---\na: 1",
        "--- 1\n--- 2",
        "\x00",
        b"\xff\xfe\x00\x01",
        b"source: \xc3\x28",
        bytes(range(256)),
        "a: !!python/object/apply:os.system [exit]",
        "a: !!python/name:os.system",
        "a: !secret x",
        "a: 2020-13-45",
        "a: !!bool x",
        "a: !!timestamp x",
        "a: !!int ''",
        "a: !!float abc",
        "a: !!binary é",
        "a: " + "9" * 5000,
        "[" * 5000,
        "{a: " * 5000,
        "? {a: 1}\n: 2",
        "? [a]\n: 2",
    ],
    ids=lambda content: repr(content[:24]),
)
def test_hostile_yaml_is_a_configuration_error(tmp_path: Path, content: str | bytes) -> None:
    message = refusal(file_of(tmp_path, content))
    assert len(message) < 1000


@pytest.mark.parametrize("content", ["a: " + "[" * 100 + "]" * 100, "{a: " * 100, "- " * 2000])
def test_what_is_nested_too_deep_is_told_as_that(tmp_path: Path, content: str) -> None:
    assert "nested too deep" in refusal(file_of(tmp_path, content))


def test_brackets_that_nest_are_refused_before_the_time_that_they_would_take(tmp_path: Path) -> None:
    path = file_of(tmp_path, "[" * 3000)
    began = time.process_time()
    assert "nested too deep" in refusal(path)
    assert time.process_time() - began < 0.2


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    assert "larger than 256 KiB" in refusal(file_of(tmp_path, b"#" * (MAX_BYTES + 1)))


@pytest.mark.parametrize("path", ["", "missing.yaml"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, path: str) -> None:
    assert "cannot be read" in refusal(tmp_path / path)


SECRET = "hunter2-" * 5
FILLER = "\n".join(f"    line{i}: {SECRET}" for i in range(400))


@pytest.mark.parametrize(
    "content",
    [
        f"database: {SECRET}\n\tsource: {{}}\n",
        f"database: [{SECRET}\n",
        f"source:\n  interval: |\n{FILLER}\n",
        f"database: [{SECRET}]",
        f"? |\n{FILLER}\n: 1\n",
        f"judging: {{coverage: {SECRET}}}",
        f"kinds: [{{kind: {SECRET}}}]",
    ],
)
def test_no_error_shows_more_of_a_file_than_a_few_characters(tmp_path: Path, content: str) -> None:
    message = refusal(file_of(tmp_path, content))
    assert len(message) < 400
    assert message.count("hunter2") <= 12


@given(st.binary(max_size=300))
def test_bytes_are_a_configuration_or_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("hostile") / "alerter.yaml"
    path.write_bytes(content)
    with suppress(ConfigError):
        load(path)


NAMES = st.sampled_from(["source", "judging", "rules", "idle", "window", "kinds", "kind", "interval", "costs", "zzz"])
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(TREES)
def test_any_tree_is_settings_or_a_configuration_error(tree: object) -> None:
    with suppress(ConfigError):
        parse(tree)


def test_what_the_command_prints_is_a_configuration(tmp_path: Path) -> None:
    printed = yaml.safe_dump(Settings(time_scale=30).model_dump(mode="json"), sort_keys=False)
    assert load(file_of(tmp_path, printed)) == Settings(time_scale=30)

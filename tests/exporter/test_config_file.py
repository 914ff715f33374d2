"""The file of --config.file: every option by its flag's name, where it stands among flag and variable, its mistakes."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given
from hypothesis import strategies as st

from dutycycle_exporter.cli import Reading, cli, read_settings
from dutycycle_exporter.collected import COLLECTED, DEFAULT
from dutycycle_exporter.config_file import keys
from dutycycle_exporter.errors import ConfigError
from dutycycle_exporter.options import flag
from dutycycle_exporter.settings import FIXED, SWITCHES, Settings, changed, reloaded

EVERYTHING = """
web.listen-address: 127.0.0.1:9000
web.config.file: /etc/web.yml
node-name: n7
cluster: alps
sample-interval: 2s
series-hold: 1m30s
collect.gpm: false
collect.processes: true
compat: [dcgm]
slurm.prolog-dir: /run/prolog
slurm.job-mapping-dir: /run/jobs
kubernetes: false
kubernetes.socket: /run/kubelet.sock
kubernetes.container-logs: /srv/log/containers
kubernetes.resources: [nvidia.com/gpu, nvidia.com/mig-*]
kubernetes.pod-labels: [app, team]
kubernetes.user-annotation: example.org/user
kubernetes.user-label: user
kubernetes.slurm-labels: [app=slurmd]
kubernetes.api: true
attribution.local: true
path.procfs: /host/proc
path.cgroup: /host/cgroup
path.sysfs: /host/sys
nvml.timeout: 5s
nvml.release-timeout: 2m
time-scale: 60
replay: recording.csv
replay.node: n1
replay.epoch: 1700000000
log-level: debug
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "exporter.yaml"
        path.write_text(text)
        return f"--config.file={path}"

    return write


def test_every_option_can_be_set(written):
    settings = read_settings([written(EVERYTHING)])
    assert dataclasses.asdict(settings) | {"collect": None} == {
        "listen": "127.0.0.1:9000",
        "web_config": Path("/etc/web.yml"),
        "node_name": "n7",
        "cluster": "alps",
        "sample_interval": 2.0,
        "series_hold": 90.0,
        "collect": None,
        "compat": ("dcgm",),
        "prolog_dir": Path("/run/prolog"),
        "job_mapping_dir": Path("/run/jobs"),
        "kubernetes": False,
        "kubernetes_socket": Path("/run/kubelet.sock"),
        "kubernetes_container_logs": Path("/srv/log/containers"),
        "kubernetes_resources": ("nvidia.com/gpu", "nvidia.com/mig-*"),
        "kubernetes_pod_labels": ("app", "team"),
        "kubernetes_user_annotation": "example.org/user",
        "kubernetes_user_label": "user",
        "kubernetes_slurm_labels": ("app=slurmd",),
        "kubernetes_api": True,
        "local": True,
        "procfs": Path("/host/proc"),
        "cgroup": Path("/host/cgroup"),
        "sysfs": Path("/host/sys"),
        "nvml_timeout": 5.0,
        "release_timeout": 120.0,
        "time_scale": 60.0,
        "replay": Path("recording.csv"),
        "replay_node": "n1",
        "replay_epoch": 1.7e9,
        "log_level": "debug",
    }
    assert "processes" in settings.collect
    assert "gpm" not in settings.collect
    assert changed(read_settings([]), settings) == {field.name for field in dataclasses.fields(Settings)}


def test_every_option_is_a_key():
    assert {field.name for field in dataclasses.fields(Settings)} - {"collect"} <= {
        option.name for option in keys(cli.params).values()
    }
    assert not {"config.file", "probe", "version", "help", "die-with-parent"} & keys(cli.params).keys()


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}\n", "---\n...\n"])
def test_a_file_that_says_nothing_changes_nothing(written, text):
    assert read_settings([written(text)]) == read_settings([])


@pytest.mark.parametrize("text", ["", "# nothing\n", "{}\n", "---\n...\n"])
@pytest.mark.parametrize("first", ["cluster: alps\n", ""])
def test_a_file_that_said_something_the_time_before_and_has_no_key_now_is_refused(written, text, first):
    """As a full disk leaves it, and as it is for a moment where it is written in place."""
    reading = Reading([written(first)])
    assert reading.again() == reading.again()
    written("cluster: other\n")
    assert reading.again().cluster == "other"
    for _ in range(2):
        written(text)
        with pytest.raises(ConfigError, match=r"exporter\.yaml: has no key any more, as if it had been cut short"):
            reading.again()
    written("clutser: x\n")
    with pytest.raises(ConfigError, match="did you mean"):
        reading.again()
    written("series-hold: 7s\n")
    assert (reading.again().series_hold, reading.again().cluster) == (7, ""), "what it said before is gone"


def test_a_file_that_said_nothing_may_go_back_to_it_after_a_mistake(written):
    reading = Reading([written("")])
    before = reading.again()
    written("clutser: x\n")
    with pytest.raises(ConfigError, match="did you mean"):
        reading.again()
    written("")
    assert reading.again() == before


def test_an_alias_of_a_single_value_is_that_value(written):
    settings = read_settings([written("cluster: &a alps\nnode-name: *a\n")])
    assert (settings.cluster, settings.node_name) == ("alps", "alps")


def test_aliases_of_aliases_are_refused_at_once(written):
    """Each list has nine of the one before: as a whole there would be more than any machine has room for."""
    lists = ["compat: &a0 [x]", *(f"k{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 16))]
    with pytest.raises(ConfigError, match="an alias cannot stand for a list or mapping"):
        read_settings([written("\n".join(lists))])


def test_the_command_line_comes_before_the_environment_before_the_file_before_the_default(written, monkeypatch):
    file = written("cluster: file\nseries-hold: 7s\nnode-name: file\ncollect.ecc: false\ncollect.xid: false\n")
    monkeypatch.setenv("DUTYCYCLE_EXPORTER_CLUSTER", "environment")
    monkeypatch.setenv("DUTYCYCLE_EXPORTER_NODE_NAME", "environment")
    monkeypatch.setenv("DUTYCYCLE_EXPORTER_COLLECT_ECC", "true")
    settings = read_settings([file, "--node-name=flag", "--collect.xid"])
    assert (settings.node_name, settings.cluster, settings.series_hold) == ("flag", "environment", 7)
    assert settings.sample_interval == 5
    assert {"ecc", "xid"} <= settings.collect


def test_the_file_itself_can_be_named_by_a_variable(written, monkeypatch):
    monkeypatch.setenv("DUTYCYCLE_EXPORTER_CONFIG_FILE", written("cluster: alps").partition("=")[2])
    assert read_settings([]).cluster == "alps"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sample-intervall: 5s", "sample-intervall: unknown key; did you mean sample-interval?"),
        ("web:\n  listen-address: :1", "web: unknown key"),
        ("xyzzy: 1", "xyzzy: unknown key; there are attribution.local, cluster"),
        ("config.file: a", "unknown key; did you mean web.config.file?"),
        ("probe: true", "probe: unknown key"),
        ("sample-interval: 5", "sample-interval: expected a text; put it in quotes"),
        ("sample-interval: fast", "sample-interval: 'fast' is not a duration: write it like 5s, 1m30s or 250ms"),
        ("time-scale: .nan", "time-scale: nan is not a finite number"),
        ("time-scale: 0", "time-scale: "),
        ("time-scale: '60'", "time-scale: expected a number"),
        ("time-scale: true", "time-scale: expected a number"),
        ("collect.ecc: maybe", "collect.ecc: expected true or false"),
        ("no-collect.ecc: true", "no-collect.ecc: unknown key; did you mean collect.ecc?"),
        ("compat: [dgcm]", "compat: 'dgcm' is not one of dcgm"),
        ("compat: {dcgm: true}", "compat: expected a list of texts"),
        ("kubernetes.pod-labels: [1]", "kubernetes.pod-labels: expected a list of texts"),
        ("log-level: loud", "log-level: 'loud' is not one of 'debug', 'info', 'warning', 'error'"),
        ("path.procfs: " + __file__, "path.procfs: Directory"),
        ("cluster:", "cluster: has no value; leave the key out for its default"),
        ("node-name: 007", "node-name: expected a text; put it in quotes"),
        ('cluster: "\\ud800"', "cluster: '\\ud800' is not valid UTF-8"),
        ("cluster: a\ncluster: b", "exporter.yaml:2: the key cluster is given twice"),
        ("- cluster", "expected keys and values at the top level"),
        ("cluster: [", "exporter.yaml:1:11: not YAML"),
        ("cluster: &a b\nnode-name: *c", "not YAML"),
        ("compat: &a []\nkubernetes.pod-labels: *a", "exporter.yaml:1: an alias cannot stand for a list or mapping"),
        ("cluster: &a [*a]", "exporter.yaml:1: an alias cannot stand for a list or mapping"),
        (
            "cluster: [\n" + ", ".join(["&a [x]", *["*a"] * 9]) + "]",
            "exporter.yaml:2: an alias cannot stand for a list",
        ),
        ("2020-13-45: 1", "2020-13-45: unknown key"),
        ("cluster: 2020-13-45", "not YAML"),
        ('"\\n\\x1b[31m": 1', "'\\n\\x1b[31m': unknown key"),
    ],
)
def test_a_mistake_names_the_file_the_key_and_the_remedy_on_one_line(written, text, said):
    argument = written(text)
    with pytest.raises(ConfigError) as caught:
        read_settings([argument])
    message = str(caught.value)
    assert said in message
    assert "exporter.yaml" in message
    assert message.isprintable()


def test_a_mistake_ends_the_command_with_one_line_and_status_1(written):
    command = [sys.executable, "-c", "from dutycycle_exporter.cli import main; main()", written("clutser: a")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stderr.startswith("dutycycle-exporter: --config.file=")
    assert done.stderr.endswith("clutser: unknown key; did you mean cluster?\n")
    assert done.stderr.count("\n") == 1


def test_a_file_that_is_not_there_is_named():
    done = CliRunner().invoke(cli, ["--config.file=/no/such/file"])
    assert isinstance(done.exception, ConfigError)
    assert "/no/such/file: cannot be read: No such file or directory" in str(done.exception)


def complaint(path):
    """What is said of a file; empty where nothing is wrong with it."""
    try:
        read_settings([f"--config.file={path}"])
    except ConfigError as error:
        return str(error)
    return ""


@given(st.binary(max_size=200))
def test_any_file_is_settings_or_an_error_for_a_person(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("config") / "exporter.yaml"
    path.write_bytes(content)
    assert complaint(path).isprintable()


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=5), lambda x: st.lists(x, max_size=3)))
@example("\0")
def test_any_value_of_any_key_is_settings_or_an_error_for_a_person(tmp_path_factory, value):
    import yaml

    path = tmp_path_factory.mktemp("config") / "exporter.yaml"
    for key in ("cluster", "sample-interval", "time-scale", "collect.ecc", "kubernetes.pod-labels", "path.procfs"):
        path.write_text(yaml.safe_dump({key: value}))
        assert key in complaint(path) or not complaint(path)


def test_a_reload_changes_all_but_what_needs_a_restart(written):
    before, after = read_settings([]), read_settings([written(EVERYTHING)])
    now = reloaded(before, after)
    assert changed(before, now) == changed(before, after) - FIXED
    assert changed(now, after) == FIXED
    assert {flag(field) for field in FIXED} == {
        *("--web.listen-address", "--web.config.file", "--node-name", "--path.procfs", "--path.cgroup"),
        *("--kubernetes", "--kubernetes.socket", "--kubernetes.container-logs", "--kubernetes.api"),
        *("--path.sysfs", "--time-scale", "--replay", "--replay.node", "--replay.epoch"),
    }


def test_the_example_is_what_holds_without_a_file():
    example = Path(__file__).parents[2] / "exporter" / "config.example.yaml"
    assert read_settings([f"--config.file={example}"]) == read_settings([])
    text = example.read_text()
    assert all(f"\n{key}:" in text or f"\n# {key}:" in text for key in keys(cli.params))


def test_every_switch_is_one_that_the_child_or_attribution_knows_with_the_same_default():
    assert set(SWITCHES) - set(COLLECTED) == {"host"}
    assert all(SWITCHES[name] is COLLECTED[name] for name in COLLECTED), "there is one list"
    assert {name for name, (default, _) in SWITCHES.items() if default} == DEFAULT | {"host"}
    assert set(DEFAULT) == set(COLLECTED) - {"processes", "accounting"}

"""The compose file and what it mounts: each is valid by the program that reads it, and they fit together."""

from __future__ import annotations

import csv
import gzip
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from dutycycle_alerter.config_file import load
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.settings.web import HEALTH_PORT
from dutycycle_exporter.cli import cli as exporter_command
from tests.dashboards.test_provisioning import MODELS
from tests.manifests.compose.composed import HERE, ROOT, SETUPS, Service, compose, project, services
from tests.prometheus.server import program
from tests.prometheus.test_recording_rules import promtool
from tools.alert_rules import ALERTERS, EXPORTERS

COMMON = {"alerter", "alertmanager", "grafana", "prometheus"}
EXPECTED = {"demo": COMMON | {"gpu01", "gpu02"}, "gpu": COMMON | {"exporter"}}
PORTS = {"alerter": 9837, "alertmanager": 9093, "grafana": 3000, "prometheus": 9090}
OF_THE_MACHINE = {"exporter": {"/sys/fs/cgroup", "/etc/passwd"}}
"""What is mounted from outside of the repository."""


EVERY_SERVICE = [
    pytest.param(setup, name, id=f"{setup}-{name}") for setup, names in EXPECTED.items() for name in sorted(names)
]


def listening(name: str) -> int:
    return PORTS.get(name, 9836)


def prometheus(setup: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((HERE / setup / "prometheus.yml").read_text())
    return found


def dutycycle(setup: str) -> Settings:
    return load(HERE / setup / "dutycycle.yaml")


@pytest.mark.parametrize("setup", SETUPS)
def test_a_set_up_has_these_services(setup: str) -> None:
    assert set(services(setup)) == EXPECTED[setup]
    assert set(project(setup)["volumes"]) == COMMON


def test_without_a_choice_it_says_how_to_choose() -> None:
    done = compose("config", "-q")
    assert done.returncode != 0
    assert "--env-file demo.env or --env-file gpu.env" in done.stderr


@pytest.mark.parametrize(("setup", "name"), EVERY_SERVICE)
def test_a_service_is_confined(setup: str, name: str) -> None:
    service = services(setup)[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "network_mode", "ipc", "userns_mode", "devices"} & set(service)
    assert {key: service[key] for key in ("pid", "cgroup") if key in service} == (
        {"pid": "host", "cgroup": "host"} if name == "exporter" else {}
    )
    assert service["restart"] == "unless-stopped"


@pytest.mark.parametrize(("setup", "name"), EVERY_SERVICE)
def test_a_service_cannot_take_the_whole_machine(setup: str, name: str) -> None:
    """Memory, processes, and the disk by its log."""
    service = services(setup)[name]
    assert 128 << 20 <= int(service["mem_limit"]) <= 2 << 30
    assert 0 < service["pids_limit"] <= 500
    assert service["logging"] == {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}}


def test_a_variable_of_the_shell_does_not_choose_the_set_up() -> None:
    """The shell wins over --env-file: what we take from it has a name of ours, or of whom it is for."""
    done = compose("--env-file", "gpu.env", "config", "--variables", environment={"SETUP": "other"})
    assert done.returncode == 0, done.stderr
    names = {line.split()[0] for line in done.stdout.splitlines()[1:]}
    ours = ("DUTYCYCLE_", "PROMETHEUS_", "ALERTMANAGER_", "GRAFANA_", "SCRAPE_INTERVAL")
    assert {"DUTYCYCLE_SETUP", "GRAFANA_PORT"} <= names
    assert {name for name in names if not name.startswith(ours)} == set()


@pytest.mark.parametrize("setup", SETUPS)
def test_grafana_asks_nothing_of_others(setup: str) -> None:
    environment = services(setup)["grafana"]["environment"]
    asking = {
        name: value
        for name, value in environment.items()
        if name.startswith(("GF_ANALYTICS_", "GF_NEWS_", "GF_PLUGINS_"))
    }
    assert {name.removeprefix("GF_"): value for name, value in asking.items()} == {
        "ANALYTICS_CHECK_FOR_UPDATES": "false",
        "ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
        "ANALYTICS_REPORTING_ENABLED": "false",
        "NEWS_NEWS_FEED_ENABLED": "false",
        "PLUGINS_PREINSTALL_DISABLED": "true",
    }


@pytest.mark.parametrize(("setup", "name"), EVERY_SERVICE)
def test_ports_are_open_to_this_machine_only(setup: str, name: str) -> None:
    ports = services(setup)[name].get("ports", [])
    assert [port["host_ip"] for port in ports] == ["127.0.0.1"] * len(ports)
    # Two nodes of a replay cannot have the same port.
    assert [port["target"] for port in ports] == ([] if setup == "demo" and name not in COMMON else [listening(name)])


@pytest.mark.parametrize(("setup", "name"), EVERY_SERVICE)
def test_what_is_mounted_is_there_and_for_reading(setup: str, name: str) -> None:
    outside = set()
    for mount in services(setup)[name]["volumes"]:
        if mount["type"] == "volume":
            assert mount["source"] == name
            continue
        assert mount["type"] == "bind"
        assert mount["read_only"] is True
        if Path(mount["source"]).is_relative_to(ROOT):
            assert Path(mount["source"]).exists(), mount
        else:
            outside.add(mount["source"])
    assert outside == OF_THE_MACHINE.get(name, set())


@pytest.mark.parametrize(("setup", "name"), EVERY_SERVICE)
def test_an_image_is_built_here_or_is_one_version(setup: str, name: str) -> None:
    service = services(setup)[name]
    if "build" in service:
        built = service["build"]
        assert (Path(built["context"]) / built["dockerfile"]).is_file()
        assert Path(built["context"]) == ROOT
        kind = "alerter" if name == "alerter" else "exporter"
        assert (built["dockerfile"], service["image"]) == (f"{kind}/Dockerfile", f"dutycycle-{kind}:local")
    else:
        image, _, tag = service["image"].partition(":")
        assert image
        assert tag[:2].lstrip("v").isdigit(), service["image"]


@pytest.mark.parametrize(
    ("variable", "name"),
    [("PROMETHEUS_IMAGE", "prometheus"), ("ALERTMANAGER_IMAGE", "alertmanager"), ("GRAFANA_IMAGE", "grafana")],
)
def test_another_version_is_a_variable(variable: str, name: str) -> None:
    given = {variable: "registry.example.org/other:1"}
    done = compose("--env-file", "demo.env", "config", "--images", environment=given)
    assert done.returncode == 0, done.stderr
    images = done.stdout.split()
    assert given[variable] in images
    assert services("demo")[name]["image"] not in images


@pytest.mark.parametrize(("setup", "name"), EVERY_SERVICE)
def test_its_health_is_asked_of_itself(setup: str, name: str) -> None:
    check = services(setup)[name]["healthcheck"]["test"]
    assert check[0] == "CMD"
    port = HEALTH_PORT if name == "alerter" else listening(name)
    assert f"http://127.0.0.1:{port}/" in check[-1]


@pytest.mark.parametrize(("setup", "name"), [("demo", "gpu01"), ("demo", "gpu02"), ("gpu", "exporter")])
def test_the_exporters_variables_are_such_that_it_has(setup: str, name: str) -> None:
    known = {
        variable
        for option in exporter_command.params
        for variable in ([option.envvar] if isinstance(option.envvar, str) else option.envvar or [])
    }
    assert set(services(setup)[name]["environment"]) <= known


def test_all_gpus_are_asked_of_the_toolkit() -> None:
    service = services("gpu")["exporter"]
    assert service["deploy"]["resources"]["reservations"]["devices"] == [
        {"driver": "nvidia", "count": -1, "capabilities": ["gpu", "utility"]}
    ]


@pytest.mark.parametrize("setup", SETUPS)
def test_promtool_takes_the_configuration_with_its_rules(setup: str, tmp_path: Path) -> None:
    there = tmp_path / "prometheus"
    there.mkdir()
    for mount in services(setup)["prometheus"]["volumes"]:
        if mount["type"] == "bind":
            (there / Path(mount["target"]).relative_to("/etc/prometheus")).symlink_to(mount["source"])
    config = tmp_path / "prometheus.yml"
    config.write_text((there / "prometheus.yml").read_text().replace("/etc/prometheus/", f"{there}/"))
    said = promtool("check", "config", config)
    for name in ("dutycycle-alerts", "dutycycle-recording"):
        assert f"{name}.rules.yaml" in said
    assert "2 rule files found" in said


@pytest.mark.parametrize("setup", SETUPS)
def test_prometheus_scrapes_all_that_is_ours_under_names_that_the_alerts_know(setup: str) -> None:
    config = prometheus(setup)
    targets = {
        job["job_name"]: [target for one in job["static_configs"] for target in one["targets"]]
        for job in config["scrape_configs"]
    }
    exporters = sorted(EXPECTED[setup] - COMMON)
    assert targets == {
        EXPORTERS.replace(".*", ""): [f"{name}:9836" for name in exporters],
        ALERTERS.replace(".*", ""): [f"alerter:{HEALTH_PORT}"],
    }
    assert all(job["honor_labels"] for job in config["scrape_configs"])
    (to,) = config["alerting"]["alertmanagers"]
    assert to["static_configs"] == [{"targets": ["alertmanager:9093"]}]


@pytest.mark.parametrize("setup", SETUPS)
def test_the_alerter_asks_and_tells_these_services(setup: str) -> None:
    settings = dutycycle(setup)
    assert settings.prometheus is not None
    (receiver,) = settings.notify.receivers
    assert receiver.alertmanager is not None
    for url, name in ((settings.prometheus.url, "prometheus"), (receiver.alertmanager.url, "alertmanager")):
        assert (urlsplit(url).hostname, urlsplit(url).port) == (name, PORTS[name])
    assert (settings.web.listen_address, settings.web.health_listen_address) == (":9837", "")
    assert "alerter" in settings.web.allowed_hosts
    # Its state is on the volume.
    (volume,) = [mount for mount in services(setup)["alerter"]["volumes"] if mount["type"] == "volume"]
    assert settings.database.removeprefix("sqlite:///").startswith(volume["target"])


def test_a_replay_is_as_fast_for_all() -> None:
    settings = dutycycle("demo")
    assert settings.prometheus is not None
    scales = {services("demo")[name]["environment"]["DUTYCYCLE_EXPORTER_TIME_SCALE"] for name in ("gpu01", "gpu02")}
    assert scales == {f"{settings.time_scale:g}"}
    assert prometheus("demo")["global"]["scrape_interval"] == "1s"
    assert settings.prometheus.scrape_interval == settings.time_scale


def test_a_replay_is_played_whole_and_then_again() -> None:
    service: Service = services("demo")["gpu01"]
    (recording,) = [mount["source"] for mount in service["volumes"]]
    with gzip.open(recording, "rt") as lines:
        times = [float(row["t"]) for row in csv.DictReader(lines)]
    length = (max(times) - min(times)) / float(service["environment"]["DUTYCYCLE_EXPORTER_TIME_SCALE"])
    program_name, seconds, command = service["entrypoint"]
    assert (program_name, command) == ("timeout", "dutycycle-exporter")
    assert length < float(seconds) < length + 60


def test_what_always_fires_goes_nowhere_and_all_else_is_shown() -> None:
    def receiver(*labels: str) -> str:
        path = HERE / "alertmanager.yml"
        done = subprocess.run(
            [program("amtool"), "config", "routes", "test", f"--config.file={path}", *labels],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert receiver("alertname=DutycycleWatchdog", "severity=none", "service=dutycycle") == "nobody"
    assert receiver("alertname=DutycycleGpuLost", "severity=critical", "service=dutycycle") == "page"
    assert receiver("alertname=DutycycleIdle", "severity=warning", "incident=7") == "page"


def test_grafana_finds_the_data_source_and_the_dashboards() -> None:
    source, made = (
        yaml.safe_load(path.read_text())["datasources"][0]
        for path in (
            HERE / "grafana" / "datasource.yaml",
            ROOT / "manifests" / "grafana" / "provisioning" / "datasources.yaml",
        )
    )
    assert source == {
        **made,
        "url": "http://prometheus:9090",
        "isDefault": True,
        "jsonData": {**made["jsonData"], "timeInterval": "$SCRAPE_INTERVAL"},
    }
    for setup in SETUPS:
        service = services(setup)["grafana"]
        mounts = {mount["target"]: Path(mount["source"]) for mount in service["volumes"] if mount["type"] == "bind"}
        (provider,) = yaml.safe_load(mounts["/etc/grafana/provisioning/dashboards/dutycycle.yaml"].read_text())[
            "providers"
        ]
        there = provider["options"]["path"]
        assert {path.stem for path in mounts[there].glob("*.json")} == set(MODELS)
        home = Path(service["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
        assert (mounts[there] / home.relative_to(there)).is_file()
        assert "/etc/grafana/provisioning/datasources/dutycycle.yaml" in mounts
        assert service["environment"]["SCRAPE_INTERVAL"] == prometheus(setup)["global"]["scrape_interval"]

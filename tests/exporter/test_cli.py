"""The command: its flags, their variables, what it says of mistakes, and with which status it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pynvml
import pytest
from click.testing import CliRunner

from dutycycle_exporter.cli import cli
from tests.exporter.daemon import Daemon, eventually
from tests.fakes.nvml import A100, RTX_3080_TI
from tests.fakes.pci import PciTree
from tests.ports import free_port

FLAGS = {
    "--config.file": None,
    "--web.listen-address": ":9836",
    "--web.config.file": None,
    "--node-name": socket.gethostname(),
    "--cluster": "",
    "--sample-interval": 5.0,
    "--series-hold": 30.0,
    **{
        f"--collect.{name}": name not in {"processes", "accounting"}
        for name in (
            *("memory", "power", "temperature", "clocks", "throttle", "ecc", "pcie", "nvlink", "gpm", "xid", "host"),
            *("processes", "accounting"),
        )
    },
    "--compat": (),
    "--slurm.prolog-dir": "/run/dutycycle/slurm",
    "--slurm.job-mapping-dir": None,
    "--kubernetes": True,
    "--kubernetes.socket": "/var/lib/kubelet/pod-resources/kubelet.sock",
    "--kubernetes.container-logs": "/var/log/containers",
    "--kubernetes.resources": ("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*"),
    "--kubernetes.pod-labels": (),
    "--kubernetes.user-annotation": "dutycycle.io/user",
    "--kubernetes.user-label": "",
    "--kubernetes.slurm-labels": (
        *("app.kubernetes.io/name=slurmd", "app.kubernetes.io/name=[sS]lurm[cC]luster", "slurm.nebius.ai/worker=true"),
    ),
    "--kubernetes.api": False,
    "--path.procfs": "/proc",
    "--path.cgroup": "/sys/fs/cgroup",
    "--path.sysfs": "/sys",
    "--attribution.local": False,
    "--nvml.timeout": 20.0,
    "--nvml.release-timeout": 600.0,
    "--time-scale": 1.0,
    "--replay": None,
    "--replay.node": "",
    "--replay.epoch": None,
    "--log-level": "info",
}
"""Every flag that configures, with its default."""

OPTIONS = {option.opts[0]: option for option in cli.params if isinstance(option, click.Option)}


def command(*flags, **environment):
    return subprocess.run(
        [sys.executable, "-c", "from dutycycle_exporter.cli import main; main()", *flags],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def context():
    return click.Context(cli, info_name="dutycycle-exporter", **cli.context_settings)


def variable(flag):
    return "DUTYCYCLE_EXPORTER_" + re.sub(r"\W", "_", flag.removeprefix("--")).upper()


def test_flags_are_those_that_are_promised():
    assert OPTIONS.keys() == FLAGS.keys() | {"--probe", "--release", "--die-with-parent", "--version"}


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_has_its_default_and_an_environment_variable_of_its_name(flag, monkeypatch):
    option = OPTIONS[flag]
    default = cli.make_context("dutycycle-exporter", []).params.get(option.name)
    assert default == FLAGS[flag] or str(default) == FLAGS[flag]
    monkeypatch.setenv(variable(flag), "sentinel")
    assert option.resolve_envvar_value(context()) == "sentinel"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5s", 5), ("250ms", 0.25), ("1m30s", 90), ("1h", 3600), ("1d", 86400), ("1.5s", 1.5), ("1h2m3s4ms", 3723.004)],
)
def test_durations_are_written_as_in_prometheus(text, seconds):
    assert OPTIONS["--sample-interval"].type_cast_value(context(), text) == seconds


@pytest.mark.parametrize("flag", ["--sample-interval", "--series-hold", "--nvml.timeout", "--nvml.release-timeout"])
@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "-5s",
        "0s",
        "5 s",
        "5x",
        "s",
        "1e3s",
        "5s!",
        "nan",
        "five seconds",
        "5S",
        "٥s",
        "9" * 400 + "d",
        "9" * 10**6,
    ],
)
def test_what_is_no_duration_is_refused_with_an_example(flag, text):
    done = CliRunner().invoke(cli, [f"{flag}={text}"])
    assert done.exit_code == 2
    assert flag in done.output
    assert "5s, 1m30s or 250ms" in done.output


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        *(("--time-scale", text) for text in ("0", "-1", "nan", "inf", "1e9", "fast", "")),
        *(("--replay.epoch", text) for text in ("nan", "inf", "now", "")),
        ("--node-name", os.fsdecode(b"n\xff1")),
        ("--cluster", os.fsdecode(b"n\xff1")),
        ("--log-level", "loud"),
        ("--compat", "dgcm"),
        ("--path.procfs", __file__),
        ("--no-such-flag", "1"),
    ],
)
def test_a_bad_value_is_wrong_usage_that_names_the_flag(flag, text):
    done = CliRunner().invoke(cli, [f"{flag}={text}"])
    assert done.exit_code == 2
    assert flag in done.output


@pytest.mark.parametrize("name", ["NODE_NAME", "CLUSTER"])
def test_a_label_that_is_not_utf8_is_refused_at_the_start_and_not_at_each_scrape(name):
    done = command(**{f"DUTYCYCLE_EXPORTER_{name}": os.fsdecode(b"n\xff1")})
    assert done.returncode == 2
    assert f"Invalid value for '--{name.lower().replace('_', '-')}'" in done.stderr
    assert "is not valid UTF-8" in done.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--web.listen-address=nowhere"], "--web.listen-address=nowhere: not [HOST]:PORT; write it like"),
        (["--web.listen-address=127.0.0.1:99999"], "--web.listen-address=127.0.0.1:99999"),
        (["--web.listen-address=192.0.2.1:9836"], "cannot listen there"),
        (["--replay=/no/such/file.csv"], "--replay=/no/such/file.csv: there is no such file"),
        (["--replay=a\nb\x1b[31m"], "--replay=a\\nb\\x1b[31m: there is no such file"),
        (["--web.config.file=/no/such/web.yml"], "/no/such/web.yml: cannot be read: No such file or directory"),
    ],
    ids=lambda value: "".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_here_is_one_line_and_status_1(flags, said):
    done = command(*flags)
    assert done.returncode == 1
    assert done.stderr.startswith("dutycycle-exporter: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_port_that_is_taken_is_one_line_that_names_it():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = command(f"--web.listen-address={address}")
    assert done.returncode == 1
    assert done.stderr.startswith(f"dutycycle-exporter: --web.listen-address={address}: cannot listen there")
    assert done.stderr.count("\n") == 1


def test_a_variable_is_used_and_a_flag_comes_first():
    done = command(DUTYCYCLE_EXPORTER_WEB_LISTEN_ADDRESS="nowhere")
    assert "--web.listen-address=nowhere" in done.stderr
    done = command("--web.listen-address=elsewhere", DUTYCYCLE_EXPORTER_WEB_LISTEN_ADDRESS="nowhere")
    assert "--web.listen-address=elsewhere" in done.stderr


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_flag_and_has_examples(flag):
    done = CliRunner().invoke(cli, [flag], prog_name="dutycycle-exporter")
    assert done.exit_code == 0
    assert all(name in done.output for name in (*FLAGS, "--no-attribution.local", "--probe", "--release", "--version"))
    assert "--die-with-parent" not in done.output
    assert "dutycycle-exporter --web.listen-address=127.0.0.1:9836" in done.output
    assert "DUTYCYCLE_EXPORTER_SAMPLE_INTERVAL" in done.output


def test_version_is_the_packages():
    done = CliRunner().invoke(cli, ["--version"])
    assert done.exit_code == 0
    assert re.match(r"dutycycle-exporter, version \d", done.output)


def test_the_probe_names_the_gpus(nvml_driver):
    driver = nvml_driver()
    driver.add_gpu(A100)
    driver.add_gpu(RTX_3080_TI)
    done = command("--probe", **driver.environment)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, [A100.name, RTX_3080_TI.name], "")


def test_the_probe_names_the_gpu_that_nvml_does_not_show(nvml_driver, tmp_path):
    driver = nvml_driver()
    shown = driver.add_gpu(A100)
    driver.set_mig(0, ["3g.40gb", "1g.10gb"])
    bus = PciTree(tmp_path / "sys")
    bus.add(shown.bus_id)
    bus.add("0000:f1:00.0")
    done = command("--probe", f"--path.sysfs={bus.root}", **driver.environment)
    assert (done.returncode, done.stdout) == (4, f"{A100.name}\n")
    assert "NVML shows 1 of 2 GPUs; missing: 0000:f1:00.0." in done.stderr


@pytest.mark.parametrize(
    ("function", "code", "said"),
    [
        ("nvmlInit", pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"),
        ("nvmlInit", pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "the driver was upgraded"),
        ("nvmlInit", pynvml.NVML_ERROR_NO_PERMISSION, "Insufficient Permissions"),
        ("nvmlDeviceGetHandleByIndex", pynvml.NVML_ERROR_GPU_IS_LOST, "shows no GPU"),
    ],
)
def test_the_probe_says_why_nvml_cannot_be_used(nvml_driver, function, code, said):
    driver = nvml_driver()
    driver.add_gpu()
    driver.fail(function, code)
    done = command("--probe", **driver.environment)
    # No driver is not a fault: `dutycycle up` then plays a recording, and over a fault it must not.
    status = 3 if code == pynvml.NVML_ERROR_DRIVER_NOT_LOADED else 1
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_probe_of_a_machine_without_gpus_says_so(nvml_driver):
    done = command("--probe", **nvml_driver().environment)
    assert (done.returncode, done.stderr) == (1, "dutycycle-exporter: NVML works, and shows no GPU\n")


def test_probe_of_a_library_that_cannot_be_loaded_gives_the_loaders_reason(no_nvml, tmp_path):
    """Not exit code 3, upon which `dutycycle up` plays its demonstration."""
    library = tmp_path / "libnvidia-ml.so.1"
    library.write_bytes(b"no library" * 100)
    done = command("--probe", LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 1
    assert f"{library}: invalid ELF header" in done.stderr
    assert "not found" not in done.stderr


def test_the_probe_of_a_machine_without_a_driver_says_what_to_install(no_nvml):
    done = command("--probe")
    assert done.returncode == 3
    assert "libnvidia-ml.so.1" in done.stderr
    assert done.stderr.count("\n") == 1


def test_flags_reach_what_they_configure(nvml_driver, tmp_path):
    driver = nvml_driver()
    driver.add_gpu()
    flags = ("--node-name=n7", "--cluster=alps", "--time-scale=60", "--sample-interval=6s", "--log-level=warning")
    with Daemon(tmp_path, driver.start().environment, *flags, port=free_port()) as daemon:
        eventually(lambda: daemon.values("gpu_visible", node="n7") == [1])
        assert daemon.values("dutycycle_exporter_time_scale") == [60]
        assert daemon.values("dutycycle_exporter_replay") == [0]
        assert daemon.log == ""


@pytest.mark.parametrize(
    ("flags", "warned"),
    [
        (["--sample-interval=10s"], False),
        (["--sample-interval=11s"], True),
        (["--sample-interval=30s", "--time-scale=60"], False),
        # A recording has no buffer.
        (["--sample-interval=30s", f"--replay={__file__}"], False),
    ],
)
def test_an_interval_that_is_longer_than_what_nvml_keeps_is_warned_of(flags, warned, nvml_driver, tmp_path):
    with Daemon(tmp_path, nvml_driver().environment, "--no-kubernetes", *flags) as daemon:
        assert ("--sample-interval: NVML's buffer holds" in daemon.log) is warned


def test_a_reload_and_a_release_while_it_is_still_starting_are_obeyed_when_it_has(nvml_driver, tmp_path):
    """`systemctl reload` does not wait for it. Here it hangs in reading a file."""
    driver = nvml_driver()
    driver.add_gpu()
    web, content = tmp_path / "web.yml", tmp_path / "content.yml"
    os.mkfifo(web)
    content.write_text("")

    def opened():
        try:
            return os.open(web, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return None

    daemon = Daemon(tmp_path, driver.start().environment, f"--web.config.file={web}", "--die-with-parent")
    writer = eventually(opened, "the file is being read")
    daemon.signal(signal.SIGHUP)
    daemon.signal(signal.SIGUSR1)
    content.replace(web)
    os.close(writer)
    with daemon:
        eventually(lambda: "the configuration was reloaded" in daemon.log)
        eventually(lambda: daemon.total("dutycycle_exporter_child_restarts_total", reason="released") == 1)


SCRIPTS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
MODULE, FUNCTION = SCRIPTS["dutycycle-exporter"].split(":")
INSTALLED = (sys.executable, "-c", f"from {MODULE} import {FUNCTION}; {FUNCTION}()")


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize(
    ("under", "status"), [((), -signal.SIGTERM), (("unshare", "--pid", "--fork", "--kill-child"), 128 + signal.SIGTERM)]
)
def test_while_it_is_still_starting_it_can_be_ended(under, status, tmp_path):
    """Also as the first process of a container, which the kernel lets no signal end that it does not handle."""
    web = tmp_path / "web.yml"
    os.mkfifo(web)
    daemon = Daemon(tmp_path, {}, f"--web.config.file={web}", under=under, program=INSTALLED)

    def opened():
        try:
            return os.open(web, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return None

    writer = eventually(opened, "the file is being read")
    try:
        os.kill((daemon.child() if under else None) or daemon.process.pid, signal.SIGTERM)
        assert daemon.process.wait(60) == status
        assert daemon.log == ""
    finally:
        os.close(writer)
        daemon.process.kill()
        daemon.process.wait()


def test_that_it_can_be_ended_holds_before_the_rest_is_loaded():
    loaded = f"import sys, {MODULE}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    ours = {name for name in done.stdout.split() if name.startswith(("dutycycle_exporter", "click"))}
    assert ours == {"dutycycle_exporter", MODULE}


@pytest.mark.parametrize("missing", ["pynvml", "h2"])
def test_without_its_extra_it_says_what_is_missing(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; from {MODULE} import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    wanted = f"dutycycle-exporter: {missing} is missing: it was installed without the extra `exporter`\n"
    assert (done.returncode, done.stderr) == (1, wanted)


def test_text_from_outside_cannot_forge_a_line_of_the_log(nvml_driver, tmp_path):
    """Here it is a file name, which a message repeats."""
    recording = tmp_path / 'a"\nlevel=ERROR msg="forged.csv'
    recording.write_text("t,node,gpu\n")
    with Daemon(tmp_path, {}, f"--replay={recording}") as daemon:
        eventually(lambda: "forged" in daemon.log)
        assert not any(line.startswith("level=ERROR") for line in daemon.log.splitlines())
        assert all(re.match(r'time=\S+ level=\w+ logger=\S+ msg="', line) for line in daemon.log.splitlines())

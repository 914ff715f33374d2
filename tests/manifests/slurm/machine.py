"""A GPU node as the prolog and the epilog see it, and both as slurmd calls them."""

import json
import subprocess
from pathlib import Path

from dutycycle_exporter.attribution.prolog_directory import PrologDirectory
from tests.slurm.exporters import driver_information

SLURM = Path(__file__).parents[3] / "manifests/slurm"
BOOT, EARLIER = "8f0f8c3e-0d9b-4a53-8f39-0c1ac5be1e3d", "11111111-0d9b-4a53-8f39-0c1ac5be1e3d"


def uuid(number):
    return f"GPU-aaaaaaaa-0000-0000-0000-{number:012d}"


class Machine:
    """A node of four GPUs. The minor numbers run against the PCI addresses; UUIDs are numbered by minor."""

    def __init__(self, root, *settings):
        self.root = root
        self.directory = root / "run/slurm"
        self.gpus = root / "gpus"
        self.map = root / "gpus.map"
        self.boot(BOOT)
        for minor in range(4):
            self.add_gpu(f"0000:{0x90 - 0x10 * minor:02x}:00.0", minor)
        paths = {"directory": self.directory, "nvidia": self.gpus, "map": self.map, "boot_id": root / "boot_id"}
        paths |= {"mountinfo": root / "mountinfo", "devices": root / "dev"}
        self.settings = root / "prolog.conf"
        self.settings.write_text("".join(f"{name}='{path}'\n" for name, path in paths.items()) + "\n".join(settings))
        self.settings.chmod(0o644)

    def enter_pod(self, *mounts, minors=()):
        """From now on slurmd is in a container with these lines of mountinfo, and with device files of some GPUs."""
        (self.root / "mountinfo").write_text("".join(f"{mount}\n" for mount in mounts))
        devices = self.root / "dev"
        devices.mkdir(exist_ok=True)
        for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{minor}" for minor in minors)):
            (devices / name).touch()

    def boot(self, boot_id):
        (self.root / "boot_id").write_text(f"{boot_id}\n")

    def write_map(self, text):
        self.map.write_text(text)
        self.map.chmod(0o644)

    def add_gpu(self, bus_id, minor, text=None):
        entry = self.gpus / bus_id
        entry.mkdir(parents=True, exist_ok=True)
        text = driver_information(uuid(minor), bus_id, minor) if text is None else text
        (entry / "information").write_bytes(text.encode() if isinstance(text, str) else text)

    def run(self, what, job=7, gpus="0", **environment):
        """What slurmd does: no search path, no terminal. The exit code is what it would see."""
        environment = {"SLURM_JOB_ID": str(job), "SLURM_JOB_UID": "1000", **environment}
        if gpus is not None:
            environment |= {"SLURM_JOB_GPUS": gpus}
        done = subprocess.run(
            [SLURM / f"{what}.d/dutycycle.sh", self.settings],
            env={name: value for name, value in environment.items() if value is not None},
            capture_output=True,
            cwd=self.root,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, b"")
        return done.stderr.decode()

    def prolog(self, *arguments, **environment):
        return self.run("prolog", *arguments, **environment)

    def epilog(self, job=7, **environment):
        return self.run("epilog", job, **environment)

    def files(self):
        return sorted(file.name for file in self.directory.glob("*.json"))

    def read(self, gpu=0, job=7):
        return json.loads((self.directory / f"{uuid(gpu)}.{job}.json").read_text())

    def jobs(self):
        """What the exporter makes of it."""
        files = PrologDirectory(self.directory, (self.root / "boot_id").read_text().strip()).read()
        assert files.failures == {}
        return {gpu: [job.name for job in jobs] for gpu, jobs in files.jobs.items()}

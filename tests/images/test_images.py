"""What is in both images, and what is not."""

from __future__ import annotations

import re
import stat
import struct

import pytest

import dutycycle_alerter
from tests.images import tree
from tests.images.container import Confinement
from tests.images.described import locks, packages, run
from tests.images.fixtures import TIMEOUT
from tests.images.image import Image
from tools import image_locks

pytestmark = pytest.mark.timeout(TIMEOUT)

COMPONENTS = {
    "exporter": frozenset({"exporter"}),
    "alerter": frozenset({"alerter", "apprise"}),
}
OTHERS = ("apprise", "fastapi", "kubernetes", "matplotlib", "numpy", "sqlalchemy", "urllib3")
"""Some of the alerter's, none of which the exporter may have."""

SET_UP = (
    "bin/pip",
    "bin/pip3",
    "bin/gcc",
    "bin/cc",
    "bin/ld",
    "bin/make",
    "bin/python3-config",
    "lib/python3/dist-packages/pip",
)


@pytest.fixture(params=COMPONENTS)
def component(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def image(component: str, request: pytest.FixtureRequest) -> Image:
    found: Image = request.getfixturevalue(f"{component}_image")
    return found


def test_it_has_what_its_extras_need_and_no_more(image: Image, component: str) -> None:
    found = packages(image)
    assert set(found.versions) == found.needed(COMPONENTS[component])
    assert {name: found.versions[name] for name in found.versions if name != "dutycycle"} == found.locked(
        locks(component)
    )
    assert found.versions["dutycycle"] == dutycycle_alerter.__version__


def test_the_exporter_has_nothing_of_the_alerter(exporter_image: Image) -> None:
    assert not packages(exporter_image).versions.keys() & set(OTHERS)
    site = next(exporter_image.root.glob("opt/dutycycle/lib/python3*/site-packages"))
    assert [path.name for path in (site / "dutycycle_alerter").glob("*.py")] == ["__init__.py"]


def test_its_lock_is_the_part_of_the_lock_that_it_needs(component: str) -> None:
    """Whole entries, with their hashes: the image is installed from what was tested."""
    lock = locks(component).read_text()
    assert lock.encode() == getattr(image_locks, component)()
    assert lock.count("==") == len(re.findall(r"^\S+==\S+.* \\\n    --hash=sha256:", lock, re.MULTILINE))
    assert locks("build").read_bytes() == image_locks.build()


def test_every_module_of_it_can_be_imported(image: Image, component: str) -> None:
    """What is left out is not needed."""
    script = (
        "import importlib, pkgutil, sys\n"
        f"import dutycycle_{component} as package\n"
        "names = [each.name for each in pkgutil.walk_packages(package.__path__, package.__name__ + '.')]\n"
        "for name in names: name.endswith('__main__') or importlib.import_module(name)\n"
        "print(len(names))"
    )
    assert int(run(image, "python", "-c", script)) > 30


def test_nothing_that_builds_is_in_it(image: Image) -> None:
    for name in SET_UP:
        assert not (image.root / "usr" / name).exists(), name
        assert not (image.root / "opt/dutycycle" / name).exists(), name
    assert "pip" not in packages(image).versions
    assert not list(image.root.rglob("ensurepip/_bundled/*.whl"))


def test_nothing_that_only_the_build_knew_is_in_it(image: Image) -> None:
    """Lists, caches, logs, and what was mounted."""
    for name in (
        "var/cache",
        "var/log",
        "var/lib/apt/lists",
        "tmp",
        "run/host",
        "wheels",
        "source",
        "build",
        "root/.cache",
    ):
        path = image.root / name
        assert not path.exists() or not list(path.iterdir()), name
    for name in ("etc/resolv.conf", "etc/hosts"):
        assert (image.root / name).read_bytes() == b"", name
    assert not list((image.root / "etc").glob("*-"))


def test_bytecode_says_nothing_of_times(image: Image) -> None:
    """The second word of a .pyc is 0 where it goes by the time of its source: an engine may change that, and then the
    source is compiled at every start, as the root cannot be written to.
    """
    found = [path for path in image.root.rglob("*.pyc") if struct.unpack("<I", path.read_bytes()[4:8])[0] == 0]
    assert found == []
    site = next(image.root.glob("opt/dutycycle/lib/python3*/site-packages"))
    sources = {path.with_suffix("") for path in site.glob("dutycycle_*/**/*.py")}
    compiled = {path.parent.parent / path.name.split(".")[0] for path in site.glob("dutycycle_*/**/*.pyc")}
    assert sources == compiled


def test_only_root_can_change_it(image: Image) -> None:
    """None but root's own, no file that anyone may write, none that makes its caller more than it is."""
    found = tree.entries(image.root, until=0)
    theirs = {name for name, entry in found.items() if entry.uid == 10001}
    assert theirs <= {"var/lib/dutycycle"}
    ours = {name: entry for name, entry in found.items() if name.startswith("opt/")}
    assert all(entry.uid == entry.gid == 0 for entry in ours.values())
    assert [name for name, entry in ours.items() if entry.mode & 0o022 and not stat.S_ISLNK(entry.mode)] == []
    assert [name for name, entry in ours.items() if entry.mode & 0o6000] == []


def test_what_engines_are_told(image: Image, component: str) -> None:
    assert image.user == (10001, 10001)
    assert image.stop_signal == "SIGTERM"
    assert image.env["PATH"].startswith("/opt/dutycycle/bin:")
    prefix = "org.opencontainers.image."
    labels = {name.removeprefix(prefix): value for name, value in image.labels.items()}
    assert labels.keys() == {"title", "description", "version", "revision", "licenses", "base.name"}
    assert labels["title"] == f"dutycycle-{component}"
    assert labels["version"] == dutycycle_alerter.__version__
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?|unknown", labels["revision"])
    assert labels["base.name"] == "debian:trixie-slim"
    assert labels["licenses"] == "Apache-2.0"
    ports = {"exporter": (9836,), "alerter": (9837, 9838)}
    commands = {"exporter": (("dutycycle-exporter",), ()), "alerter": (("dutycycle",), ("serve",))}
    assert image.exposed == ports[component]
    assert (image.entrypoint, image.cmd) == commands[component]


@pytest.mark.parametrize("user", [(10001, 10001), (0, 0), (4242, 0)])
@pytest.mark.parametrize("argument", ["--version", "--help"])
def test_it_runs_as_anyone_without_any_right(image: Image, user: tuple[int, int], argument: str) -> None:
    """Read-only root, no capability; a user whom /etc/passwd does not know, as OpenShift gives it."""
    said = run(image, *image.entrypoint, argument, confinement=Confinement(user=user))
    assert dutycycle_alerter.__version__ in said or "Usage:" in said


def test_other_programs_are_not_in_it(image: Image, component: str) -> None:
    there = {path.name for path in (image.root / "opt/dutycycle/bin").glob("dutycycle*")}
    assert there == ({"dutycycle-exporter"} if component == "exporter" else {"dutycycle"})

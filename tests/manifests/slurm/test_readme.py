"""What the README says of where files go is what the installer does."""

from __future__ import annotations

import re

from .machine import SLURM


def test_the_table_of_files_is_what_the_installer_installs() -> None:
    rows = re.findall(r"^\| `(\S+)` \| `(/\S+)` \| ([a-z, ]+) \|$", (SLURM / "README.md").read_text(), re.MULTILINE)
    said = {(role, source, target) for source, target, roles in rows for role in roles.split(", ")}
    text = (SLURM / "installer/roles.bash").read_text()
    for name, value in {
        "unit_directory": "/etc/systemd/system",
        "prolog_dir": "/etc/slurm/prolog.d",
        "epilog_dir": "/etc/slurm/epilog.d",
    }.items():
        text = text.replace(f"${name}", value)
    planned = set()
    for role, body in re.findall(r"^plan_(\w+)\(\) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        for source, target in re.findall(r'planning (?:file|conf) \d+ "\$here/(\S+)" "?(/[^\s"]+)"?', body):
            planned.add((role, source, target))
    assert said == planned
    assert all((SLURM / source).is_file() for _, source, _ in planned)


def test_every_file_here_is_installed_or_part_of_the_installer() -> None:
    readme = (SLURM / "README.md").read_text()
    files = {str(path.relative_to(SLURM)) for path in SLURM.rglob("*") if path.is_file()}
    files = {name for name in files if not name.startswith("installer/") and "__pycache__" not in name}
    assert {name for name in files if f"`{name}`" not in readme} == {"README.md", "prometheus.yml"}

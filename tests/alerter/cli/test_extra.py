"""What the command says where it was installed without what it needs, or runs as nobody that the system knows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dutycycle_alerter.cli.options import whoever_runs


def test_without_its_extra_it_says_what_is_missing() -> None:
    code = "import sys; sys.modules['rich'] = None; from dutycycle_alerter.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code, "incidents"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: rich is missing: dutycycle was installed without the extra `alerter`\n"


@pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found: 4711"), OSError("No username set")])
def test_who_has_no_name_is_known_by_number(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def nameless() -> str:
        raise error

    monkeypatch.setattr("getpass.getuser", nameless)
    monkeypatch.setattr("os.getuid", lambda: 4711)
    assert whoever_runs() == "uid 4711"

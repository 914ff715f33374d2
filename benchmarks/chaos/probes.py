"""What shows from outside of our programs that a fault is in force."""

from __future__ import annotations

import json
import os
import smtplib
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

_TIMEOUT = 3.0
_EXPIRED = 10
"""X509_V_ERR_CERT_HAS_EXPIRED."""
_NVML = """\
import json, pynvml
found = {"error": 0, "gpus": []}
try:
    pynvml.nvmlInit()
    for index in range(pynvml.nvmlDeviceGetCount()):
        gpu = {"error": 0, "mig": False}
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            pynvml.nvmlDeviceGetTemperature(handle, 0)
            gpu["mig"] = bool(pynvml.nvmlDeviceGetMigMode(handle)[0])
        except pynvml.NVMLError as error:
            gpu["error"] = error.value
        found["gpus"].append(gpu)
except pynvml.NVMLError as error:
    found["error"] = error.value
print(json.dumps(found))
"""

Address = tuple[str, int] | Path


def refused(address: Address) -> bool:
    """Whether nobody accepts connections there."""
    kind = socket.AF_UNIX if isinstance(address, Path) else socket.AF_INET
    with socket.socket(kind) as probe:
        probe.settimeout(_TIMEOUT)
        try:
            probe.connect(str(address) if isinstance(address, Path) else address)
        except (ConnectionRefusedError, FileNotFoundError):
            return True
        except OSError:
            return False
    return False


def stopped(pid: int) -> bool:
    """Whether a process was stopped and does not go on."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def expired(port: int, authority: Path, *, mail: bool = False) -> bool | None:
    """Whether what serves TLS at a port of this machine (`mail`: after STARTTLS) shows a certificate that has expired.

    None: it does not answer.
    """
    context = ssl.create_default_context(cafile=str(authority))
    try:
        if mail:
            with smtplib.SMTP("127.0.0.1", port, timeout=_TIMEOUT) as server:
                server.starttls(context=context)
        else:
            plain = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT)
            with context.wrap_socket(plain, server_hostname="127.0.0.1"):
                pass
    except ssl.SSLCertVerificationError as error:
        return error.verify_code == _EXPIRED
    except (OSError, smtplib.SMTPException):
        return None
    return False


def clock(url: str) -> float | None:
    """The time of day (Unix seconds) of whoever serves there, by its answer; None where it has none."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT, context=context) as answer:
            headers = answer.headers
    except urllib.error.HTTPError as error:
        headers = error.headers
    except (OSError, HTTPException):
        return None
    return parsedate_to_datetime(headers["Date"]).timestamp() if headers["Date"] else None


def nvml(environment: Mapping[str, str]) -> Mapping[str, Any]:
    """What a program that has just begun sees of a machine's NVML.

    `error` is that of its first calls (0: none), `gpus` has for each that is counted `error` and whether `mig` is on.
    """
    command = [sys.executable, "-c", _NVML]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=30, check=True
    )
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found

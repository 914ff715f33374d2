"""Pods as an API server sends them, decoded."""

from __future__ import annotations

import json
from typing import Any

from dutycycle_alerter.kubernetes.model import Pod
from dutycycle_alerter.kubernetes.pods import PodDecoder, gpu_resources
from tests.fakes.kubernetes import builders

GPUS = gpu_resources(("nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*"))
GI = 2.0**30
AT = 1795212861.0
"""2026-11-20T22:14:21Z"""

decode = PodDecoder(GPUS)


def kept(content: dict[str, Any]) -> Pod | None:
    return decode(json.dumps(content).encode()).kept


def made(**fields: Any) -> Pod:
    found = kept(builders.pod("train-0", **fields))
    assert found is not None
    return found


def asking(requests: Any = None, limits: Any = None, **fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}, **fields}

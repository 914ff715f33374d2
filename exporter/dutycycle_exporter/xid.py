"""The classes of the errors that the driver reports (XID)."""

from __future__ import annotations

CRITICAL = frozenset({48, 62, 64, 74, 79, 95, 119, 120})
WARNING = frozenset({94})
APPLICATION = frozenset({13, 31, 43, 63})
"""Classes of XIDs by NVIDIA's guide (https://docs.nvidia.com/deploy/xid-errors): the GPU or its node must be looked
after; contained; the program's own fault, or news of a repair."""


def xid_class(code: int) -> str:
    """`critical`, `warning` or `application`; `other` for those that the guide does not sort."""
    if code in CRITICAL:
        return "critical"
    if code in WARNING:
        return "warning"
    return "application" if code in APPLICATION else "other"

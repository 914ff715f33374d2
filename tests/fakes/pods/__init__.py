"""Runs pods as their manifests say, without a container engine: real namespaces, mounts, users and capabilities.

A pod's containers run in mount, PID, IPC and UTS namespaces of their own on the image's root, in a network namespace
that is bridged to the other pods' and has the cluster's DNS; their memory is limited by a cgroup where this machine has
one for it. What no engine is there for is not applied: seccomp profiles, AppArmor, CPU limits, user namespaces,
NetworkPolicies. A field of a pod that nothing here knows is an error.
"""

from .cluster import Cluster, Node
from .fields import UnsupportedFieldError
from .pod import Pod

__all__ = ["Cluster", "Node", "Pod", "UnsupportedFieldError"]

"""Every way to install that the manifests offer, and what each expects the cluster to have already."""

from __future__ import annotations

from .rendering import INSTALL, Object, Variant, build, kustomizations, parsed

PARTS = frozenset({"base/alerter", "base/exporter"})
"""Kustomizations that are resources of another one beside them, and are not installed alone."""
BUILT_IN = frozenset({"base/version"})
"""Components that the base has by itself."""
NEEDS = {"components/dra": ("components/pod-names",)}
"""Components that say which others they need."""
PROVIDED = frozenset(
    {
        # Where Prometheus and Grafana run.
        ("Namespace", "monitoring"),
        # The GPU operator's, or the site's.
        ("RuntimeClass", "nvidia"),
        # With the database's password: components/ha-postgres says how it is made.
        ("Secret", "dutycycle-database"),
        # With the bucket: engines/thanos says that it needs one.
        ("Secret", "thanos-objstore"),
    }
)
COMPONENTS = tuple(name for name in kustomizations("Component") if name not in BUILT_IN)
ALONE = tuple(Variant(name) for name in kustomizations() if name not in PARTS)
WITH_ONE = tuple(Variant("base", (*NEEDS.get(name, ()), name)) for name in COMPONENTS)
ALL_AT_ONCE = {
    "in order": Variant("base", COMPONENTS),
    "the other way around": Variant("base", COMPONENTS[::-1]),
}
"""Every component beside every other, each of two before the other once."""
SINGLE = (*ALONE, *WITH_ONE)
_COMMON = ("components/pod-names", "components/host-pid")
_GPU_OPERATOR = ("components/runtime-class", "components/gpu-operator", *_COMMON)
SITES = {
    site: Variant(kustomization, components)
    for site, kustomization, components in (
        ("GPU operator, Prometheus operator", "overlays/prometheus-operator", (*_GPU_OPERATOR, "components/dra")),
        (
            "NRI, PostgreSQL, a chart's Prometheus",
            "overlays/ha-postgres",
            ("components/annotations", "components/nri", "components/creator-policy", *_COMMON),
        ),
        ("MIG, Slurm's jobs too", "overlays/mig", (*_GPU_OPERATOR, "components/slurm")),
        ("Bottlerocket, profiling restricted", "base", ("components/device-mounts", "components/profiling-admin")),
        ("OpenShift, PostgreSQL", "overlays/openshift", ("components/ha-postgres", "components/mig", *_COMMON)),
        ("Thanos, PostgreSQL", "engines/thanos", ("components/ha-postgres", *_GPU_OPERATOR)),
        ("Mimir, MIG", "engines/mimir", ("components/mig", "components/creator-policy", *_GPU_OPERATOR)),
    )
}
"""What clusters are likely to put together, every component in one of them at least."""
EVERY = (*SINGLE, *SITES.values())
WITH_PODS = tuple(one for one in EVERY if one.kustomization not in ("grafana", "prometheus"))


def installed() -> list[Object]:
    return parsed(INSTALL.read_text())


def objects(variant: Variant) -> list[Object]:
    return build(variant).objects()

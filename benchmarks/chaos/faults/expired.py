"""Certificates that expire in use, and are renewed."""

from __future__ import annotations

import random
from typing import Self

from .. import probes
from ..happened import EVERY_NODE, Effects
from ..site import Site
from .base import Fault
from .processes import OnMachine


class ExporterCertificateExpired(OnMachine):
    """An exporter's certificate expires: Prometheus scrapes it no more until it is renewed in place."""

    name = "exporter-certificate"

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.effects = Effects(blinds=frozenset({node}))

    def begin(self, site: Site) -> None:
        machine = site.machines[self.node]
        machine.certificate.expire()
        machine.scraped_through.drop()

    def in_force(self, site: Site) -> bool | None:
        return probes.expired(site.machines[self.node].port, site.authority)

    def end(self, site: Site) -> None:
        machine = site.machines[self.node]
        machine.certificate.renew()
        machine.scraped_through.drop()


class PrometheusCertificateExpired(Fault):
    """Prometheus' own certificate expires: the alerters ask it nothing until it is renewed in place."""

    name = "prometheus-certificate"
    touches = frozenset({"prometheus"})
    effects = Effects(blinds=frozenset({EVERY_NODE}), says=frozenset({"source:prometheus"}))

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - there is one
        return cls()

    def begin(self, site: Site) -> None:
        site.prometheus.certificate.expire()
        site.prometheus.link.drop()

    def in_force(self, site: Site) -> bool | None:
        return probes.expired(site.prometheus.link.port, site.authority)

    def end(self, site: Site) -> None:
        site.prometheus.certificate.renew()
        site.prometheus.link.drop()


class MailCertificateExpired(Fault):
    """The mail server's certificate expires, and is renewed: nothing is mailed meanwhile, and everything afterwards."""

    name = "mail-certificate"
    touches = frozenset({"mail"})
    effects = Effects(halts=frozenset({"mail"}), says=frozenset({"receiver:mail"}))

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - there is one way
        return cls()

    def begin(self, site: Site) -> None:
        site.receivers.renew_certificate(expired=True)

    def in_force(self, site: Site) -> bool | None:
        return probes.expired(site.receivers.mail_link.port, site.authority, mail=True)

    def end(self, site: Site) -> None:
        site.receivers.renew_certificate(expired=False)


class KubernetesCertificateExpired(Fault):
    """The API server's certificate expires: nothing of Kubernetes is watched until it is renewed."""

    name = "kubernetes-certificate"
    touches = frozenset({"kubernetes"})
    effects = Effects(halts=frozenset({"kubernetes"}), says=frozenset({"watch:kubernetes"}))

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - there is one
        return cls()

    def begin(self, site: Site) -> None:
        site.renew_kubernetes_certificate(expired=True)

    def in_force(self, site: Site) -> bool | None:
        return probes.expired(site.kubernetes_link.port, site.authority)

    def end(self, site: Site) -> None:
        site.renew_kubernetes_certificate(expired=False)


CERTIFICATES = (
    ExporterCertificateExpired,
    PrometheusCertificateExpired,
    MailCertificateExpired,
    KubernetesCertificateExpired,
)

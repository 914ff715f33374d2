"""Certificates that expire in use, and are renewed."""

from __future__ import annotations

import random
from abc import abstractmethod
from typing import ClassVar, Self

from .. import probes
from ..happened import EVERY_NODE, Effects
from ..links import Link
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


class _OfServer(Fault):
    """The certificate of a server to which there is one link: whoever talked to it has to begin anew."""

    starttls: ClassVar[bool] = False

    @classmethod
    def draw(cls, chance: random.Random) -> Self:  # noqa: ARG003 - there is one
        return cls()

    @abstractmethod
    def link(self, site: Site) -> Link:
        """The way to the server."""

    @abstractmethod
    def replace(self, site: Site, *, expired: bool) -> None:
        """From now on it serves with one that has expired, or with a new one."""

    def begin(self, site: Site) -> None:
        self.replace(site, expired=True)
        self.link(site).drop()

    def in_force(self, site: Site) -> bool | None:
        return probes.expired(self.link(site).port, site.authority, mail=self.starttls)

    def end(self, site: Site) -> None:
        self.replace(site, expired=False)
        self.link(site).drop()


class PrometheusCertificateExpired(_OfServer):
    """Prometheus' own certificate expires: the alerters ask it nothing until it is renewed in place."""

    name = "prometheus-certificate"
    touches = frozenset({"prometheus"})
    effects = Effects(blinds=frozenset({EVERY_NODE}), says=frozenset({"source:prometheus"}))

    def link(self, site: Site) -> Link:
        return site.prometheus.link

    def replace(self, site: Site, *, expired: bool) -> None:
        site.prometheus.certificate.become(expired=expired)


class MailCertificateExpired(_OfServer):
    """The mail server's certificate expires, and is renewed: nothing is mailed meanwhile, and everything afterwards."""

    name = "mail-certificate"
    touches = frozenset({"mail"})
    effects = Effects(halts=frozenset({"mail"}), says=frozenset({"receiver:mail"}))
    starttls = True

    def link(self, site: Site) -> Link:
        return site.receivers.mail_link

    def replace(self, site: Site, *, expired: bool) -> None:
        site.receivers.replace_mail_certificate(expired=expired)


class WebhookCertificateExpired(_OfServer):
    """The certificate of the program that is told by webhook expires: it is told once that is renewed."""

    name = "webhook-certificate"
    touches = frozenset({"webhook"})
    effects = Effects(halts=frozenset({"webhook"}), says=frozenset({"receiver:program"}))

    def link(self, site: Site) -> Link:
        return site.receivers.hook_link

    def replace(self, site: Site, *, expired: bool) -> None:
        site.receivers.replace_hook_certificate(expired=expired)


class AlertmanagerCertificateExpired(_OfServer):
    """Alertmanager's certificate expires: it hears of nothing until that is renewed in place."""

    name = "alertmanager-certificate"
    touches = frozenset({"alertmanager"})
    effects = Effects(halts=frozenset({"alertmanager"}), says=frozenset({"receiver:alerts"}))

    def link(self, site: Site) -> Link:
        return site.receivers.alertmanager.link

    def replace(self, site: Site, *, expired: bool) -> None:
        site.receivers.alertmanager.certificate.become(expired=expired)


class KubernetesCertificateExpired(_OfServer):
    """The API server's certificate expires: nothing of Kubernetes is watched until it is renewed."""

    name = "kubernetes-certificate"
    touches = frozenset({"kubernetes"})
    effects = Effects(halts=frozenset({"kubernetes"}), says=frozenset({"watch:kubernetes"}))

    def link(self, site: Site) -> Link:
        return site.kubernetes_link

    def replace(self, site: Site, *, expired: bool) -> None:
        site.replace_kubernetes_certificate(expired=expired)


CERTIFICATES = (
    ExporterCertificateExpired,
    PrometheusCertificateExpired,
    MailCertificateExpired,
    WebhookCertificateExpired,
    AlertmanagerCertificateExpired,
    KubernetesCertificateExpired,
)

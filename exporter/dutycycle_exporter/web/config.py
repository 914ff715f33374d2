"""The file of `--web.config.file`, in the format that Prometheus' exporters share: TLS, users and headers.

The format is that of github.com/prometheus/exporter-toolkit, docs/web-configuration.md. What cannot be done as it says
is an error, never done otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dutycycle_exporter import durations, yaml_file
from dutycycle_exporter.errors import ConfigError
from dutycycle_exporter.web import passwords

TLS_VERSIONS = ("TLS10", "TLS11", "TLS12", "TLS13")
CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}
"""Names as Go has them, and OpenSSL's."""
CIPHERS = {
    f"TLS_ECDHE_{key}_WITH_{go}": f"ECDHE-{key}-{openssl}"
    for key in ("ECDSA", "RSA")
    for go, openssl in (
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
"""Suites up to TLS 1.2: names as Go has them, and OpenSSL's."""
_TLS13_CIPHERS = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "Strict-Transport-Security": (),
    "X-Content-Type-Options": ("nosniff",),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-XSS-Protection": (),
}
"""Those that can be set, and the values that they can have; any where none are named."""
_TLS_KEYS = (
    *("cert", "key", "client_ca", "cert_file", "key_file", "client_ca_file", "client_auth_type"),
    *("client_allowed_sans", "min_version", "max_version", "cipher_suites", "prefer_server_cipher_suites"),
    "curve_preferences",
)
_CLIENTS = {
    "NoClientCert": "none",
    "VerifyClientCertIfGiven": "optional",
    "RequireAndVerifyClientCert": "required",
}
_UNVERIFIED = ("RequestClientCert", "RequireAnyClientCert", "RequireClientCert")
_LARGEST_BURST = 2**63 - 1
"""Go's largest integer, as in other exporters."""


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """`tls_server_config`. Where there is a file and a text for the same thing, one of them is None.

    `clients` is none, optional or required: whether a client shows a certificate. `ciphers` and `curves` are OpenSSL's
    names, empty for its defaults.
    """

    cert_file: Path | None = None
    key_file: Path | None = None
    client_ca_file: Path | None = None
    cert: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    client_ca: str | None = field(default=None, repr=False)
    clients: str = "none"
    client_allowed_sans: frozenset[str] = frozenset()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    ciphers: tuple[str, ...] = ()
    prefer_server_ciphers: bool = True
    curves: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that it names."""
        return tuple(path for path in (self.cert_file, self.key_file, self.client_ca_file) if path is not None)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """`rate_limit`: so many requests at once, then one in every `interval` seconds."""

    interval: float
    burst: int


@dataclass(frozen=True, slots=True)
class WebConfig:
    """The whole file; without one, plain HTTP for everybody."""

    tls: TlsConfig | None = None
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    rate_limit: RateLimit | None = None
    has_keys: bool = False
    """Whether the file has any, whatever they say."""


def changed(before: WebConfig, after: WebConfig, *, renewed: bool = False) -> tuple[str, ...]:
    """Return the file's sections that differ. `renewed`: a certificate or key that the file names was replaced."""
    differ = {
        "basic_auth_users": before.users != after.users,
        "http_server_config": before.headers != after.headers,
        "rate_limit": before.rate_limit != after.rate_limit,
        "tls_server_config": before.tls != after.tls or (renewed and after.tls is not None),
    }
    return tuple(name for name, differs in differ.items() if differs)


def load(path: Path, *, had_keys: bool = False) -> WebConfig:
    """Read the file. Raises ConfigError that names the file, the key and the remedy, and shows no value of it; also
    where it `had_keys` when it was read last and has none now.
    """
    origin = f"--web.config.file={path}"
    data = yaml_file.read(path, had_keys=had_keys)
    _only(origin, data, ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit"))
    tls = _Section(f"{origin}: tls_server_config", data.get("tls_server_config"), _TLS_KEYS, path.parent)
    http = _Section(f"{origin}: http_server_config", data.get("http_server_config"), ("http2", "headers"), path.parent)
    http.boolean("http2", default=True)  # Understood, and without effect: this server speaks HTTP/1.
    users = _Section(f"{origin}: basic_auth_users", data.get("basic_auth_users"), None, path.parent)
    limit = _Section(f"{origin}: rate_limit", data.get("rate_limit"), ("interval", "burst"), path.parent)
    return WebConfig(_tls(tls) if tls.given else None, _users(users), _headers(http), _rate_limit(limit), bool(data))


class _Section:
    """A part of the file: its values by key, each checked for its type."""

    def __init__(self, where: str, data: object, known: tuple[str, ...] | None, directory: Path) -> None:
        if data is not None and not isinstance(data, dict):
            raise ConfigError(f"{where}: expected keys and values")
        self.where = where
        self.given: dict[str, Any] = data or {}
        self._directory = directory
        if known is not None:
            _only(where, self.given, known)

    def wrong(self, key: str, what: str) -> ConfigError:
        return ConfigError(f"{self.where}: {yaml_file.shown(key)}: {what}")

    def text(self, key: str) -> str | None:
        value = self.given.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.wrong(key, "expected a text; put it in quotes")
        try:
            value.encode()
        except UnicodeEncodeError:
            # By an escape, like "\uD800", YAML has what no file can hold.
            raise self.wrong(key, "not valid UTF-8") from None
        return value

    def choice(self, key: str, choices: Iterable[str], default: str) -> str:
        value = self.text(key) or default
        if value not in choices:
            raise self.wrong(key, "expected one of " + ", ".join(choices))
        return value

    def boolean(self, key: str, *, default: bool) -> bool:
        value = self.given.get(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "expected true or false")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.given.get(key) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(key, "expected a list of texts")
        return tuple(value)

    def file(self, key: str) -> Path | None:
        value = self.text(key)
        if value is not None and "\0" in value:
            raise self.wrong(key, "not the name of a file: it has a NUL in it")
        return None if value is None else self._directory / value


def _tls(section: _Section) -> TlsConfig:
    given: dict[str, Any] = {}
    for key in ("cert", "key", "client_ca"):
        given[key], given[f"{key}_file"] = text, file = section.text(key), section.file(f"{key}_file")
        if text is not None and file is not None:
            raise section.wrong(key, f"given beside {key}_file; leave one of them out")
        if text is None and file is None and key != "client_ca":
            raise section.wrong(f"{key}_file", "is missing, as TLS needs it; without TLS, leave tls_server_config out")
    lowest = section.choice("min_version", TLS_VERSIONS, "TLS12")
    highest = section.choice("max_version", TLS_VERSIONS, "TLS13")
    if lowest > highest:
        raise section.wrong("min_version", "is above max_version")
    clients = _clients(section, ca=bool(given["client_ca"] or given["client_ca_file"]))
    sans = frozenset(section.texts("client_allowed_sans"))
    if sans and clients != "required":
        raise section.wrong("client_allowed_sans", "needs client_auth_type: RequireAndVerifyClientCert")
    return TlsConfig(
        **given,
        clients=clients,
        client_allowed_sans=sans,
        min_version=lowest,
        max_version=highest,
        ciphers=_ciphers(section),
        prefer_server_ciphers=section.boolean("prefer_server_cipher_suites", default=True),
        curves=tuple(_named(section, "curve_preferences", CURVES)),
    )


def _clients(section: _Section, *, ca: bool) -> str:
    value = section.text("client_auth_type") or "NoClientCert"
    if value in _UNVERIFIED:
        raise section.wrong(
            "client_auth_type", f"{value} takes any certificate, which proves nothing; use RequireAndVerifyClientCert"
        )
    clients = _CLIENTS[section.choice("client_auth_type", _CLIENTS, "NoClientCert")]
    if ca and clients == "none":
        raise section.wrong("client_ca_file", "without effect until client_auth_type is RequireAndVerifyClientCert")
    if clients != "none" and not ca:
        raise section.wrong("client_ca_file", "is missing: whose certificates are clients to show?")
    return clients


def _ciphers(section: _Section) -> tuple[str, ...]:
    # Those of TLS 1.3 cannot be chosen, in Go neither; naming them is no mistake.
    known = {**CIPHERS, **dict.fromkeys(_TLS13_CIPHERS, "")}
    return tuple(name for name in _named(section, "cipher_suites", known) if name)


def _named(section: _Section, key: str, known: Mapping[str, str]) -> Iterable[str]:
    for name in section.texts(key):
        if name not in known:
            raise yaml_file.unknown_name(f"{section.where}: {key}", name, known)
        yield known[name]


def _users(section: _Section) -> Mapping[str, str]:
    for user, text in section.given.items():
        if not user or ":" in user:
            raise section.wrong(user, "no name of a user: it is empty or holds a colon")
        if not isinstance(text, str) or not passwords.is_hash(text):
            raise section.wrong(user, "not a bcrypt hash; make one with: htpasswd -nBC 10 '' | tr -d ':\\n'")
    if section.given:
        passwords.require_bcrypt()
    return section.given


def _headers(http: _Section) -> tuple[tuple[str, str], ...]:
    section = _Section(f"{http.where}: headers", http.given.get("headers"), tuple(_HEADERS), Path())
    headers = []
    for name, choices in _HEADERS.items():
        value = section.text(name)
        if value is None:
            continue
        if choices and value not in choices:
            raise section.wrong(name, "expected one of " + ", ".join(choices))
        if not value.isascii() or not value.isprintable():
            raise section.wrong(name, "holds characters that a header cannot")
        headers.append((name, value))
    return tuple(headers)


def _rate_limit(section: _Section) -> RateLimit | None:
    interval, burst = section.text("interval") or "0", section.given.get("burst", 0)
    if interval in ("0", "0s"):
        return None
    seconds = durations.parse(interval)
    if seconds is None:
        raise section.wrong("interval", "not a duration: write it like 1s or 250ms")
    if isinstance(burst, bool) or not isinstance(burst, int) or burst < 1:
        raise section.wrong("burst", "expected a whole number of 1 or more: with less nobody is answered")
    if burst > _LARGEST_BURST:
        raise section.wrong("burst", f"expected {_LARGEST_BURST} at most")
    return RateLimit(seconds, burst)


def _only(where: str, data: Mapping[str, object], known: Iterable[str]) -> None:
    for key in data:
        if key not in known:
            raise yaml_file.unknown_key(where, key, known)

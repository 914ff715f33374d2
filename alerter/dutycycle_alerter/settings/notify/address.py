"""What an email address may look like: plain ASCII, nothing that has to be quoted."""

from __future__ import annotations

import re

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"(?P<local>{_ATOM}(?:\.{_ATOM})*)@(?P<domain>{_LABEL}(?:\.{_LABEL})*)")


def is_address(text: str) -> bool:
    """Whether it is an address in RFC 5321's plain form, not over its lengths. A domain beyond ASCII is written `xn--`.

    Addresses beyond ASCII are refused rather than sent with SMTPUTF8: one server on the way without it loses the mail.
    """
    found = _ADDRESS.fullmatch(text) if len(text) <= 254 else None
    return (
        found is not None and len(found["local"]) <= 64 and all(len(part) <= 63 for part in found["domain"].split("."))
    )

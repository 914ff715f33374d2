"""A kubelet's pod-resources API on a unix socket, an API server over HTTP(S), and what real ones were seen to say."""

from .api import FakeApiServer
from .logs import link_logs
from .messages import claim, list_reply, pod, schema
from .recorded import Exchange, exchanges, recordings
from .server import FakeKubelet, Fault, Reply

__all__ = [
    "Exchange",
    "FakeApiServer",
    "FakeKubelet",
    "Fault",
    "Reply",
    "claim",
    "exchanges",
    "link_logs",
    "list_reply",
    "pod",
    "recordings",
    "schema",
]

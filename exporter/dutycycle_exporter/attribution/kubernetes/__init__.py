"""Which pods hold the node's GPUs: the kubelet's pod-resources API, and the API server for who they are."""

from .api_server import ApiServer
from .claim import PodClaim
from .container_logs import ContainerLogs
from .devices import Selection
from .pods import KubernetesPods, Pace
from .records import Naming
from .sources import SourceHealth

__all__ = [
    "ApiServer",
    "ContainerLogs",
    "KubernetesPods",
    "Naming",
    "Pace",
    "PodClaim",
    "Selection",
    "SourceHealth",
]

"""Which pods hold the node's GPUs: the kubelet's pod-resources API, and the API server for who they are."""

from .api_server import ApiServer
from .claim import PodClaim
from .devices import Selection
from .pods import KubernetesPods, Pace, SourceHealth
from .records import Naming

__all__ = ["ApiServer", "KubernetesPods", "Naming", "Pace", "PodClaim", "Selection", "SourceHealth"]

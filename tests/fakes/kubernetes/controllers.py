"""What controllers of a real cluster would do, for a test to do: the server itself runs none."""

from __future__ import annotations

from .server import KubernetesServer


def end_namespaces(server: KubernetesServer) -> list[str]:
    """Ends each namespace that is terminating as its controller does: all that is in it goes, then it. Their names."""
    ended = []
    for namespace in server.objects("Namespace"):
        name = namespace["metadata"]["name"]
        if "deletionTimestamp" not in namespace["metadata"]:
            continue
        for kind in [kind for kind in server.registry if kind.namespaced]:
            for one in server.objects(kind.qualified):
                if one["metadata"]["namespace"] == name:
                    server.delete(kind.qualified, name, one["metadata"]["name"])
        server.delete("Namespace", "", name)
        ended.append(name)
    return ended

"""A Kubernetes API server for tests: it answers as a recorded real one (1.36) does, changes while it serves, and fails.

    with KubernetesServer() as server:              # http; tls=(certificate, key) for https; a free port
        server.put(pod("train-0", gpus=2))          # creates or replaces; any installed kind; ADDED or MODIFIED
        server.patch("Pod", "ml", "train-0", {"status": {"phase": "Succeeded"}})       # merge patch of any part
        server.delete("Pod", "ml", "train-0")       # gone at once: DELETED
        server.url, server.token                    # http://127.0.0.1:PORT, and the token of one who may do all

Objects: `put`, `patch`, `delete`, `get`, `objects(kind)`, `revision`; `reset()` takes all away. Kinds are named "Pod",
or "Job.batch" where two groups have one of that name. Writes of clients over HTTP are checked and defaulted as by a
real server, and need their namespace (`namespaces=`: "default", "kube-system", "ml"); those of the Python API are kept
as they are. No controller, scheduler or garbage collector runs: what they would do a test does.

Kinds from the start: BUILTIN in `kinds`, checked against Kubernetes' published schemas: unknown fields, types, what is
missing. `install("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs")` adds one (`schema=` as its definition has it), and
`uninstall("PyTorchJob")` takes it away; a group without kinds is a 404 in plain text, as one that never was.

A real kubectl works with it: `kubectl.serving` and `kubectl.Kubectl`. It applies, compares, tries, deletes and gets;
what speaks protobuf alone (`kubectl create job`, `auth can-i`) is not served. Deleted namespaces stay, terminating,
until `controllers.end_namespaces`. Admission: Mutating- and ValidatingAdmissionPolicies that are bound, on what is
created over HTTP; the Pod Security Standards as a namespace's labels enforce and warn.

Builders: `pod`, `container`, `node`, `workload` (any owner), `owner` (a reference to an object, for `owners=`),
`claim` (a ResourceClaim; a pod names it with `claims=`).

Users: `add_user(name, token, Rule(verbs, resources, groups, namespaces), ...)`, `remove_user(token)`. Without a token
anonymous (403), with an unknown one 401; `anonymous=False` makes both 401.

Watches: history is bounded (`history=` changes a kind); `compact()` forgets it, so that watches from before get 410,
and so do continue tokens. Bookmarks come each minute and near the end of timeoutSeconds. Time is the machine's;
`clock=Clock(pace=0.1)` makes every second of the API a tenth, `clock=ManualClock()` moves only with `advance(s)`.
`watching` is how many watches are open.

Faults, switched on and off while it serves; each a context manager that counts (`fault.count`, `fault.remove()`):
    server.inject("error", code=500)        # 403; 429 with retry_after=2: plain text as of real flow control, or
                                            # plain=False for a Status
    server.inject("close" | "hang" | "drip" | "garbage" | "long" | "raw", path="/pods$", verb="list", times=3)
    server.inject("end" | "cut" | "half-line" | "silent" | "expire" | "garbage-line" | "long-line", after=10)
The second line is for whole requests, the last for watches that run, once `after` lines were sent; see Fault. `heal()`
ends them all. `stop()` and `start()`: connections are refused meanwhile; port and objects stay.
`start(forbidden_for=0.35)` answers 403 to everybody for so long, as a real server does before it has read its rules.

`requests` are the last 10,000: method, path, query, verb ("list", "watch", ...), user.
"""

from .access import ALL, Rule, User
from .builders import claim, container, node, owner, pod, workload
from .clock import Clock, ManualClock
from .faults import Fault
from .kinds import BUILTIN, Kind
from .server import KubernetesServer, Request

__all__ = [
    "ALL",
    "BUILTIN",
    "Clock",
    "Fault",
    "Kind",
    "KubernetesServer",
    "ManualClock",
    "Request",
    "Rule",
    "User",
    "claim",
    "container",
    "node",
    "owner",
    "pod",
    "workload",
]

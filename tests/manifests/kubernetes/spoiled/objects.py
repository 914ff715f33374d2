"""Objects as such: names, labels, data, what they refer to, and who may do what."""

from __future__ import annotations

from ..checks import identity, references, roles
from .spoiling import ALERTER, CONTAINER, DAEMONS, POD, Spoiled, drop, every, find, gone, more, new, put

LONG = "a" * 64
_SECRET = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "a"}}}
_SUBJECT = "ClusterRoleBinding dutycycle-alerter"
_ROLE = "ClusterRole dutycycle-alerter"
_CONFIG = "ConfigMap dutycycle-alerter"


def _twice(objects: list[dict[str, object]]) -> None:
    objects.append(find(objects, DAEMONS))


ROWS = (
    Spoiled("no kind", identity.said, drop(DAEMONS, "kind"), "kind is missing"),
    Spoiled("no version", identity.said, put(DAEMONS, "apiVersion", ""), "apiVersion is missing"),
    Spoiled("no name", identity.said, drop(DAEMONS, "metadata name"), "metadata.name is missing"),
    Spoiled("an object twice", identity.unique, _twice, "is there 2 times"),
    Spoiled("a capital in a name", identity.names, put(DAEMONS, "metadata name", "Exporter"), "cannot be 'Exporter'"),
    Spoiled("a name that ends with a dash", identity.names, put(ALERTER, "metadata name", "a-"), "cannot be 'a-'"),
    Spoiled("a name without room for pods'", identity.names, put(ALERTER, "metadata name", LONG[:53]), "too long"),
    Spoiled(
        "a Service's name with a dot", identity.names, put("Service dutycycle-alerter", "metadata name", "a.b"), "'a.b'"
    ),
    Spoiled(
        "a Service's name with a digit", identity.names, put("Service dutycycle-alerter", "metadata name", "1a"), "'1a'"
    ),
    Spoiled(
        "a namespace's name with a dot", identity.names, put("Namespace dutycycle", "metadata name", "a.b"), "'a.b'"
    ),
    Spoiled("a role's name with a slash", identity.names, put(_ROLE, "metadata name", "a/b"), "'a/b'"),
    Spoiled("no namespace", identity.namespaces, drop(ALERTER, "metadata namespace"), "namespace is missing"),
    Spoiled(
        "a namespace that there is not", identity.namespaces, put(ALERTER, "metadata namespace", "x"), "no namespace x"
    ),
    Spoiled(
        "a namespace of what is in none", identity.namespaces, put(_ROLE, "metadata namespace", "dutycycle"), "in none"
    ),
    Spoiled("a label's name", identity.labels, put(ALERTER, "metadata labels a&b", "c"), "'a&b': not a label's name"),
    Spoiled("a label's domain", identity.labels, put(ALERTER, "metadata labels A_b/c", "c"), "'A_b/c'"),
    Spoiled("a label's name that is too long", identity.labels, put(ALERTER, f"metadata labels {LONG}", "c"), LONG),
    Spoiled("a label's value", identity.labels, put(ALERTER, "metadata labels a", "c d"), "'c d' is not"),
    Spoiled("a label's value that is too long", identity.labels, put(ALERTER, "metadata labels a", LONG), LONG),
    Spoiled("a label that is a truth", identity.labels, put(ALERTER, "metadata labels a", True), "True is not"),
    Spoiled("a template's label", identity.labels, put(DAEMONS, "spec template metadata labels a", "-"), "'-' is not"),
    Spoiled("an annotation's name", identity.annotations, put(ALERTER, "metadata annotations a&b", "c"), "'a&b'"),
    Spoiled(
        "an annotation that is a number", identity.annotations, put(ALERTER, "metadata annotations a", 1), "1 is not a"
    ),
    Spoiled(
        "an annotation without end",
        identity.annotations,
        put(ALERTER, "metadata annotations a", "x" * 2**18),
        "too long",
    ),
    Spoiled(
        "what kubectl keeps",
        identity.annotations,
        put(ALERTER, "metadata annotations kubectl.kubernetes.io/last-applied-configuration", "{}"),
        "kubectl's own",
    ),
    Spoiled(
        "a key with nothing after it", identity.nothing_is_null, put(DAEMONS, f"{POD} tolerations", None), "is null"
    ),
    Spoiled("an empty entry of a list", identity.nothing_is_null, more(DAEMONS, f"{POD} tolerations", None), "is null"),
    Spoiled("a key with a slash", identity.keys_of_data, put(_CONFIG, "data a/b", ""), "'a/b' cannot be a key"),
    Spoiled("a ConfigMap without end", identity.keys_of_data, put(_CONFIG, "data a", "x" * 2**20), "more than 1 MiB"),
    # References.
    Spoiled(
        "an account that there is not",
        references.of_pods,
        put(ALERTER, f"{POD} serviceAccountName", "x"),
        "ServiceAccount x",
    ),
    Spoiled(
        "a ConfigMap that there is not",
        references.of_pods,
        put(ALERTER, f"{POD} volumes 0 configMap name", "x"),
        "ConfigMap x",
    ),
    Spoiled(
        "an own Secret that is not optional",
        references.of_pods,
        drop(ALERTER, f"{POD} volumes 1 secret optional"),
        "no Secret",
    ),
    Spoiled("a variable of a Secret", references.of_pods, more(ALERTER, f"{CONTAINER} env", _SECRET), "no Secret keys"),
    Spoiled(
        "variables of a ConfigMap",
        references.of_pods,
        more(ALERTER, f"{CONTAINER} envFrom", {"configMapRef": {"name": "x"}}),
        "no ConfigMap x",
    ),
    Spoiled(
        "a key that there is not",
        references.of_pods,
        put(ALERTER, f"{POD} volumes 0 configMap items", [{"key": "config.yml", "path": "a"}]),
        "has no key config.yml",
    ),
    Spoiled(
        "a projected Secret",
        references.of_pods,
        more(ALERTER, f"{POD} volumes", {"name": "p", "projected": {"sources": [{"secret": {"name": "x"}}]}}),
        "no Secret x",
    ),
    Spoiled(
        "a claim that is gone",
        references.of_pods,
        gone("PersistentVolumeClaim dutycycle-alerter"),
        "no PersistentVolumeClaim",
    ),
    Spoiled(
        "a priority that there is not",
        references.of_pods,
        put(DAEMONS, f"{POD} priorityClassName", "x"),
        "PriorityClass x",
    ),
    Spoiled(
        "a runtime that there is not",
        references.of_pods,
        put(DAEMONS, f"{POD} runtimeClassName", "x"),
        "RuntimeClass x",
    ),
    Spoiled(
        "a claim that nobody may mount",
        references.of_claims,
        put("PersistentVolumeClaim dutycycle-alerter", "spec accessModes", []),
        "accessModes is empty",
    ),
    Spoiled(
        "a priority of Kubernetes' own",
        references.of_claims,
        put("PriorityClass dutycycle-exporter", "metadata name", "system-gpu"),
        "Kubernetes' own",
    ),
    Spoiled(
        "a priority over the system's",
        references.of_claims,
        put("PriorityClass dutycycle-exporter", "value", 2 * 10**9),
        "out of range",
    ),
    Spoiled("an account that nobody has", references.unused, new("ServiceAccount", "x"), "nothing uses it"),
    Spoiled("a ConfigMap that nobody reads", references.unused, new("ConfigMap", "x", data={}), "nothing uses it"),
    Spoiled("a claim that nobody mounts", references.unused, drop(ALERTER, f"{POD} volumes 2"), "nothing uses it"),
    Spoiled(
        "a priority that nobody has", references.unused, drop(DAEMONS, f"{POD} priorityClassName"), "nothing uses it"
    ),
    # Roles.
    Spoiled("a role without rules", roles.rules, put(_ROLE, "rules", []), "rules are empty"),
    Spoiled("a rule without verbs", roles.rules, put(_ROLE, "rules 0 verbs", []), "no verbs"),
    Spoiled("a rule without resources", roles.rules, drop(_ROLE, "rules 0 resources"), "are needed"),
    Spoiled("a rule about both", roles.rules, put(_ROLE, "rules 0 nonResourceURLs", ["/metrics"]), "stand alone"),
    Spoiled("a rule about everything", roles.rules, put(_ROLE, "rules 0 resources", ["*"]), "everything"),
    Spoiled("a rule that says it twice", roles.rules, more(_ROLE, "rules 0 verbs", "get"), "has one twice"),
    Spoiled("a verb that there is not", roles.rules, put(_ROLE, "rules 0 verbs", ["read"]), "no verb read"),
    Spoiled("a binding to no role", roles.bindings, put(_SUBJECT, "roleRef name", "x"), "no ClusterRole x"),
    Spoiled("a binding of no group", roles.bindings, put(_SUBJECT, "roleRef apiGroup", ""), "roleRef.apiGroup"),
    Spoiled(
        "a binding of all to one namespace's", roles.bindings, put(_SUBJECT, "roleRef kind", "Role"), "to a ClusterRole"
    ),
    Spoiled("a binding of nobody", roles.subjects, put(_SUBJECT, "subjects", []), "subjects are empty"),
    Spoiled(
        "a binding of another namespace",
        roles.subjects,
        put(_SUBJECT, "subjects 0 namespace", "x"),
        "no ServiceAccount x/",
    ),
    Spoiled(
        "a binding of no namespace",
        roles.subjects,
        drop(_SUBJECT, "subjects 0 namespace"),
        "namespace of ServiceAccount",
    ),
    Spoiled(
        "a binding of an account's group", roles.subjects, put(_SUBJECT, "subjects 0 apiGroup", "x"), "of no apiGroup"
    ),
    Spoiled("a binding of a user", roles.subjects, put(_SUBJECT, "subjects 0 kind", "User"), "apiGroup of User"),
    Spoiled(
        "a constraint's user",
        roles.subjects,
        put("SecurityContextConstraints dutycycle-exporter", "users", ["system:serviceaccount:dutycycle:x"]),
        "users: there is no",
    ),
    Spoiled("a role that nobody has", roles.unused, every(gone(_SUBJECT)), "nobody has it"),
    Spoiled(
        "a namespace's role that nobody has", roles.unused, gone("RoleBinding dutycycle-exporter-scc"), "nobody has it"
    ),
)

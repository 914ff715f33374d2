"""Which pods hold devices, from one answer of the kubelet and of the API server to the next. Pure; monotonic seconds.

The kubelet says what is held, by the pod's name alone; the API server says which pod of that name it is and whether it
is over. Either may be away, and neither's silence ends an allocation:

- A pod that the kubelet does not list ends with the second answer in a row that lacks it; but not while it has
  processes in its cgroup and the API server does not say that it is over: a kubelet that was started while its API
  server is away lists static pods only.
- An answer without any pod tells nothing. It is that of a kubelet that is starting: every node has pods, with a GPU or
  not, and the exporter's own is one of them.
- While the kubelet does not answer, a pod ends when the API server says that it is over, or lacks it twice.
- Of a pod that the API server has said nothing of, a cgroup that was there and has gone is the end, though the kubelet
  goes on listing the pod, as older ones do; and so is another pod's process, where only its own belong.
- When neither has answered for `stale` seconds, those that have processes in their cgroups are claimed. Of others
  nothing is known.

A workload's id and names are settled once and stay as long as the pod does: `k8s/<namespace>/<pod>/<uid>`, the uid from
the API server, else from the links beside its containers' logs, else from the cgroups of the processes on its devices,
where these are of one pod and of no other holder's, once the kubelet has listed the pod since they came. Where nothing
tells within `patience` seconds the last part stays empty. A pod that was seen to begin and none of whose containers has
been started, as far as links tell, has `start_up` seconds instead: its images are being fetched. It must not be called
by one id now and by another once the exporter is restarted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from dutycycle_exporter.model import GpuReading, Workload

from .answers import Answers, Name
from .claim import PodClaim
from .devices import DeviceTable, Held, Key, Selection
from .holder import Holder
from .messages import PodResources
from .pod_cgroups import PodCgroups, PodGroups
from .records import PodRecord, is_pod_name
from .sightings import Sightings
from .strangers import Strangers

APART = 2.0
"""Least time between the two answers of the kubelet that end a pod: one that is starting lists none for a second."""
_AWAY = 30.0
"""A kubelet that has not answered for so long leaves the word to the API server, and is not waited for."""


class Holders:
    """Not thread-safe. With `api` there is an API server to wait for."""

    def __init__(
        self,
        selection: Selection,
        *,
        api: bool,
        patience: float = 15.0,
        start_up: float = 300.0,
        stale: float = 600.0,
        groups: PodGroups | None = None,
    ) -> None:
        self.selection = selection
        self._api = api
        self._cgroups = PodCgroups(groups)
        self._patience, self._start_up = patience, start_up
        self._stale = stale
        self._holders: dict[Name, Holder] = {}
        self._strangers = Strangers(patience, api=api)
        self._sightings = Sightings()
        self._table = DeviceTable()
        self._answers = Answers()
        self._begun = False
        self._clock_offset: float | None = None

    def listed(self, pods: Sequence[PodResources], asked: float, now: float, wall: float) -> Mapping[str, int]:
        """The kubelet's answer, which it was asked for at `asked`; `wall` is the Unix time. Returns how many pods could
        not be used, by reason.
        """
        self._clock_offset = wall - now
        if not pods:
            return {}
        found: dict[Name, Held] = {}
        failures: Counter[str] = Counter()
        for pod in pods:
            held = self.selection.of(pod)
            if held and is_pod_name(pod.namespace) and is_pod_name(pod.name):
                found[pod.namespace, pod.name] = held | found.get((pod.namespace, pod.name), Held())
            elif held:
                failures["bad_name"] += 1
        for name, held in found.items():
            holder = self._holders.get(name)
            if holder is None or (holder.over and holder.returned):
                # Pods of the first answer that has any began nobody knows when.
                self._holders[name] = Holder(held, now, wall if self._begun else None, listed=asked)
            else:
                if holder.missing is not None:
                    # It may be another pod of that name.
                    holder.doubted = now
                holder.held, holder.missing, holder.unrecorded = held, None, 0
                holder.listed = asked
        for name in self._holders.keys() - found.keys():
            holder = self._holders[name]
            holder.returned = True
            if holder.missing is None:
                holder.missing = holder.doubted = now
            elif now - holder.missing >= APART and not self._lives(holder):
                del self._holders[name]
        self._begun = True
        self._answers.listed = asked
        return failures

    def named(self, uids: Mapping[Name, Collection[str]], now: float) -> None:
        """The uids that pods of each name have or had, as far as containers of them have been started.

        It is that of the only one whose cgroup is there.
        """
        for name, holder in list(self._holders.items()):
            holder.starting = name not in uids
            there = [uid for uid in uids.get(name, ()) if self._cgroups.there(uid)]
            if holder.record is not None or len(there) != 1 or holder.uid == there[0]:
                continue
            if not holder.uid:
                [holder.uid] = there
            elif not self._cgroups.there(holder.uid):
                self._holders[name] = successor = holder.successor(now, self._clock_offset)
                [successor.uid] = there

    def unnamed(self) -> bool:
        """Whether there is a pod of which links may tell more: one without a uid, or with that of one before it."""
        return any(
            holder.record is None and not (holder.uid and self._cgroups.there(holder.uid))
            for holder in self._holders.values()
        )

    def unsettled(self) -> bool:
        """Whether pods that were there before the exporter are still to be named, or to be told of at all."""
        return not self._begun or any(
            holder.workload is None and not holder.over and holder.start is None for holder in self._holders.values()
        )

    def recorded(self, records: Iterable[PodRecord], asked: float) -> None:
        """The API server's answer to what was asked at `asked`."""
        by_uid = {record.uid: record for record in records}
        by_name = {(record.namespace, record.name): record for record in by_uid.values()}
        self._answers = Answers(self._answers.listed, asked, by_uid, by_name)
        away = self._away(asked)
        for name, holder in list(self._holders.items()):
            # An answer that is older than what the kubelet says may tell of an earlier pod of that name.
            if name in by_name and asked >= holder.seen:
                holder.identify(by_name[name])
            if away and name not in by_name:
                holder.unrecorded += 1
                if holder.unrecorded > 1:
                    del self._holders[name]

    def claims(
        self,
        gpus: Sequence[GpuReading],
        processes: Mapping[Key, Collection[str]],
        pools: Mapping[tuple[str, str], str],
        now: float,
        inner: Collection[str] = (),
    ) -> tuple[tuple[PodClaim, ...], int]:
        """What is held now, sorted, and how many names of devices mean none of the node's.

        `processes` are the uids of the pods whose processes are on each device, `inner` those of them that lie in
        another pod: a cluster's that runs in it. `pools` is as for DeviceTable.claim.
        """
        self._table = DeviceTable.of(gpus, self._table)
        self._strangers.forget(now)
        silent = self._answers.silence(now) > self._stale
        claims: list[PodClaim] = []
        unknown = 0
        devices: dict[Name, Mapping[Key, tuple[str, ...]]] = {}
        for name, holder in self._holders.items():
            devices[name], meaningless = self._table.of_pod(holder.held, pools)
            unknown += meaningless
        self._learn(devices, processes, inner, now)
        self._end_by_cgroup(now)
        for name, holder in self._holders.items():
            self._settle(name, holder, now)
        given_on = self._given_on()
        for name, holder in self._holders.items():
            if holder.workload is not None and not holder.over and not (silent and not self._lives(holder)):
                slurm = holder.record is not None and holder.record.slurm
                found = devices[name]
                if holder.missing is not None:
                    kept = frozenset(one for one in holder.held.ids if one[1] not in given_on)
                    found, _ = self._table.of_pod(Held(kept, holder.held.claims), pools)
                claims += [
                    PodClaim(key, holder.workload, holder.start, containers, holder.uid, slurm)
                    for key, containers in found.items()
                ]
        return tuple(sorted(claims, key=lambda claim: (claim.device, claim.workload.id))), unknown

    def _given_on(self) -> Collection[str]:
        """Return the names of devices of the pods that the kubelet listed last and that are known.

        It gives a name to one pod at a time: a pod that it no longer lists has given that device up.
        """
        holders = self._holders.values()
        present = (one for one in holders if one.workload is not None and not one.over and one.missing is None)
        return {device for holder in present for _, device in holder.held.ids}

    def workload_of(self, uid: str, now: float) -> Workload | None:
        """The workload of a pod by its cgroup's uid; None while that is not settled. Ask after `claims`."""
        for holder in self._holders.values():
            if holder.uid == uid:
                return holder.workload
        nameless = any(not holder.uid for holder in self._holders.values())
        return self._strangers.workload_of(uid, now, self._answers, nameless=nameless)

    def labels(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """The labels that are let through, by workload."""
        return {
            holder.workload.id: holder.record.labels
            for holder in self._holders.values()
            if holder.workload is not None and holder.record is not None and holder.record.labels
        }

    def unrecorded(self) -> float | None:
        """Since when, at the latest, the API server has something to tell that it has not yet; None for nothing."""
        holders = self._holders.values()
        nameless = [holder.seen for holder in holders if holder.record is None and not holder.over]
        doubted = [at for holder in holders if (at := holder.doubted) is not None and self._answers.asked_before(at)]
        return max((*nameless, *doubted, *self._strangers.unrecorded(self._answers)), default=None)

    def doubtful(self, now: float) -> bool:
        """Whether the end of a pod, or that another has taken its name, may be the API server's alone to tell."""
        return bool(self._holders) and (
            self._away(now)
            or any(holder.missing is not None or holder.gone or holder.over for holder in self._holders.values())
        )

    def asks(self) -> bool:
        """Whether the kubelet's next answer may tell whose a process is. Ask after `claims`."""
        return any(holder.awaits is not None for holder in self._holders.values())

    def unpublished(self) -> bool:
        """Whether any claim needs what a DRA driver publishes."""
        return any(holder.held.claims for holder in self._holders.values())

    def __len__(self) -> int:
        return len(self._holders)

    def _away(self, now: float) -> bool:
        return self._answers.listed is None or now - self._answers.listed > _AWAY

    def _lives(self, holder: Holder) -> bool:
        """Whether a pod that the kubelet lacks has processes all the same, and the API server has not told of its end
        since.
        """
        asked, missing = self._answers.recorded, holder.missing
        if asked is not None and missing is not None and asked > missing:
            record = self._answers.records.get(holder.uid)
            if record is None or record.over:
                return False
        return self._cgroups.live(holder.uid)

    def _learn(
        self,
        devices: Mapping[Name, Mapping[Key, object]],
        processes: Mapping[Key, Collection[str]],
        inner: Collection[str],
        now: float,
    ) -> None:
        """Finds the uid of a pod that is the only one without, among the uids that are nobody's, on its devices.

        Those of pods in other pods are not among these: the node's kubelet does not know them.
        So it is done where a pod may have taken another's name: the uid was that of processes, of which none is left.
        But only once the kubelet was asked, and listed the name, after the first process of the uid was seen: until
        then that may be of a pod which it has not listed yet, and which has the device of one that is over.
        """
        known = {holder.uid for holder in self._holders.values()}.union(self._answers.records, inner)
        self._sightings.saw({uid for uids in processes.values() for uid in uids} - known, now)
        present = {name: {uid for key in keys for uid in processes.get(key, ())} for name, keys in devices.items()}
        lacking = [name for name, holder in self._holders.items() if self._lacks_uid(holder, present[name])]
        may_be = {name: present[name] - known for name in lacking}
        for holder in self._holders.values():
            holder.awaits = None
        for name, uids in may_be.items():
            # One that the kubelet lacks may be over: what comes is not its own.
            rivals = [other for other in lacking if other != name and self._holders[other].missing is None]
            if len(uids) != 1 or any(uids & may_be[other] for other in rivals):
                continue
            [uid], holder = uids, self._holders[name]
            if holder.listed <= self._sightings.first(uid):
                holder.awaits = self._sightings.first(uid)
                continue
            if holder.uid:
                holder = self._holders[name] = holder.successor(now, self._clock_offset)
            holder.uid = uid

    def _lacks_uid(self, holder: Holder, present: Collection[str]) -> bool:
        if holder.record is not None or not holder.uid:
            return not holder.uid and not holder.over
        return holder.uid not in present and not self._cgroups.there(holder.uid)

    def _end_by_cgroup(self, now: float) -> None:
        """Ends pods whose cgroup has gone, where nobody else may tell of their end; else the API server is to."""
        self._cgroups.forget_but({holder.uid for holder in self._holders.values()})
        for name, holder in list(self._holders.items()):
            before = holder.gone
            holder.gone = bool(holder.uid) and not holder.over and self._cgroups.gone(holder.uid, now)
            if holder.gone and holder.record is not None and holder.missing is None and not before:
                holder.doubted = now
            if holder.gone and holder.record is None:
                holder.over = True
                if holder.returned and holder.missing is None:
                    self._holders[name] = holder.successor(now, self._clock_offset)

    def _settle(self, name: Name, holder: Holder, now: float) -> None:
        if holder.workload is not None or holder.over:
            return
        if holder.awaits is not None and now - holder.awaits < _AWAY:
            return
        patience = self._start_up if holder.begins and not self._api else self._patience
        if holder.record is not None or now - holder.seen >= patience or (holder.uid and not self._api):
            holder.settle(name)

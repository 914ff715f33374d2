"""An engine's answers about a fleet, made beforehand and served over HTTP by a process of their own."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from benchmarks.cluster.fleet import IDLE_POWER, MEMORY, MODEL, POWER_LIMIT, Fleet, Gpu, Job
from dutycycle_alerter.model import LOW_SAMPLE
from dutycycle_alerter.settings import Settings
from dutycycle_alerter.sources.prometheus import queries, selectors
from dutycycle_alerter.sources.prometheus.selectors import Query

_SPAN = re.compile(r"\[(\d+)ms:(\d+)ms\]")
_EMPTY = {"gone", "missing", "twice", "xid", "recovery_action", "remap_failed", "gap_30to600", "gap_ge600"}


class Answers:
    """The body for each query of a pass. Those that hold for any time are made once, gzipped as an engine does it."""

    def __init__(self, fleet: Fleet, settings: Settings, at: float) -> None:
        self._fleet = fleet
        self._at = at
        self._written: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        self._sizes = Counter(job for _, job in fleet.held)
        self._packed: dict[str, bytes] = {}
        self._spans: dict[str, Query] = {}
        self._seen_at = ""
        for query in (*queries.identity(settings, back=60.0), *queries.evidence(settings)):
            text = query.text if query.window else _timeless(query)
            if query.name == "seen_at":
                self._seen_at = text
                continue
            body = self._body(query, at)
            self._packed[text] = gzip.compress(body, compresslevel=1)
        for query in queries.accounts(settings, span=60.0):
            self._spans[_timeless(query)] = query

    def of(self, query: str, at: float) -> bytes | None:
        """Gzipped JSON; None for a query that no pass asks."""
        timeless = re.sub(r"\d+ms", "*", query)
        known = self._packed.get(query) or self._packed.get(timeless)
        if known is not None:
            return known
        if timeless == self._seen_at:
            return gzip.compress(_vector(self._metrics("nodes", ("node",)), [at] * len(self._fleet.nodes), at))
        usage = self._spans.get(timeless)
        if usage is None:
            return None
        if usage.labels == selectors.OWNER:
            return gzip.compress(self._body(usage, at), compresslevel=1)
        [(span, step)] = _SPAN.findall(query)
        times = range(int(at - int(span) / 1000) + 1, int(at) + 1)
        due = [t for t in times if t % (int(step) // 1000) == 0]
        return gzip.compress(self._usage(usage, due), compresslevel=1)

    def _body(self, query: Query, at: float) -> bytes:
        name, of, seconds = query.name, query.labels, query.window or 1.0
        if name in _EMPTY or name == "held_lately":
            return _vector([], [], at)
        if name in {"idle_power", "memory_baseline"}:
            return _vector([f'{{"model":"{MODEL}"}}'], [IDLE_POWER if name == "idle_power" else MEMORY * 0.005], at)
        if name == "scales":
            return _vector(['{"scale":"1"}'], [float(len(self._fleet.nodes))], at)
        if name == "replays":
            return _vector(["{}"], [0.0], at)
        if name == "owner" or of == selectors.JOB:
            values = [self._of_job(name, job) for job in self._fleet.jobs]
            return _vector(self._metrics("jobs", of), values, at)
        if of == ("node",):
            value = {"answers": 3.0, "scrapes": 20.0}.get(name, 8.0)
            return _vector(self._metrics("nodes", of), [value] * len(self._fleet.nodes), at)
        if of == selectors.HOST:
            values = [_of_host(name, job) * seconds for _, job in self._fleet.hosts]
            return _vector(self._metrics("hosts", of), values, at)
        if name.startswith("free"):
            return _vector(self._metrics("free", of), [1.0] * len(self._fleet.free), at)
        if of == selectors.DEVICE:
            known = {"memory_total": MEMORY, "power_limit": POWER_LIMIT, "link_bytes": 1e9 * seconds}
            return _vector(self._metrics("gpus", of), [known.get(name, 0.1)] * len(self._fleet.gpus), at)
        values = [_of_key(name, gpu, job) * seconds for gpu, job in self._fleet.held]
        return _vector(self._metrics("held", of), values, at)

    def _of_job(self, name: str, job: Job) -> float:
        started = self._at - 3 * 3600
        return {"start": started, "first_process": started + 20, "owner": 1.0}.get(name, float(self._sizes[job]))

    def _usage(self, query: Query, times: list[int]) -> bytes:
        def samples(gpu: Gpu) -> str:
            rate = {"busy": gpu.utilization, "energy": gpu.power}.get(query.name, 1.0)
            return ",".join([f'[{t},"{rate * (t - self._at + 10_800)!r}"]' for t in times])

        pairs = zip(self._metrics("held", query.labels), self._fleet.held, strict=True)
        return _answer("matrix", [f'{{"metric":{metric},"values":[{samples(gpu)}]}}' for metric, (gpu, _) in pairs])

    def _metrics(self, group: str, labels: tuple[str, ...]) -> list[str]:
        """Each row's labels as JSON, made once."""
        found = self._written.get((group, labels))
        if found is None:
            # An engine writes the labels sorted, and leaves out those that are empty.
            rows = self._labels(group)
            found = [
                json.dumps({n: row[n] for n in sorted(labels) if row.get(n)}, separators=(",", ":")) for row in rows
            ]
            self._written[group, labels] = found
        return found

    def _labels(self, group: str) -> Iterator[dict[str, str]]:
        fleet = self._fleet
        match group:
            case "held":
                return ({**gpu.device, **job.owner, "model": MODEL} for gpu, job in fleet.held)
            case "jobs":
                return (job.owner for job in fleet.jobs)
            case "nodes":
                return ({"node": node} for node in fleet.nodes)
            case "hosts":
                return ({"node": node, **job.owner} for node, job in fleet.hosts)
        return ({**gpu.device, "model": MODEL} for gpu in (fleet.free if group == "free" else fleet.gpus))


def _of_key(name: str, gpu: Gpu, job: Job) -> float:
    """A second's worth of it."""
    busy = gpu.utilization
    gaps = (1 - busy) * 0.8 if job.kind == "stalled" else 0.0
    low = 1.0 if busy <= LOW_SAMPLE else gaps
    known = {"observed": 1.0, "busy": busy, "energy": gpu.power, "gap_lt2": gaps, "gap_2to30": gaps / 10, "low": low}
    return known.get(name, 0.4 * busy)


def _of_host(name: str, job: Job) -> float:
    cores = 15.5 if job.kind == "stalled" else 6.0
    return {"cpu_limit": 16.0, "cpu_seconds": cores}.get(name, 0.01)


def _timeless(query: Query) -> str:
    return re.sub(r"\d+ms", "*", query.text)


def _vector(metrics: list[str], values: list[float], at: float) -> bytes:
    pairs = zip(metrics, values, strict=True)
    return _answer("vector", [f'{{"metric":{metric},"value":[{at:.3f},"{value!r}"]}}' for metric, value in pairs])


def _answer(kind: str, parts: list[str]) -> bytes:
    return f'{{"status":"success","data":{{"resultType":"{kind}","result":[{",".join(parts)}]}}}}'.encode()


def serve(gpus: int, settings: Settings, at: float, ready: Callable[[int], None]) -> None:
    """Answers until the process ends. `ready` is told the port."""
    answers = Answers(Fleet(gpus), settings, at)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            body = answers.of(form["query"][0], float(form["time"][0]))
            unknown = json.dumps({"status": "error", "errorType": "bad_data", "error": "not a query of a pass"})
            self.send_response(200 if body else 400)
            self.send_header("Content-Type", "application/json")
            if body:
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body or unknown)))
            self.end_headers()
            self.wfile.write(body or unknown.encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        ready(listening.server_port)
        listening.serve_forever()

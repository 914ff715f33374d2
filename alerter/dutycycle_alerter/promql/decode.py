"""Decodes an engine's JSON straight into columns: of a hundred thousand series no dictionary is ever made.

Most queries of a pass are answered with the same series in the same order. What tells them apart is decoded once and
recognised from then on.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from functools import lru_cache
from hashlib import blake2b
from threading import Lock
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, Raw, Struct, UnsetType
from numpy.typing import NDArray

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.printable import printable
from dutycycle_alerter.promql.answers import Keys, Matrix, Vector

_MOST_WARNINGS = 10
_MESSAGE = 300
_MOST_KEYS = 2**21
_FEW_TEXTS = 10_000
_BROKEN = (msgspec.MsgspecError, ValueError, RecursionError)


class _Sample(Struct, frozen=True, gc=False):
    metric: Raw
    value: tuple[float, str] | UnsetType = UNSET
    histogram: Raw | UnsetType = UNSET


class _Series(Struct, frozen=True, gc=False):
    metric: Raw
    values: list[tuple[float, str]] | UnsetType = UNSET
    histograms: Raw | UnsetType = UNSET


class _Samples(Struct, frozen=True, gc=False):
    resultType: str  # noqa: N815 - the API's name
    result: list[_Sample]


class _Ranges(Struct, frozen=True, gc=False):
    resultType: str  # noqa: N815
    result: list[_Series]


class _Answer(Struct, frozen=True, gc=False):
    status: str
    error: str = ""
    warnings: list[str] | None = None
    infos: list[str] | None = None
    isPartial: bool = False  # noqa: N815 - VictoriaMetrics' name


class _VectorAnswer(_Answer, frozen=True, gc=False):
    data: _Samples | None = None


class _MatrixAnswer(_Answer, frozen=True, gc=False):
    data: _Ranges | None = None


class _Kind(Struct, frozen=True, gc=False):
    resultType: str  # noqa: N815


class _Unlike(Struct, frozen=True, gc=False):
    data: _Kind


class Failure(Struct, frozen=True, gc=False):
    """What an engine answers where it has no result."""

    errorType: str = ""  # noqa: N815 - the API's name
    error: str = ""


_VECTOR = msgspec.json.Decoder(_VectorAnswer)
_MATRIX = msgspec.json.Decoder(_MatrixAnswer)
_UNLIKE = msgspec.json.Decoder(_Unlike)
_FAILURE = msgspec.json.Decoder(Failure)


class KnownSeries:
    """The series of earlier answers, so that the same ones are not decoded again. Safe to use from several threads.

    A text is one object however often it comes. Whoever asks the same again and again tells by `turn` when a round is
    over: what two rounds did not ask for is let go, as with every job that comes or goes each answer is another one.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._keys: OrderedDict[tuple[tuple[str, ...], bytes], Keys] = OrderedDict()
        """The one that was asked for last is the last."""
        self._size = 0
        self._texts: dict[str, str] = {}
        self._asked: set[tuple[tuple[str, ...], bytes]] = set()
        self._asked_before: set[tuple[tuple[str, ...], bytes]] = set()

    def turn(self) -> None:
        """A round of questions is over."""
        with self._lock:
            for seen in self._keys.keys() - self._asked - self._asked_before:
                self._size -= len(self._keys.pop(seen))
            self._asked, self._asked_before = set(), self._asked
            if len(self._texts) > max(_FEW_TEXTS, 2 * self._size):
                self._texts.clear()

    def of(self, metrics: list[Raw], labels: tuple[str, ...]) -> Keys:
        """The values of the labels for each series; the same list again for the same series. Raises what the decoder
        raises.
        """
        # One JSON object after the other: two lists of series never make the same bytes.
        seen = labels, blake2b(b"".join(metrics), digest_size=16).digest()
        with self._lock:
            self._asked.add(seen)
            known = self._keys.get(seen)
            if known is not None:
                self._keys.move_to_end(seen)
                return known
        decode = _labels_decoder(labels).decode
        with self._lock:
            if len(self._texts) > _MOST_KEYS:
                self._texts.clear()
        one = self._texts.setdefault
        keys = [tuple([one(text, text) for text in msgspec.structs.astuple(decode(metric))]) for metric in metrics]
        with self._lock:
            self._size += len(keys) - len(self._keys.pop(seen, ()))
            self._keys[seen] = keys
            while self._size > _MOST_KEYS and len(self._keys) > 1:
                oldest, gone = self._keys.popitem(last=False)
                self._size -= len(gone)
                self._asked.discard(oldest)
        return keys


def decode_failure(body: bytes) -> Failure | None:
    """The engine's explanation, its texts made harmless; None where the body is none."""
    try:
        failure = _FAILURE.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return Failure(printable(failure.errorType, _MESSAGE), printable(failure.error, _MESSAGE))


def decode_vector(body: bytes, labels: tuple[str, ...], known: KnownSeries) -> Vector:
    """The answer to an instant query. Raises SourceError."""
    try:
        answer = _VECTOR.decode(body)
    except _BROKEN as error:
        raise SourceError(_unlike(body, "vector", error)) from error
    data, warnings = answer.data, _warnings(answer)
    if data is None or data.resultType != "vector":
        raise SourceError(_other(data, "vector"))
    try:
        values = array("d", [float(sample.value[1]) for sample in data.result])  # type: ignore[index]  # or TypeError
        keys = known.of([sample.metric for sample in data.result], labels)
    except TypeError as error:
        odd = next(sample for sample in data.result if sample.value is UNSET)
        raise SourceError(_without("value", odd.histogram)) from error
    except _BROKEN as error:
        raise SourceError(_unreadable(error)) from error
    return Vector(keys, _column(values), warnings)


def decode_matrix(body: bytes, labels: tuple[str, ...], known: KnownSeries) -> Matrix:
    """The answer to a query of raw samples. Raises SourceError."""
    try:
        answer = _MATRIX.decode(body)
    except _BROKEN as error:
        raise SourceError(_unlike(body, "matrix", error)) from error
    data, warnings = answer.data, _warnings(answer)
    if data is None or data.resultType != "matrix":
        raise SourceError(_other(data, "matrix"))
    odd = next((one for one in data.result if one.values is UNSET or one.histograms is not UNSET), None)
    if odd is not None:
        raise SourceError(_without("values", odd.histograms))
    ranges: list[list[tuple[float, str]]] = [one.values for one in data.result]  # type: ignore[misc]  # none is UNSET
    samples = [sample for one in ranges for sample in one]
    offsets = np.zeros(len(ranges) + 1, dtype=np.int64)
    np.cumsum([len(one) for one in ranges], out=offsets[1:])
    try:
        times, values = array("d", [t for t, _ in samples]), array("d", [float(value) for _, value in samples])
        keys = known.of([one.metric for one in data.result], labels)
    except _BROKEN as error:
        raise SourceError(_unreadable(error)) from error
    return Matrix(keys, offsets, _column(times), _column(values), warnings)


def _column(numbers: array[float]) -> NDArray[np.float64]:
    return np.frombuffer(numbers, dtype=np.float64) if numbers else np.empty(0)


def _warnings(answer: _Answer) -> tuple[str, ...]:
    """What is said beside the result. Raises SourceError where there is none, or not all of it."""
    if answer.status != "success":
        explained = printable(answer.error, _MESSAGE) or "an error without explanation"
        raise SourceError(f"the engine answered: {explained}")
    if answer.isPartial:
        raise SourceError("the answer is partial: some storage node of the engine did not take part")
    # What is about the query alone says so; what is not may be about parts of the answer that are missing.
    said = sorted([*(answer.warnings or ()), *(answer.infos or ())], key=about_query)
    return tuple(printable(text, _MESSAGE) for text in said[:_MOST_WARNINGS])


def about_query(warning: str) -> bool:
    """Whether a warning is PromQL's own, and no storage's."""
    return warning.startswith("PromQL ")


@lru_cache(maxsize=256)
def _labels_decoder(labels: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Of one series: the labels asked for become fields, all others are skipped over."""
    names = {f"label{place}": label for place, label in enumerate(labels)}
    metric = msgspec.defstruct("Metric", [(field, str, "") for field in names], rename=names, frozen=True, gc=False)
    return msgspec.json.Decoder(metric)


def _unlike(body: bytes, kind: str, error: Exception) -> str:
    """Why an answer is not of this kind: it may be a sound one of another."""
    try:
        found = _UNLIKE.decode(body)
    except _BROKEN:
        return _unreadable(error)
    return _unreadable(error) if found.data.resultType == kind else _other(found.data, kind)


def _other(data: _Kind | _Samples | _Ranges | None, kind: str) -> str:
    return f"answered a {printable(data.resultType, 20)}, not a {kind}" if data else "answered without data"


def _without(value: str, histogram: object) -> str:
    if histogram is not UNSET:
        return "answered native histograms, which no query of ours asks for"
    return f"answered a series without {value}"


def _unreadable(error: Exception) -> str:
    return f"the answer is not that of a Prometheus API: {printable(str(error), _MESSAGE)}"

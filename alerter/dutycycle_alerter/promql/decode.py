"""Decodes an engine's JSON straight into columns: of a hundred thousand series no dictionary is ever made."""

from __future__ import annotations

from array import array
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, Raw, Struct, UnsetType
from numpy.typing import NDArray

from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.printable import printable
from dutycycle_alerter.promql.answers import Matrix, Vector

_MOST_WARNINGS = 10
_MESSAGE = 300
_DISTINCT = 2**21


class Interned(dict[str, str]):
    """One object for each text, however often it comes. Safe to use from several threads."""

    def __missing__(self, text: str) -> str:
        if len(self) >= _DISTINCT:
            self.clear()  # labels of jobs long gone
        return self.setdefault(text, text)


class _Data(Struct, frozen=True, gc=False):
    resultType: str  # noqa: N815 - the API's name
    result: list[Raw]


class _Envelope(Struct, frozen=True, gc=False):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] | None = None
    infos: list[str] | None = None
    isPartial: bool = False  # noqa: N815 - VictoriaMetrics' name


class Failure(Struct, frozen=True, gc=False):
    """What an engine answers where it has no result."""

    errorType: str = ""  # noqa: N815 - the API's name
    error: str = ""


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_FAILURE = msgspec.json.Decoder(Failure)


def decode_failure(body: bytes) -> Failure | None:
    """The engine's explanation, its texts made harmless; None where the body is none."""
    try:
        failure = _FAILURE.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return Failure(printable(failure.errorType, _MESSAGE), printable(failure.error, _MESSAGE))


def decode_vector(body: bytes, labels: tuple[str, ...], interned: Interned) -> Vector:
    """The answer to an instant query. Raises SourceError."""
    results, warnings = _results(body, "vector")
    decoder, keys, values = _vector_decoder(labels), [], array("d")
    try:
        for raw in results:
            sample = decoder.decode(raw)
            if sample.value is UNSET:
                raise SourceError(_without("value", sample.histogram))
            keys.append(_key(sample.metric, interned))
            values.append(float(sample.value[1]))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise SourceError(_unreadable(error)) from error
    return Vector(keys, _column(values), warnings)


def decode_matrix(body: bytes, labels: tuple[str, ...], interned: Interned) -> Matrix:
    """The answer to a query of raw samples. Raises SourceError."""
    results, warnings = _results(body, "matrix")
    decoder, keys = _matrix_decoder(labels), []
    offsets, times, values = array("q", [0]), array("d"), array("d")
    try:
        for raw in results:
            series = decoder.decode(raw)
            if series.values is UNSET or series.histograms is not UNSET:
                raise SourceError(_without("values", series.histograms))
            keys.append(_key(series.metric, interned))
            for t, value in series.values:
                times.append(t)
                values.append(float(value))
            offsets.append(len(times))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise SourceError(_unreadable(error)) from error
    return Matrix(keys, np.frombuffer(offsets, dtype=np.int64), _column(times), _column(values), warnings)


def _column(numbers: array[float]) -> NDArray[np.float64]:
    return np.frombuffer(numbers, dtype=np.float64) if numbers else np.empty(0)


def _results(body: bytes, kind: str) -> tuple[list[Raw], tuple[str, ...]]:
    try:
        envelope = _ENVELOPE.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise SourceError(_unreadable(error)) from error
    if envelope.status != "success" or envelope.data is None:
        explained = printable(envelope.error, _MESSAGE) or "an error without explanation"
        raise SourceError(f"the engine answered: {explained}")
    if envelope.isPartial:
        raise SourceError("the answer is partial: some storage node of the engine did not take part")
    if envelope.data.resultType != kind:
        raise SourceError(f"answered a {printable(envelope.data.resultType, 20)}, not a {kind}")
    said = [*(envelope.warnings or ()), *(envelope.infos or ())]
    return envelope.data.result, tuple(printable(text, _MESSAGE) for text in said[:_MOST_WARNINGS])


def _key(metric: Struct, interned: Interned) -> tuple[str, ...]:
    return tuple([interned[text] for text in msgspec.structs.astuple(metric)])


@lru_cache(maxsize=256)
def _vector_decoder(labels: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    fields = [("value", tuple[float, str] | UnsetType, UNSET), ("histogram", Raw | UnsetType, UNSET)]
    return _decoder(labels, fields)


@lru_cache(maxsize=256)
def _matrix_decoder(labels: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    fields = [("values", list[tuple[float, str]] | UnsetType, UNSET), ("histograms", Raw | UnsetType, UNSET)]
    return _decoder(labels, fields)


def _decoder(labels: tuple[str, ...], fields: list[tuple[str, Any, Any]]) -> msgspec.json.Decoder[Any]:
    """Of one series: the labels asked for become fields, all others are skipped over."""
    names = {f"label{place}": label for place, label in enumerate(labels)}
    metric = msgspec.defstruct("Metric", [(field, str, "") for field in names], rename=names, frozen=True, gc=False)
    series = msgspec.defstruct("Series", [("metric", metric), *fields], frozen=True, gc=False)
    return msgspec.json.Decoder(series)


def _without(value: str, histogram: object) -> str:
    if histogram is not UNSET:
        return "answered native histograms, which no query of ours asks for"
    return f"answered a series without {value}"


def _unreadable(error: Exception) -> str:
    return f"the answer is not that of a Prometheus API: {printable(str(error), _MESSAGE)}"

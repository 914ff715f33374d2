"""`dutycycle record`: write a recording from a running exporter."""

from __future__ import annotations

import time
from pathlib import Path

import click

from dutycycle_alerter import figures
from dutycycle_alerter.cli.reading import in_seconds
from dutycycle_alerter.cli.stopping import Stop, stop_signals
from dutycycle_alerter.errors import SourceError
from dutycycle_alerter.printable import printable
from dutycycle_alerter.recordings.record import Recorder
from dutycycle_alerter.recordings.writing import RecordingWriter
from dutycycle_alerter.sources.exposition import Exposition, parse
from dutycycle_alerter.sources.fetch import Fetcher

_LINE_LIMIT = 300


@click.command()
@click.option("--from", "url", required=True, metavar="URL", help="The exporter's page, http://HOST:9836/metrics.")
@click.option("--out", required=True, metavar="FILE[.gz]", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--interval", callback=in_seconds, default="10s", show_default=True, help="Time that one row covers.")
@click.option("--duration", callback=in_seconds, default="10000w", show_default="until Ctrl-C", help="How long.")
def record(url: str, out: Path, interval: float, duration: float) -> None:
    """Record what an exporter shows, one row per GPU and interval, until Ctrl-C.

    Every row is written immediately: whatever happens, the file is readable and complete up to its last interval.

    \b
    Examples:
      dutycycle record --from http://gpu-a01:9836/metrics --out a01.csv.gz
      dutycycle analyze a01.csv.gz
    """
    fetcher = Fetcher(timeout=max(5.0, interval))
    try:
        with stop_signals() as stop:
            first = _Scrapes(fetcher, url)
            first.take()  # an address without an exporter is an error, not an empty file
            with RecordingWriter(out) as writer:
                rows = _record(first, writer, stop, interval=interval, duration=duration)
    finally:
        fetcher.close()
    _say(f"{figures.count(rows, 'row')} in {out}")


class _Scrapes:
    """The exporter's answers, and the rows between them."""

    def __init__(self, fetcher: Fetcher, url: str) -> None:
        self._fetcher = fetcher
        self._url = url
        self._recorder = Recorder()
        self._failing = False

    def take(self) -> list[dict[str, str | float | None]]:
        """One scrape. Raises SourceError."""
        answer = self._answer()
        return [dict(row) for row in self._recorder.rows(answer, time.time())]

    def try_take(self) -> list[dict[str, str | float | None]]:
        """One scrape; none where it fails, which is said once, and again when the exporter is back."""
        try:
            rows = self.take()
        except SourceError as error:
            if not self._failing:
                _say(f"{error}; going on, the recording has a gap")
            self._failing = True
            return []
        if self._failing:
            _say(f"{self._url} answers again")
        self._failing = False
        return rows

    def _answer(self) -> Exposition:
        try:
            return parse(self._fetcher.get(self._url))
        except SourceError as error:
            said = str(error)
            raise SourceError(said if self._url in said else f"{self._url}: {said}") from error


def _record(scrapes: _Scrapes, writer: RecordingWriter, stop: Stop, *, interval: float, duration: float) -> int:
    """Scrape at even times until told to stop; the number of rows written."""
    start, rows, number = time.monotonic(), 0, 1
    while number * interval <= duration + 1e-6:
        # Scrapes that took too long are left out, not made up for in a rush.
        number = max(number, int((time.monotonic() - start) / interval))
        if stop.wait(max(0.0, start + number * interval - time.monotonic())):
            break
        found = scrapes.try_take()
        writer.write(found)
        rows += len(found)
        number += 1
    return rows


def _say(text: str) -> None:
    click.echo(f"dutycycle: {printable(text, _LINE_LIMIT)}", err=True)

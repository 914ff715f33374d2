"""The thread that takes turns."""

from __future__ import annotations

import threading

import pytest

from dutycycle_exporter.attribution.kubernetes.loop import Loop, Pause


def test_a_mistake_does_not_end_the_thread(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dutycycle_exporter.attribution.kubernetes.loop.AFTER_MISTAKE", 0.0)
    turns: list[int] = []
    enough = threading.Event()

    def turn() -> Pause:
        turns.append(1)
        if len(turns) == 3:
            enough.set()
        raise ZeroDivisionError

    loop = Loop("test", turn)
    loop.start()
    assert enough.wait(30)
    loop.stop()
    assert "asking test failed" in caplog.text

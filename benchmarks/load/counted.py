"""One of our programs, and how many blocks of memory its interpreter has.

    python -m benchmarks.load.counted FILE PROGRAM ARGUMENT...

Resident memory comes and goes with the allocator's arenas; what lives does not. A thread beside the program writes the
number into the file each second; nothing of the program is changed.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from pathlib import Path

MAINS = {"dutycycle": "dutycycle_alerter.cli", "dutycycle-exporter": "dutycycle_exporter.cli"}
EVERY = 1.0


def main() -> None:
    file, program, *arguments = sys.argv[1:]
    threading.Thread(target=_note, args=(Path(file),), daemon=True).start()
    sys.argv = [program, *arguments]
    importlib.import_module(MAINS[program]).main()


def _note(file: Path) -> None:
    fresh = file.with_suffix(".new")
    while True:
        fresh.write_text(str(sys.getallocatedblocks()))
        fresh.replace(file)
        time.sleep(EVERY)


if __name__ == "__main__":
    main()

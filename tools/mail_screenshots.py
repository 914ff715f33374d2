"""Takes docs' screenshots of a mail: `python -m tools.mail_screenshots mail.html`.

The file is of `dutycycle notify preview INCIDENT --format html --output mail.html`. Needs Chromium and Playwright
(`make test` installs both).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tools.screenshots import OUT, shrink

SHOTS = {"mail": (660, 1065, "light"), "mail-phone": (360, 740, "dark")}
"""Name -> width, height at most, and colour scheme."""


def main(path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("Chromium is missing: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (width, height, scheme) in SHOTS.items():
            page = browser.new_page(viewport={"width": width, "height": 100}, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(path.resolve().as_uri())
            tall = min(height, page.evaluate("document.documentElement.scrollHeight"))
            shot = OUT / f"{name}.png"
            page.screenshot(path=shot, full_page=True, clip={"x": 0, "y": 0, "width": width, "height": tall})
            shrink(shot)
            print(f"{shot}: {shot.stat().st_size / 1000:.0f} kB")
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))

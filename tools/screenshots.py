"""Takes the README's screenshots from a running page: `python -m tools.screenshots http://127.0.0.1:9837/`.

Start `dutycycle up` and wait for incidents first. Needs Chromium and Playwright (`make test` installs both).
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import urlopen

from PIL import Image
from playwright.sync_api import sync_playwright

OUT = Path(__file__).resolve().parent.parent / "docs" / "screenshots"
WIDTH, HEIGHT, TALLEST = 1200, 760, 1500
MOST_BYTES = 300_000
COLOURS = 256


def pictures(base: str) -> dict[str, str]:
    """Names of pictures and the addresses they show: the list, the incident that wasted most, and the users."""
    with urlopen(urljoin(base, "/api/v1/incidents?limit=1000"), timeout=30) as answer:
        incidents = json.load(answer)["incidents"]
    if not incidents:
        raise SystemExit("there is no incident to show yet: wait until `dutycycle up` has opened some")
    active = [incident for incident in incidents if incident["state"] != "resolved"] or incidents
    worst = max(
        active, key=lambda incident: (len(incident["gpus"]) < incident["job_gpus"], incident["wasted_gpu_hours"])
    )
    return {
        "incidents": urljoin(base, "/" if active is not incidents else "/?state=all"),
        "incident": urljoin(base, f"/incidents/{worst['id']}"),
        "users": urljoin(base, "/users?range=90d"),
    }


def main(base: str) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("Chromium is missing: apt-get install chromium")
    OUT.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        for name, url in pictures(base).items():
            page.goto(url)
            path = OUT / f"{name}.png"
            tall = min(TALLEST, page.evaluate("document.documentElement.scrollHeight"))
            page.screenshot(
                path=path, full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": max(HEIGHT, tall)}
            )
            shrink(path)
            print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
        browser.close()


def shrink(path: Path) -> None:
    """A palette instead of true colour: a quarter of the size, and nobody can tell."""
    with Image.open(path) as picture:
        few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{path} has {path.stat().st_size} bytes, more than {MOST_BYTES}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])

"""``make look``: every page of the documentation in a browser, as phones, laptops and large screens show it.

    python -m tools.look                           # all pages of out/docs, and pictures of them in out/look
    python -m tools.look quickstart howto/serve    # some pages

Each page is opened at three widths, light and dark. It is an error if a page is wider than the screen, if text is cut
off, if a picture is missing or has no description, if the browser reports an error, or if axe finds what people with
weak eyes or without a mouse cannot use (at the middle width). Pictures of all pages are there to be looked at: whether
a page is good, no program can judge.
"""

from __future__ import annotations

import argparse
import importlib.resources
import io
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
DOCS, OUT = ROOT / "out" / "docs", ROOT / "out" / "look"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WIDTHS = {390: 844, 1366: 768, 1920: 1080}  # a phone, a laptop, a large screen: width and height
AXE_WIDTH = 1366
COLUMN, TALL = 560, 1500  # of a picture, in points
# What is wrong on a page, as sentences. A part that can be moved sideways by itself may be wider than the screen.
WRONG = """
() => {
  const said = [], width = document.documentElement.clientWidth;
  const shown = (e) => e.getClientRects().length && getComputedStyle(e).visibility !== "hidden";
  const start = (e) => e.textContent.replace(/\\s+/g, " ").trim().slice(0, 50);
  const name = (e) => `<${e.tagName.toLowerCase()} ${e.className}> ${start(e)}`;
  const moves = (e) => e && (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(e).overflowX)
    ? e.tagName !== "BODY" && e.tagName !== "HTML" : moves(e.parentElement));
  if (document.documentElement.scrollWidth > width) {
    const wide = [...document.querySelectorAll("body *")].filter((e) => shown(e) && !moves(e.parentElement)
      && e.getBoundingClientRect().right > width + 1);
    said.push(`wider than the screen: ${wide.slice(0, 3).map(name).join(" | ")}`);
  }
  for (const e of document.querySelectorAll("article *, .sidebar-drawer *, .toc-drawer *")) {
    const style = getComputedStyle(e);
    if (["hidden", "clip"].includes(style.overflowX) && shown(e) && e.scrollWidth > e.clientWidth + 1
      && e.clientWidth > 1 && e.textContent.trim()) said.push(`text is cut off: ${name(e)}`);
  }
  for (const e of document.querySelectorAll("img")) {
    if (!e.complete || !e.naturalWidth) said.push(`a picture is missing: ${e.src}`);
    else if (!e.alt.trim()) said.push(`a picture has no description: ${e.src}`);
  }
  return said;
}
"""


@dataclass(frozen=True)
class Look:
    """One page, at one width, light or dark."""

    page: str
    width: int
    scheme: str


def look(page: Page, at: Look, errors: list[str]) -> tuple[list[str], Image.Image]:
    """What is wrong, and a picture of the whole page."""
    errors.clear()
    page.goto((DOCS / f"{at.page}.html").as_uri())
    page.evaluate("document.querySelectorAll('img').forEach((e) => { e.loading = 'eager'; })")
    page.wait_for_load_state("networkidle")
    wrong = [*page.evaluate(WRONG), *(f"the browser says: {error}" for error in errors)]
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True, animations="disabled"))).convert("RGB")
    return wrong, picture


def kept_out(page: Page) -> list[str]:
    """What axe finds on the page that is open."""
    script = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(script)
    rules = "{runOnly: ['wcag2a', 'wcag2aa'], resultTypes: ['violations']}"
    found = page.evaluate(f"axe.run(document, {rules}).then((all) => all.violations)")
    return [f"axe, {one['id']}: {node['html'][:90]}" for one in found for node in one["nodes"][:3]]


def sheet(pictures: list[tuple[str, Image.Image]]) -> Image.Image:
    """Pages beside each other, each cut into columns that can be read."""
    strips: list[tuple[str, Image.Image]] = []
    for name, picture in pictures:
        width = min(COLUMN, picture.width)
        small = picture.resize((width, max(1, picture.height * width // picture.width)), Image.Resampling.LANCZOS)
        strips += [
            (name, small.crop((0, top, width, min(top + TALL, small.height)))) for top in range(0, small.height, TALL)
        ]
    whole = Image.new("RGB", (COLUMN * len(strips), TALL + 16), "#808080")
    for k, (name, strip) in enumerate(strips):
        whole.paste(strip, (k * COLUMN, 16))
        ImageDraw.Draw(whole).text((k * COLUMN + 4, 2), name, fill="white")
    return whole


def main() -> int:
    """Look at all pages, say what is wrong, and write the sheets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="pages without .html; all, if none is given")
    parser.add_argument("--no-sheets", action="store_true", help="only the checks")
    given = parser.parse_args()
    if not DOCS.is_dir() or CHROMIUM is None:
        sys.exit("This needs the built documentation (make docs) and chromium (make browser).")
    pages = given.pages or sorted(
        str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.html") if "_static" not in path.parts
    )
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    count = 0
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for width, height in WIDTHS.items():
            for scheme in ("light", "dark"):
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme=scheme,
                    bypass_csp=True,
                )
                page, errors = context.new_page(), []
                page.on("console", lambda m, to=errors: to.append(m.text) if m.type == "error" else None)
                page.on("pageerror", lambda error, to=errors: to.append(str(error)))
                for name in pages:
                    at = Look(name, width, scheme)
                    wrong, picture = look(page, at, errors)
                    if width == AXE_WIDTH:
                        wrong += kept_out(page)
                    for sentence in wrong:
                        print(f"{name}, {width}, {scheme}: {sentence}", flush=True)
                    count += len(wrong)
                    if not given.no_sheets:
                        sheet([(f"{name} {width} {scheme}", picture)]).save(
                            OUT / f"{name.replace('/', '-')}-{width}-{scheme}.png"
                        )
                context.close()
        browser.close()
    print(f"{len(pages)} pages at {len(WIDTHS)} widths, light and dark: {count} things are wrong; pictures: out/look")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

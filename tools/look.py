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
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

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


def look(page: Page, address: str, errors: list[str]) -> list[str]:
    """Open a page, and say what is wrong with it."""
    errors.clear()
    page.goto(address)
    page.evaluate("document.querySelectorAll('img').forEach((e) => { e.loading = 'eager'; })")
    page.wait_for_load_state("networkidle")
    return [*page.evaluate(WRONG), *(f"the browser says: {error}" for error in errors)]


def kept_out(page: Page) -> list[str]:
    """What axe finds on the page that is open."""
    script = importlib.resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(script)
    rules = "{runOnly: ['wcag2a', 'wcag2aa'], preload: false}"
    found = page.evaluate(f"axe.run(document, {rules}).then((all) => all.violations)")
    return [f"axe, {one['id']}: {node['html'][:90]}" for one in found for node in one["nodes"][:3]]


def sheet(page: Page) -> Image.Image:
    """A picture of the whole page that is open, cut into columns that can be read."""
    picture = Image.open(io.BytesIO(page.screenshot(full_page=True, animations="disabled"))).convert("RGB")
    width = min(COLUMN, picture.width)
    small = picture.resize((width, max(1, picture.height * width // picture.width)), Image.Resampling.LANCZOS)
    tops = range(0, small.height, TALL)
    whole = Image.new("RGB", ((width + 8) * len(tops), min(TALL, small.height)), "#808080")
    for k, top in enumerate(tops):
        whole.paste(small.crop((0, top, width, min(top + TALL, small.height))), (k * (width + 8), 0))
    return whole


def opened(browser: Browser, width: int, scheme: str) -> tuple[Page, list[str]]:
    """An empty page of some width, light or dark, and the list of what the browser will complain of."""
    size = {"width": width, "height": WIDTHS[width]}
    page = browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=True).new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return page, errors


def main(arguments: list[str] | None = None) -> int:
    """Look at all pages, say what is wrong, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="pages without .html; all, if none is given")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where the pages are")
    parser.add_argument("--out", type=Path, default=OUT, help="where pictures go")
    given = parser.parse_args(arguments)
    if not given.docs.is_dir() or CHROMIUM is None:
        sys.exit("This needs the built documentation (make docs) and chromium (make browser).")
    every = (path for path in given.docs.rglob("*.html") if "_static" not in path.parts)
    pages = given.pages or sorted(path.relative_to(given.docs).with_suffix("").as_posix() for path in every)
    shutil.rmtree(given.out, ignore_errors=True)
    given.out.mkdir(parents=True)
    count = 0
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        for width in WIDTHS:
            for scheme in ("light", "dark"):
                page, errors = opened(browser, width, scheme)
                for name in pages:
                    wrong = look(page, (given.docs / f"{name}.html").resolve().as_uri(), errors)
                    sheet(page).save(given.out / f"{name.replace('/', '-')}-{width}-{scheme}.png")
                    if width == AXE_WIDTH:
                        wrong += kept_out(page)
                    for sentence in wrong:
                        print(f"{name}, {width}, {scheme}: {sentence}", flush=True)
                    count += len(wrong)
                page.context.close()
        browser.close()
    print(
        f"{len(pages)} pages at {len(WIDTHS)} widths, light and dark: {count} things are wrong; pictures: {given.out}"
    )
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

"""``make look`` finds what is wrong on a page, and nothing on a page that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

look = pytest.importorskip("tools.look", reason="playwright or Pillow is not installed")

RIGHT = "<!doctype html><html lang=en><title>A page</title><main><h1>A page</h1><p>Words.</p></main>"
WRONG = """<!doctype html><html lang=en><title>A page</title><main><h1>A page</h1><article>
<p style="width: 2500px">wide</p>
<p style="width: 40px; overflow: hidden; white-space: nowrap">words that are cut off</p>
<p style="color: #bbb; background: white">pale</p>
<img src="nowhere.png" alt="a picture">
</article></main><script>throw new Error("broken script")</script>"""


@pytest.mark.slow
@pytest.mark.skipif(look.CHROMIUM is None, reason="there is no chromium")
def test_wide_cut_pale_and_missing_parts_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "right.html").write_text(RIGHT)
    assert look.main(["--docs", str(docs), "--out", str(tmp_path / "out")]) == 0
    assert "right" not in capsys.readouterr().out
    assert len(list((tmp_path / "out").glob("right-*.png"))) == 6
    (docs / "wrong.html").write_text(WRONG)
    assert look.main(["--docs", str(docs), "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().out.replace("the browser says: Error: ", "").replace("the browser says: ", "")
    for scheme in ("light", "dark"):
        for width in (390, 1366, 1920):
            for what in ("wider than the screen", "text is cut off", "a picture is missing", "broken script"):
                assert f"wrong, {width}, {scheme}: {what}" in said
        assert f"wrong, 1366, {scheme}: axe, color-contrast" in said

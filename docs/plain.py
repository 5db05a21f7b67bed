"""Each page as plain Markdown beside its HTML, and ``llms.txt``: a list of all pages for programs that read text."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pmbandits

_AUTO = re.compile(r"^\.\. auto(?:class|function|data|module):: (\S+)\n(?:   :.*\n)*", re.MULTILINE)
_FENCE = re.compile(r"^```\{eval-rst\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_RAW = re.compile(r"^```\{raw\} html\n(.*?)\n```$", re.DOTALL | re.MULTILINE)
_TREE = re.compile(r"^```\{toctree\}\n.*?^```\n?", re.DOTALL | re.MULTILINE)
_OUTPUT = re.compile(r"^````\{code-block\} text\n:class: output\n\n(.*?)\n````$", re.DOTALL | re.MULTILINE)


def page(text: str) -> str:
    """A page without what only Sphinx understands; names of the reference become their signatures and docstrings."""
    text = _TREE.sub("", text)
    text = _FENCE.sub(lambda found: _AUTO.sub(lambda name: _entry(name[1]) + "\n", found[1]), text)
    text = _RAW.sub(lambda found: found[1], text)
    text = _OUTPUT.sub(lambda found: f"```text\n{found[1]}\n```", text)
    text = re.sub(r"^:{3,}(\{container\}.*)?\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\{(?:py:)?\w+\}`~?([^`<]*?)(?:\s*<([^>]*)>)?`", lambda f: f"`{f[1]}`", text)
    text = re.sub(r"(!\[[^\]]*\]\([^)]*\))\{[^}]*\}", r"\1", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _entry(name: str) -> str:
    """A public name: its signature and its docstring."""
    found: Any = pmbandits
    for part in name.split(".")[1:]:
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(f"{found.__name__}.{part}")
    try:
        signature = str(inspect.signature(found))
    except (TypeError, ValueError):
        signature = ""
    return f"### {name}{signature}\n\n{inspect.getdoc(found) or ''}\n"


def title(text: str) -> str:
    """The first heading of a page."""
    return next(line.removeprefix("# ").strip() for line in text.splitlines() if line.startswith("# "))


def sentence(text: str) -> str:
    """The first sentence below the heading, without marks."""
    for part in re.split(r"\n\s*\n", text.partition("\n")[2]):
        line = " ".join(part.split())
        if line and not line.startswith(("#", "|", "```", ":", "!", "<", ".")):
            line = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line).replace("**", "")
            return re.split(r"(?<=[.!?]) ", line)[0]
    return ""


def write(pages: dict[str, str], site: Path, about: str) -> None:
    """Write every page (by its name, such as ``howto/stop``) and the list of them into the site."""
    lines = [f"# pmbandits {pmbandits.__version__}", "", f"> {about}", "", "## Pages", ""]
    for name, text in pages.items():
        plain = page(text)
        target = site / f"{name}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(plain, encoding="utf-8")
        lines.append(f"- [{title(plain)}]({name}.md): {sentence(plain)}")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

"""The first mention of a special word on a page leads to the glossary, and shows its meaning when pointed at.

The words are those in bold at the beginning of the paragraphs of ``glossary.md``. A word that a page itself explains
(there it is *emphasised*) is not marked on that page, and neither is one in a heading, a link or code.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes

GLOSSARY = "glossary"
COMMON = {  # also words of every day: a link would often be wrong
    "ask", "band", "contract", "explore", "gap", "grid", "interval", "moment", "tell", "track", "trial", "worth", "ε",
}  # fmt: skip
LEFT_OUT = ("reference/", "changelog", "contributing", "search", "genindex", "py-modindex", "index", GLOSSARY)
_ENTRY = re.compile(r"^\*\*([^*]+)\.\*\* (.+?)(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)
_CLOSED = (nodes.title, nodes.literal, nodes.literal_block, nodes.reference, nodes.math, nodes.strong, nodes.emphasis)


class Word(NamedTuple):
    """A word of the glossary: where it is explained there, and how."""

    anchor: str
    meaning: str


def entries(text: str) -> dict[str, Word]:
    """The words of the glossary, in small letters: those in bold. Several words in one entry share its anchor."""
    found = {}
    for head, body in _ENTRY.findall(text):
        names = [_name(name) for name in [*head.split(","), *re.findall(r"\*\*([^*]+)\*\*", body)]]
        meaning = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*$]|\\[,le]*", r"\1", " ".join(body.split()))
        word = Word(anchor(names[0]), re.split(r"(?<=[.!?]) (?=[A-Z*])", meaning)[0])
        found |= dict.fromkeys(names, word)
    return found


def _name(written: str) -> str:
    return re.sub(r"\s*\(.*?\)", "", written).strip(" .").lower()


def anchor(name: str) -> str:
    """Where a word is explained in the page of the glossary."""
    return "word-" + re.sub(r"[^a-z0-9]+", "-", name.encode("ascii", "ignore").decode()).strip("-")


def give_anchors(document: nodes.document, words: dict[str, Word]) -> None:
    """In the glossary itself: a place to go to for every entry."""
    for paragraph in document.findall(nodes.paragraph):
        first = next((child for child in paragraph.children if child.astext()), None)
        if isinstance(first, nodes.strong) and (name := _name(first.astext().split(",")[0])) in words:
            paragraph["ids"].append(words[name].anchor)


def mark(document: nodes.document, words: dict[str, Word], address: str) -> list[str]:
    """Link the first mention of each word, and say which words were linked."""
    own = {node.astext().lower().rstrip("s") for node in document.findall(nodes.emphasis)}
    own |= {node.astext().lower().rstrip("s.") for node in document.findall(nodes.strong)}
    waiting = {name for name in words if name not in COMMON and name.rstrip("s") not in own}
    linked = []
    for text in list(document.findall(nodes.Text)):
        if not waiting:
            break
        if _inside(text, _CLOSED) or not _inside(text, (nodes.paragraph,)):
            continue
        pieces, rest = [], str(text)
        while found := _first(rest, waiting):
            name, at = found
            # singular and other words of the same entry need no second mark
            waiting -= {other for other in waiting if words[other] == words[name]}
            linked.append(name)
            link = nodes.reference(at[0], at[0], refuri=f"{address}#{words[name].anchor}", internal=True)
            link["reftitle"], link["classes"] = words[name].meaning, ["word"]
            pieces += [nodes.Text(rest[: at.start()]), link]
            rest = rest[at.end() :]
        if pieces:
            text.parent.replace(text, [*pieces, nodes.Text(rest)])
    return linked


def _first(text: str, names: set[str]) -> tuple[str, re.Match[str]] | None:
    """The word that comes first in a text, the longest one if several begin there; plurals count, too."""
    forms = {re.escape(name): name for name in names} | {re.escape(_plural(name)): name for name in names}
    every = "|".join(sorted(forms, key=len, reverse=True))
    found = re.search(rf"(?<![\w-])({every})(?![\w-])", text, re.IGNORECASE) if names else None
    return (forms[re.escape(found[1].lower())], found) if found else None


def _plural(name: str) -> str:
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def _inside(node: Any, kinds: tuple[type, ...]) -> bool:
    while node := node.parent:
        if isinstance(node, kinds):
            return True
    return False


def _resolved(app: Any, document: nodes.document, name: str) -> None:
    if app.builder.format != "html":
        return
    words = entries(Path(app.srcdir, f"{GLOSSARY}.md").read_text(encoding="utf-8"))
    if name == GLOSSARY:
        give_anchors(document, words)
    elif not name.startswith(LEFT_OUT):
        mark(document, words, app.builder.get_relative_uri(name, GLOSSARY))


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-resolved", _resolved)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

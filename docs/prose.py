"""What a machine can judge of words: ``python docs/prose.py`` prints what it would have rewritten.

    python docs/prose.py                      # all pages, README, CONTRIBUTING, the changelog, and the source
    python docs/prose.py docs/howto/stop.md   # one page

``make docs`` begins with it, so a page that falls back into riddles fails the build. The rules are few, because only
people can tell whether a sentence is clear: long sentences, chains of semicolons, turns of phrase that readers
stumbled over, special words that are explained nowhere, tables, pictures and examples without a word about them, and
guides without a beginning or an end. ``source_prose.py`` has the rules for docstrings, messages and names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
LONGEST = 35  # words of a sentence
LEAST = 12  # words that say what a guide is for

# What readers stumbled over, and what to say instead. Looked for in text, not in code.
STUMBLES = {
    r"(?:^|[.:;,] )who(?:ever)? (?:only|does|has|is|wants|knows|edits|runs)\b": "“if you …”, “anybody who …”",
    r"\d[\d.,]*(?: %| [a-z]+)? at (?:most|least)\b(?! \d)": "“at most” and “at least” before the number",
    r"\b(?:and|or), else\b|(?:,|;) (?:and |or )?else\b|\band else\b|\belse (?:it|the|they|two|a)\b": "“otherwise”",
    r"\bwill do\b": "“is enough”",
    r"\bneed(?:s)? be\b": "“than necessary”",
    r"\bso (?:many|few|often) (?:pulls|rounds|rewards|times) (?:came|got|was|were)\b": "“The table shows how many …”",
    r"\b(?:that|it|which) (?:is|was) so (?:for|in)\b": "“this holds for …”",
    r"\bmend(?:s|ed|ing)? (?:it|them|this|that)\b": "“correct”",
    r"\b(?:is|are|was|were) (?:taken in|had together|to be had)\b": "who does what: “the policy counts it”",
    r"\bpaid back\b": "“makes up for”",
    r"\bstands? still\b|\bstood still\b": "“does not change”",
    r"\bworld that\b|\bworlds that\b": "what changes: “arms that change”",
    r"\bfor ever\b": "“always”, “for as long as it runs”",
    r"\byardsticks?\b": "“simple policies to compare with”",
    r"\bbattery\b": "“set of tests”",
    r"\bbelts?\b": "“band”",
    r"\bthe gate\b|\ba gate\b": "“the check of the pulls”",
    r"\brooms?\b|\bthe house\b": "the name of the module, or “part of the library”",
    r"\bhonou?red\b|\bquarrel\b|\binert\b(?!\))": "a common word",
    r"\bbrought to the disk\b": "“flushed to the disk”",
    r"\blooked at once\b": "“looked at only once”, or “immediately”",
    r"\bin the manner of\b|\bhangs? on\b": "a common phrase",
    r"\bthe (?:more|less) often was\b": "a whole clause with a subject",
    r"\blaws?\b": "“distribution” (or say once that both mean the same)",
}
# Words that nobody needs to know beforehand. Each is in the glossary, or explained (*emphasised*) where it is used.
SPECIAL = (
    "anytime", "arm", "atom", "bandit", "certificate", "checkpoint", "choquet integral", "concave", "confidence set",
    "convex", "cross-fitting", "cvar", "distortion", "dns rebinding", "gini deviation", "heavy tail", "horizon",
    "hölder pair", "kernel", "light tail", "lipschitz", "martingale", "metric", "mixture", "off-policy evaluation",
    "optimism", "oracle", "policy", "propensity", "pull", "quantile", "regret", "relative entropy", "seed", "sketch",
    "standard error", "sub-gaussian", "support", "survival function", "thompson sampling", "ticket", "utility",
    "wasserstein distance",
)  # fmt: skip
ALLOWED = {  # (page, the words): where the word is right after all
    ("glossary.md", "law"),  # explained there
    ("limits.md", "inert"),  # explained there
    ("patrol.py", "the gate"),  # a real one
}
_WRITTEN = re.compile(  # by a program, from what a run left
    r"<!-- written by docs/\w+\.py: (\w+) -->.*?<!-- (?:end of \1|written by docs/family\.py: end) -->", re.DOTALL
)
_ABBREVIATED = re.compile(r"\b(?:et al|e\.g|i\.e|vs|cf|L\.A|[A-Z])\.$")


class Finding(NamedTuple):
    """Something that a reader may stumble over."""

    page: str
    says: str
    instead: str

    def __str__(self) -> str:
        return f"{self.page}: {self.instead}\n    {self.says}"


def text_of(markdown: str) -> str:
    """A page without its code, formulas, comments and what programs wrote into it; code in a line becomes one word."""
    text = _WRITTEN.sub("\n", markdown)
    text = re.sub(r"<!--.*?-->", "\n", text, flags=re.DOTALL)
    text = re.sub(r"^````?.*?^````?[ \t]*$", "\n¶\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^[ \t]*:{3,}.*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"\$\$.*?\$\$", " (formula) ", text, flags=re.DOTALL)
    text = re.sub(r"\{[\w:]+\}`[^`]*`", "Name", text)
    text = re.sub(r"`[^`\n]+(?:\n[^`\n]+)?`", "Name", text)
    text = re.sub(r"\$[^$\n]+(?:\n[^$\n]+)?\$", "Formula", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)\s]*\)", r"\1", text)
    return re.sub(r"https?://\S+", "address", text)


def paragraphs(markdown: str) -> Iterator[str]:
    """The paragraphs and points of a page, without headings and tables."""
    for block in re.split(r"\n\s*\n", text_of(markdown)):
        for point in re.split(r"\n(?=[ \t]*(?:[-*>]|\d+\.) )", block.strip("\n")):
            lines = [line for line in point.splitlines() if not line.lstrip().startswith(("#", "|", ":", "¶"))]
            joined = " ".join(line.strip() for line in lines)
            joined = re.sub(r"^(?:[-*>]|\d+\.)\s+", "", joined)
            if joined:
                yield re.sub(r"[*_]{1,2}", "", joined)


def sentences(paragraph: str) -> Iterator[str]:
    """The sentences of a paragraph."""
    start = 0
    for end in re.finditer(r"[.!?][”\")]?(?=\s+[A-Z0-9“\"(])", paragraph):
        if not _ABBREVIATED.search(paragraph[start : end.end()]):
            yield paragraph[start : end.end()].strip()
            start = end.end()
    yield paragraph[start:].strip()


def words(sentence: str) -> int:
    """How many words a sentence has; numbers and signs are none."""
    return len(re.findall(r"[A-Za-zÀ-ž][\w’'-]*", re.sub(r"\([^()]*\)", "", sentence)))


def cells(markdown: str) -> Iterator[str]:
    """What stands in tables."""
    for line in text_of(markdown).splitlines():
        if line.lstrip().startswith("|"):
            yield from (cell.strip() for cell in line.strip().strip("|").split("|"))


def language(name: str, markdown: str) -> Iterator[Finding]:
    """Sentences that are too long, chains of semicolons, and turns of phrase that readers stumbled over."""
    for paragraph in paragraphs(markdown):
        for sentence in sentences(paragraph):
            if words(sentence) > LONGEST:
                yield Finding(name, sentence, f"{words(sentence)} words in one sentence; {LONGEST} are enough.")
            if re.sub(r"\([^()]*\)|“[^”]*”", "", sentence).count(";") > 1:
                yield Finding(name, sentence, "a chain of semicolons; make sentences or points of it.")
    for text in (*paragraphs(markdown), *cells(markdown)):
        for pattern, instead in STUMBLES.items():
            for found in re.finditer(pattern, text, re.IGNORECASE):
                short = (Path(name).name, found[0].lower())
                if short not in ALLOWED:
                    around = text[max(0, found.start() - 50) : found.end() + 50]
                    yield Finding(name, f"… {around} …", f"“{found[0]}”: say {instead}.")


def introductions(name: str, markdown: str) -> Iterator[Finding]:
    """Tables, pictures and examples that no sentence introduces or explains."""
    text = re.sub(r"<!--.*?-->\n?", "", markdown)
    blocks = [block for block in re.split(r"\n\s*\n", text) if block.strip()]
    inside = False
    for k, block in enumerate(blocks):
        before = blocks[k - 1].strip() if k else ""
        after = blocks[k + 1].strip() if k + 1 < len(blocks) else ""
        fences = len(re.findall(r"^\s*```", block, re.MULTILINE))
        if not inside and block.lstrip().startswith("|") and _says_nothing(before) and _says_nothing(after):
            yield Finding(name, block.strip().splitlines()[0], "a table needs a sentence that says what to see in it.")
        if not inside and re.match(r"```(?:py|sh|bash|console)", block) and before.startswith(("#", "```")):
            yield Finding(
                name, "\n    ".join(block.splitlines()[:2]), "an example needs a sentence that says what it does."
            )
        if not inside and block.startswith("![") and _says_nothing(before) and _says_nothing(after):
            yield Finding(name, block.strip(), "a picture needs a sentence that says what to see in it.")
        inside ^= fences % 2 == 1


def _says_nothing(block: str) -> bool:
    return not block or block.startswith(("#", "|", "```", "!", ":::"))


def guide(name: str, markdown: str) -> Iterator[Finding]:
    """Guides that do not begin with what they are for, or do not end with where to go next."""
    first = markdown.split("\n\n")[1].strip() if "\n\n" in markdown else ""
    if _says_nothing(first) or words(first) < LEAST:
        yield Finding(name, first[:80], "a guide begins with what the reader will be able to do.")
    last = markdown.rstrip().split("\n\n")[-1]
    if not (last.startswith("**Next:**") and "](" in last):
        yield Finding(name, last[:80], "a guide ends with “**Next:**” and a link.")


def unexplained(name: str, markdown: str, glossary: Collection[str]) -> Iterator[Finding]:
    """Special words that neither the glossary nor the page explains."""
    plain = " ".join(paragraphs(markdown)).lower()
    here = {word.lower() for word in re.findall(r"\*{1,2}([^*\n]+?)\.?\*{1,2}", markdown)}
    for word in SPECIAL:
        used = re.search(rf"(?<![\w-]){re.escape(word)}(?:s|es)?(?![\w-])", plain)
        if used and word not in glossary and not {word, f"{word}s"} & here:
            yield Finding(name, word, "explain it in docs/glossary.md, or here, *emphasised*.")


def glossary_words() -> set[str]:
    """The words that the glossary explains, in small letters: those in bold."""
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    found = {name for bold in re.findall(r"\*\*([^*]+)\*\*", text) for name in bold.split(",")}
    return {re.sub(r"\s*\(.*?\)", "", name).strip(" .").lower() for name in found}


def findings(path: Path, markdown: str) -> list[Finding]:
    """All that a page should say differently."""
    name = path.relative_to(ROOT).as_posix()
    found = [*language(name, markdown), *introductions(name, markdown)]
    found += unexplained(name, markdown, glossary_words())
    return [*found, *guide(name, markdown)] if path.parent.name == "howto" else found


def pages() -> list[Path]:
    """Everything for users to read."""
    here = [path for path in DOCS.rglob("*.md") if not path.relative_to(DOCS).parts[0].startswith("_")]
    others = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")]
    return [*sorted(here), *sorted((DOCS / "gallery").glob("*.py")), *others]


def check(chosen: list[Path]) -> list[str]:
    """What these pages should say differently."""
    sys.path.insert(0, str(DOCS))
    import build

    return [str(finding) for path in chosen for finding in findings(path, build.markdown(path))]


def main() -> None:
    chosen = [Path(name).resolve() for name in sys.argv[1:]]
    found = check(chosen or pages())
    if not chosen:
        import source_prose

        found += source_prose.findings(language)
    print(*found, f"{len(found)} place(s) to say differently.", sep="\n")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()

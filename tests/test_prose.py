"""The words on the pages: no riddles, every special word explained (``docs/prose.py`` and ``docs/_ext/words.py``)."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parent.parent / "docs"


def script(name: str, folder: Path = DOCS) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"docs_{name}"] = module
    spec.loader.exec_module(module)
    return module


PROSE, WORDS, BUILD = script("prose"), script("words", DOCS / "_ext"), script("build")
GLOSSARY = WORDS.entries((DOCS / "glossary.md").read_text(encoding="utf-8"))

# Words that nobody needs to know beforehand. Each is in the glossary, or explained (*emphasised*) where it is used.
SPECIAL = (
    "anytime", "arm", "atom", "bandit", "certificate", "checkpoint", "choquet integral", "concave", "confidence set",
    "convex", "cross-fitting", "cvar", "distortion", "dns rebinding", "gini deviation", "heavy tail", "horizon",
    "hölder pair", "kernel", "light tail", "lipschitz", "martingale", "metric", "mixture", "off-policy evaluation",
    "optimism", "oracle", "policy", "propensity", "pull", "quantile", "regret", "relative entropy", "seed", "sketch",
    "standard error", "sub-gaussian", "support", "survival function", "thompson sampling", "ticket", "utility",
    "wasserstein distance",
)  # fmt: skip


@pytest.mark.parametrize("path", PROSE.pages(), ids=lambda path: path.relative_to(DOCS.parent).as_posix())
def test_nobody_stumbles_over_a_page(path: Path) -> None:
    found = PROSE.findings(path, BUILD.markdown(path))
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("path", PROSE.pages(), ids=lambda path: path.relative_to(DOCS.parent).as_posix())
def test_every_special_word_is_explained(path: Path) -> None:
    text = BUILD.markdown(path)
    plain = " ".join(PROSE.paragraphs(text)).lower()
    here = {word.lower() for word in re.findall(r"\*{1,2}([^*\n]+?)\.?\*{1,2}", text)}
    used = {word for word in SPECIAL if re.search(rf"(?<![\w-]){re.escape(word)}(?:s|es)?(?![\w-])", plain)}
    unknown = {word for word in used if word not in GLOSSARY and not {word, f"{word}s"} & here}
    assert not unknown, f"in docs/glossary.md, or *emphasised* and explained here: {sorted(unknown)}"


@pytest.mark.parametrize(
    ("sentence", "why"),
    [
        ("kl; each arm's law stays inside, rewards without end, with probability 0.975 at least", "law"),
        ("The radius is 0.5 at most.", "before the number"),
        ("The best of them, and else the first, is taken.", "otherwise"),
        ("In a world that stands still there is ever an alarm with probability 1 % at most.", "does not change"),
        ("A tells; B asks; C waits.", "semicolons"),
        ("Rewards of arms that are paused are taken in when they come late.", "who does what"),
        ("The arm goes through the gate.", "check of the pulls"),
        ("Who does not know it is refused.", "anybody who"),
        ("It says " + "that an arm is good, and " * 8 + "more.", "words in one sentence"),
    ],
)
def test_riddles_of_the_past_are_found(sentence: str, why: str) -> None:
    found = PROSE.findings(DOCS / "page.md", f"# Page\n\n{sentence}\n")
    assert any(why in finding.instead for finding in found), found


def test_plain_sentences_are_left_alone() -> None:
    page = """# Page

A policy learns from rewards (`tell`); it never forgets them, e.g. those of Honda et al. (2015).
There are at most 20 arms.

| arm | `and else` |
|---|---|
| A | 1 |

```python
x = 1; y = 2; z = 3  # the law of a world that stands still for ever; else
```

The next sentence begins with code. `Vet` is one policy of many, and $n; m; k$ are numbers.
"""
    assert PROSE.findings(DOCS / "page.md", page) == []
    sentences = [s for paragraph in PROSE.paragraphs(page) for s in PROSE.sentences(paragraph)]
    assert len(sentences) == 4


def test_tables_pictures_and_examples_need_a_sentence_and_guides_a_beginning_and_an_end() -> None:
    code = "## Code\n\n```python\nx = 1\n\ny = 2\n```\n\n"
    bare = f"# Guide\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n{code}## Next\n\n![a picture](picture.png)\n\n## End\n"
    found = PROSE.findings(DOCS / "howto" / "guide.md", bare)
    assert [finding.instead.split()[1] for finding in found] == ["table", "example", "picture", "guide", "guide"]
    begin = "# Guide\n\nThis page shows how to do something useful with a policy, in a few lines.\n\n"
    assert PROSE.findings(DOCS / "howto" / "guide.md", f"{begin}**Next:** [another](another.md).\n") == []


def test_the_first_mention_of_a_special_word_leads_to_the_glossary() -> None:
    core = pytest.importorskip("docutils.core")
    text = "An arm pays, and ``policy`` is code. Two arms pay policies. A *mixture* of arms is a mixture.\n"
    page = core.publish_doctree(f"Policies\n========\n\n{text}")
    assert WORDS.mark(page, GLOSSARY, "glossary.html") == ["arm", "policy"]  # the page itself explains a mixture
    first, second = (node for node in page.findall() if node.tagname == "reference")
    assert (first.astext(), first["refuri"]) == ("arm", "glossary.html#word-arm")
    assert first["reftitle"].startswith("One of the options") and second.astext() == "policies"

    glossary = core.publish_doctree("**Arm.** One of the options.\n\n**Ask, tell.** Two verbs.\n")
    WORDS.give_anchors(glossary, GLOSSARY)
    assert [node["ids"] for node in glossary.findall() if node.tagname == "paragraph"] == [["word-arm"], ["word-ask"]]
    assert GLOSSARY["tell"].anchor == "word-ask" and GLOSSARY["law"].anchor == GLOSSARY["distribution"].anchor

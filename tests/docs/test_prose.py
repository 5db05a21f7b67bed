"""The linter of words finds what it should, and words of the glossary are linked (``make docs`` runs it on all)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"


def script(name: str, folder: Path = DOCS) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"docs_{name}"] = module
    spec.loader.exec_module(module)
    return module


PROSE, SOURCE, WORDS = script("prose"), script("source_prose"), script("words", DOCS / "_ext")
GLOSSARY = WORDS.entries((DOCS / "glossary.md").read_text(encoding="utf-8"))


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


def test_private_words_are_found_in_names_comments_and_docstrings_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SOURCE, "ROOT", tmp_path)
    file = tmp_path / "file.py"
    file.write_text('"""A class of distributions; see what follows."""\nlawn = "the law of a room"\n')
    assert list(SOURCE.private_words(file)) == []
    file.write_text('"""See the law."""\n_row_laws = 1  # a belt\n')
    assert [found.split(": ")[1] for found in SOURCE.private_words(file)] == [
        "“law”",
        "a docstring stands alone",
        "“laws”",
        "“belt”",
    ]


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

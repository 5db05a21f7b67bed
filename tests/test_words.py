"""Words that users read, as far as a machine can judge them: docstrings of public names, messages, and help."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pmbandits as pmb

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "pmbandits"
DIRECTIVE = re.compile(r"^\.\. auto(?:class|function):: (\S+)", re.MULTILINE)
# Results that a function returns and that nobody makes: their example is that of the function.
RESULTS = {
    "Advice", "AdviceTable", "AsyncClient", "AsyncExperiment", "Best", "BoundCurve", "Category", "Change",
    "ChangeWarning", "Client", "Condition", "ConfidenceSet", "Decomposition", "Difference", "ExactValue", "Experiment",
    "Exponents", "Extremum", "Facts", "Forecast", "GapExponent", "Gaps", "Given", "GradientExponent", "Holder",
    "PaperTable", "Plan", "PlanColumn", "PolicyError", "PolicyContract", "Price", "Range", "Rate", "RefinedPhase",
    "Refinement", "RegretBound", "ServiceError", "Setup", "Stop", "Support", "Ticket", "TicketLog", "Told",
    "ArmAdvice", "ArmEstimate",
}  # fmt: skip
# What readers did not understand in these texts, besides what docs/prose.py knows.
RIDDLES = re.compile(
    r"\b(?:can(?:not)? be had|without end|to the letter|of before\b|has not (?:the|one)|is not so\b|what is no\b"
    r"|nobody says|so many (?:of|more)|a matter of|of one's own|in the eyes of|its kin\b|and their like|JSON-ready)"
)


@cache
def public() -> dict[str, Any]:
    """Every class and function that the reference shows, by its name there."""
    pages = sorted((ROOT / "docs" / "reference").glob("*.md"))
    names = {name for page in pages for name in DIRECTIVE.findall(page.read_text(encoding="utf-8"))}
    names |= {f"pmbandits.{name}" for name in pmb.__all__}
    return {name: resolve(name) for name in sorted(names)}


def resolve(dotted: str) -> Any:
    found: Any = pmb
    for part in dotted.split(".")[1:]:
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(f"{found.__name__}.{part}")
    return getattr(found, "py_func", found)


def members() -> Iterator[tuple[str, Any]]:
    """The public names, and the methods and properties of the public classes."""
    for name, thing in public().items():
        yield name, thing
        if inspect.isclass(thing):
            for part, member in vars(thing).items():
                plain = getattr(member, "fget", None) or getattr(member, "func", None) or member
                if not part.startswith(("_", "test_")) and (
                    inspect.isfunction(plain) or isinstance(member, classmethod)
                ):
                    yield f"{name}.{part}", member


def words_of(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def test_every_public_docstring_begins_with_a_sentence_in_one_line() -> None:
    bad = []
    for name, thing in members():
        first, _, rest = words_of(thing).partition("\n")
        whole = first.endswith((".", "?")) and len(first.split()) >= 3 and not re.match("[a-z]", first)
        if not whole or (rest and not rest.startswith("\n")):
            bad.append(f"{name}: {first}")
    assert bad == []


def test_every_public_name_has_an_example_that_runs() -> None:
    for name, thing in public().items():
        last = name.rpartition(".")[2]
        if ".kit." not in name and last not in RESULTS:  # the kit has one example for all
            assert ">>>" in words_of(thing), name


def test_every_parameter_of_a_public_name_is_explained() -> None:
    bad = []
    for name, thing in public().items():
        text = words_of(thing)
        if "Parameters\n------" not in text or (inspect.isclass(thing) and issubclass(thing, pmb.Policy)):
            continue  # of policies tests/policies/test_options.py asks the same
        given = [parameter for parameter in inspect.signature(thing).parameters if not parameter.startswith("_")]
        bad += [f"{name}: {parameter}" for parameter in given if not re.search(rf"\b{parameter}\b", text)]
    assert bad == []


# ---- messages -------------------------------------------------------------------------------------------


@cache
def messages() -> list[tuple[str, str]]:
    """Where each error and warning is raised, and its message; ``{}`` stands for what is filled in."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for at, line in enumerate(lines):
            if re.match(r" +(raise \w+\(|warnings\.warn\()", line):
                call = statement(lines, at)
                texts = [text for argument in call.args if (text := literal(argument)) is not None]
                if texts and " " in texts[-1]:
                    found.append((f"{path.relative_to(SOURCE)}:{at + 1} {ast.unparse(call.func)}", texts[-1]))
    return found


def statement(lines: list[str], at: int) -> ast.Call:
    """The call that begins in a line. To parse single statements is much quicker than whole files."""
    for end in range(at + 1, at + 30):
        try:
            (found,) = ast.parse(textwrap.dedent("\n".join(lines[at:end]))).body
        except SyntaxError:
            continue
        call = found.exc if isinstance(found, ast.Raise) else getattr(found, "value", None)
        assert isinstance(call, ast.Call)
        return call
    raise AssertionError(lines[at])


def literal(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)  # type: ignore[misc]
    return None


def test_messages_are_sentences() -> None:
    assert len(messages()) > 400
    bad = []
    for where, text in messages():
        kind = where.rpartition(" ")[2]
        if kind in ("Damaged", "Gap", "Unclear", "AttributeError", "AssertionError", "SkipTest", "NotImplementedError"):
            continue  # parts of a sentence, and what only programmers read
        if "." not in text and where.startswith("simulation/"):
            continue  # single words that another sentence takes up
        ends = text.endswith((".", "?", "…", "...", "{}", ")", "'pmbandits[service]'"))
        tidy = not re.search(r"  |[,;:]\.(?= |$)|,,|;;|(?<!\.)\.\.(?!\.)| ,", text) and text[0] != " "
        word = re.match(r"\w+", text)
        low = word is None or not text[0].isupper() or word[0].isupper() or hasattr(pmb, word[0])
        if not (ends and tidy and low):
            bad.append(f"{where}: {text}")
    assert bad == []


# ---- language -------------------------------------------------------------------------------------------


def prose_of(docstring: str) -> str:
    """A docstring without examples, tables and references, as Markdown: each parameter is a paragraph."""
    out: list[str] = []
    lines, section, code = docstring.splitlines(), "", False
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if re.fullmatch(r"-{3,}", below):
            section = line
            continue
        code = bool(line) and (code or line.lstrip().startswith((">>>", "===")))
        if section == "References" or code or re.fullmatch(r"-{3,}", line):
            continue
        entry = re.match(r"\*{0,2}\w+(?:, \*{0,2}\w+)* : (.*)", line)
        out += ["", entry[1]] if entry else [line.strip()]
    return re.sub(r"(?::\w+:)?`+[^`]*`+", "`name`", "\n".join(out))


def test_nobody_stumbles_over_a_docstring_or_a_message() -> None:
    spec = importlib.util.spec_from_file_location("docs_prose", ROOT / "docs" / "prose.py")
    assert spec is not None and spec.loader is not None
    prose = sys.modules["docs_prose"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(prose)
    texts = [(name, prose_of(words_of(thing))) for name, thing in members()]
    texts += [(where, re.sub(r"\{\}|'\w+'", "Name", text)) for where, text in messages()]
    assert [str(found) for name, text in texts for found in prose.language(name, text)] == []
    assert [f"{name}: {found[0]}" for name, text in texts if (found := RIDDLES.search(text))] == []


def test_every_help_text_of_the_command_line_is_a_sentence() -> None:
    texts = [
        found for path in SOURCE.glob("cli/*.py") for found in re.findall(r'help=f?"([^"]*)"', path.read_text("utf-8"))
    ]
    assert len(texts) > 60
    assert [text for text in texts if not (text.endswith((".", "…")) and len(text.split()) >= 2)] == []
    assert [text for text in texts if re.match("[a-z]", text)] == []

"""Words in the source, as far as a machine can judge them: docstrings of public names, messages, help, and names.

``docs/prose.py`` runs this with its own rules for pages. A docstring of a public name begins with a sentence in one
line, has an example, and explains every parameter; a message is a sentence; and no name, comment or docstring uses a
word that readers of the field would have to guess (``PRIVATE_WORDS``).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import re
import textwrap
import tokenize
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pmbandits as pmb

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "pmbandits"
DIRECTIVE = re.compile(r"^\.\. auto(?:class|function):: (\S+)", re.MULTILINE)
# Results that a function returns and that nobody makes: their example is that of the function.
RESULTS = {
    "Advice", "AdviceTable", "AsyncClient", "AsyncExperiment", "OracleResult", "BoundCurve", "Category", "Change",
    "ChangeWarning", "Client", "Condition", "ConfidenceSet", "Decomposition", "Difference", "ExactValue", "Experiment",
    "Exponents", "Extremum", "Facts", "Forecast", "GapExponent", "Gaps", "Given", "GradientExponent", "Holder",
    "PaperTable", "Plan", "PlanColumn", "PolicyError", "PolicyContract", "ShadowPrice", "Range", "Rate", "RefinedPhase",
    "Refinement", "RegretBound", "ServiceError", "Setup", "Stop", "Support", "Ticket", "TicketLog", "Told",
    "ArmAdvice", "ArmEstimate", "RegretParts",
}  # fmt: skip
# What readers did not understand in these texts, besides what docs/prose.py knows.
RIDDLES = re.compile(
    r"\b(?:can(?:not)? be had|without end|to the letter|of before\b|has not (?:the|one)|is not so\b|what is no\b"
    r"|nobody says|so many (?:of|more)|a matter of|of one's own|in the eyes of|its kin\b|and their like|JSON-ready)"
)

# Words of a dialect of our own, in names, comments and docstrings; and what the field says.
PRIVATE_WORDS = {
    "law": "distribution",
    "belt": "band",
    "gate": "constraint tracking, or what it checks",
    "room": "package or module",
    "house": "package",
    "desk": "scratch",
    "yardstick": "baseline",
    "battery": "set of tests, contract",
}
# Errors whose texts another sentence takes up, and those that only programmers read.
PARTS_OF_SENTENCES = {
    "DamagedFile", "Diverged", "MissingEvent", "Unclear", "AttributeError", "AssertionError", "SkipTest",
    "NotImplementedError",
}  # fmt: skip
STUMPS = re.compile(r"(?:The same|Such an?|See)\b")  # a docstring that leans on the one before


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
            # What a policy can do stands in the classes below Policy.
            classes = reversed(thing.__mro__) if thing is pmb.Policy else (thing,)
            found = {part: member for one in classes if one is not object for part, member in vars(one).items()}
            for part, member in found.items():
                plain = getattr(member, "fget", None) or getattr(member, "func", None) or member
                if not part.startswith(("_", "test_")) and (
                    inspect.isfunction(plain) or isinstance(member, classmethod)
                ):
                    yield f"{name}.{part}", member


def words_of(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def first_lines() -> Iterator[str]:
    """Public docstrings that do not begin with a sentence in one line."""
    for name, thing in members():
        first, _, rest = words_of(thing).partition("\n")
        whole = first.endswith((".", "?")) and len(first.split()) >= 3 and not re.match("[a-z]", first)
        if not whole or (rest and not rest.startswith("\n")):
            yield f"{name}: begin with a sentence in one line, not with “{first}”"


def examples() -> Iterator[str]:
    """Public names without an example that runs."""
    for name, thing in public().items():
        last = name.rpartition(".")[2]
        if ".kit." not in name and last not in RESULTS and ">>>" not in words_of(thing):  # the kit has one for all
            yield f"{name}: has no example"


def parameters() -> Iterator[str]:
    """Parameters of public names that are not explained."""
    for name, thing in public().items():
        text = words_of(thing)
        if "Parameters\n------" not in text or (inspect.isclass(thing) and issubclass(thing, pmb.Policy)):
            continue  # of policies tests/engine/test_options.py asks the same
        given = [parameter for parameter in inspect.signature(thing).parameters if not parameter.startswith("_")]
        yield from (f"{name}: explain {one}" for one in given if not re.search(rf"\b{one}\b", text))


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


def unfinished_messages() -> Iterator[str]:
    """Messages that are not tidy sentences."""
    for where, text in messages():
        kind = where.rpartition(" ")[2]
        if kind in PARTS_OF_SENTENCES:
            continue
        if "." not in text and where.startswith("simulation/"):
            continue  # single words that another sentence takes up
        ends = text.endswith((".", "?", "…", "...", "{}", ")", "'pmbandits[service]'"))
        tidy = not re.search(r"  |[,;:]\.(?= |$)|,,|;;|(?<!\.)\.\.(?!\.)| ,", text) and text[0] != " "
        word = re.match(r"\w+", text)
        low = word is None or not text[0].isupper() or word[0].isupper() or hasattr(pmb, word[0])
        if not (ends and tidy and low):
            yield f"{where}: not a tidy sentence: {text}"


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


def riddles(language: Callable[[str, str], Iterable[Any]]) -> Iterator[str]:
    """What readers stumble over in public docstrings and in messages, by the rules of pages and some of their own."""
    texts = [(name, prose_of(words_of(thing))) for name, thing in members()]
    texts += [(where, re.sub(r"\{\}|'\w+'", "Name", text)) for where, text in messages()]
    for name, text in texts:
        yield from map(str, language(name, text))
        if found := RIDDLES.search(text):
            yield f"{name}: “{found[0]}” is a riddle"


def help_texts() -> Iterator[str]:
    """Help of the command line that is not a sentence."""
    for path in sorted(SOURCE.glob("cli/*.py")):
        for text in re.findall(r'help=f?"([^"]*)"', path.read_text("utf-8")):
            if not (text.endswith((".", "…")) and len(text.split()) >= 2) or re.match("[a-z]", text):
                yield f"{path.name}: help is a sentence, not “{text}”"


def private_words(path: Path) -> Iterator[str]:
    """Names, comments and docstrings of a file that use a word of our own, and docstrings that do not stand alone."""
    text = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        said = token.type in (tokenize.NAME, tokenize.COMMENT) or token.string.startswith(('"""', 'r"""'))
        for word in re.findall(r"[a-z]+", token.string.lower()) if said else ():
            if instead := PRIVATE_WORDS.get(word, PRIVATE_WORDS.get(word.removesuffix("s"))):
                yield f"{path.relative_to(ROOT)}:{token.start[0]}: “{word}”: say {instead}"
        if token.string.startswith('"""') and STUMPS.match(token.string[3:]):
            yield f"{path.relative_to(ROOT)}:{token.start[0]}: a docstring stands alone: {token.string[:60]}"


def findings(language: Callable[[str, str], Iterable[Any]]) -> list[str]:
    """All that the source should say differently."""
    checks = (first_lines(), examples(), parameters(), unfinished_messages(), riddles(language), help_texts())
    words = (found for path in sorted(SOURCE.rglob("*.py")) for found in private_words(path))
    return [*(found for check in checks for found in check), *words]

"""``make docs``: check words, run every example of the pages, put what they show into the pages, build, check links.

    python docs/build.py                      # everything, into out/docs
    python docs/build.py --only quickstart    # run one page's examples and print what they show

A page's ```python blocks run one after the other in one namespace, as in a notebook: what is printed, the value of a
last expression and open figures are shown below the block. In ```console blocks each line that begins with ``$`` runs
in a shell. Scripts of the gallery are cut into text and code at lines that begin with ``# %%``, and become notebooks
that readers can download. An example that fails fails the build.

What the text claims of a result is checked: a line ``# check: EXPRESSION`` in an example is not shown, and the build
fails unless the expression is true when the example has run. It may use all names of the page, and ``shown``, the text
that the example printed.

Results are kept by the content of the page and of the library, so a second build is fast.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import html.parser
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
ABOUT = (
    "A Python library that finds and learns the mixture of arms which is best for a preference about the whole "
    "distribution of rewards. Start with the quick start; every page is also there as HTML."
)
WIDTH = 92  # characters of a line of output
WIDE = 640  # from this width on, a picture of several parts can be moved sideways on phones
DOTS, SHOWN = 140, 88  # of an inch of a figure: in the file, and on the page
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
CHECK = re.compile(r"^# check: (.+)\n?", re.MULTILINE)


# ---- pages as text and examples --------------------------------------------------------------------------


def sources() -> list[Path]:
    """Every page and every script of the gallery."""
    pages = [p for p in DOCS.rglob("*.md") if not any(part.startswith("_") for part in p.relative_to(DOCS).parts)]
    return sorted(pages) + sorted((DOCS / "gallery").glob("*.py"))


def markdown(path: Path) -> str:
    """A page's text; a gallery script becomes one."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    head, *cells = re.split(r"^# %%.*\n", text, flags=re.MULTILINE)
    parts = [(ast.get_docstring(ast.parse(head)) or "").strip()]
    for prose, code in map(_prose_and_code, cells):
        parts += [prose, f"```python\n{code}\n```" if code else ""]
    parts.append(
        f"*To try it yourself: {{download}}`this page as a notebook <{path.stem}.ipynb>`. "
        f"The script is `docs/gallery/{path.name}`.*"
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def _prose_and_code(cell: str) -> tuple[str, str]:
    """A cell of a gallery script: the comment that it begins with, and the code below."""
    lines = cell.splitlines()
    prose = []
    while lines and lines[0].startswith("#") and not CHECK.match(lines[0]):
        prose.append(lines.pop(0).lstrip("#").removeprefix(" "))
    return "\n".join(prose), "\n".join(lines).strip()


def notebook(path: Path) -> dict[str, Any]:
    """A gallery script as a Jupyter notebook (format 4.5), for readers to download."""
    head, *cells = re.split(r"^# %%.*\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    parts = [("markdown", (ast.get_docstring(ast.parse(head)) or "").strip())]
    for prose, code in map(_prose_and_code, cells):
        parts += [("markdown", prose), ("code", CHECK.sub("", code).strip())]
    made: list[dict[str, Any]] = []
    for kind, text in parts:
        if text:
            cell = {"cell_type": kind, "id": f"cell-{len(made) + 1}", "metadata": {}, "source": text}
            made.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": made, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def examples(path: Path) -> list[tuple[str, str]]:
    """The blocks of a page that are run: (language, code)."""
    return [(found[1], found[2]) for found in BLOCK.finditer(markdown(path))]


def name_of(path: Path) -> str:
    return path.relative_to(DOCS).with_suffix("").as_posix()


# ---- running one page (in a process of its own) ----------------------------------------------------------


def run_page(path: Path, pictures: Path) -> list[dict[str, Any]]:
    """What each example of a page shows: text and pictures."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    from pmbandits.plots import COLOURS, STYLE

    mpl.rcParams.update(STYLE)
    mpl.rcParams.update(
        {"savefig.dpi": DOTS, "figure.figsize": (6.4, 3.8), "axes.prop_cycle": mpl.cycler(color=COLOURS)}
    )
    os.environ["COLUMNS"] = str(WIDTH)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    stem = name_of(path).replace("/", "-")
    for number, (language, code) in enumerate(examples(path), 1):
        start = time.perf_counter()
        try:
            where = f"{name_of(path)}, block {number}"
            text, table = _python(code, namespace, where) if language == "python" else (_shell(code), "")
        except BaseException as error:
            where = "".join(traceback.format_exception(error, limit=-3))
            raise SystemExit(f"{path.relative_to(ROOT)}: block {number} failed\n\n{code}\n{where}") from None
        files: list[str] = []
        widths: list[int] = []
        for figure in map(plt.figure, plt.get_fignums()):
            files.append(f"{stem}-{number}-{len(files)}.png")
            figure.savefig(pictures / files[-1])
            widths.append(round(SHOWN * _width(pictures / files[-1]) / DOTS))
        plt.close("all")
        seconds = time.perf_counter() - start
        shown.append({"text": text, "html": table, "figures": files, "widths": widths, "seconds": seconds})
    return shown


def _python(code: str, namespace: dict[str, Any], where: str) -> tuple[str, str]:
    """What an example prints, and its last value as a notebook shows it, if that is more than text."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, table = io.StringIO(), ""
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, where, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), namespace)
            drawn = value[0] if isinstance(value, tuple) and value else value
            if hasattr(value, "_repr_html_"):
                table = value._repr_html_()
            elif value is not None and not type(drawn).__module__.startswith("matplotlib"):
                print(value if isinstance(value, str) else repr(value))
    namespace["shown"] = printed.getvalue()
    for claim in CHECK.findall(code):
        if not eval(claim, namespace):
            raise ValueError(f"the page claims what its numbers deny: {claim}\nThis was shown:\n{printed.getvalue()}")
    return printed.getvalue(), table


def _width(picture: Path) -> int:
    """Of a PNG file: the first number of its header."""
    return int.from_bytes(picture.read_bytes()[16:20])


def _shell(code: str) -> str:
    shown = []
    for line in code.splitlines():
        if line.startswith("$ "):
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            done = subprocess.run(
                line[2:], shell=True, text=True, capture_output=True, env={**os.environ, "PATH": path}, check=False
            )
            if done.returncode:
                raise RuntimeError(f"{line}\n{done.stdout}{done.stderr}")
            shown.append(done.stdout)
    return "".join(shown)


def one_page(path: Path, target: Path) -> None:
    """The child process: run a page in an empty folder and write what it shows."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        shown = run_page(path, target.parent)
        os.chdir(ROOT)
    target.write_text(json.dumps(shown, ensure_ascii=False), encoding="utf-8")


# ---- running all -----------------------------------------------------------------------------------------


def library() -> str:
    """A hash of the library, on which all examples depend."""
    made = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        made.update(path.read_bytes())
    return made.hexdigest()


def run_all(paths: list[Path], kept: Path, jobs: int) -> dict[Path, list[dict[str, Any]]]:
    """Every page in its own process; what was kept from before is used again."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    kept.mkdir(parents=True, exist_ok=True)
    stamp = library()
    results: dict[Path, list[dict[str, Any]]] = {}
    wanted: dict[Path, Path] = {}
    for path in paths:
        if not examples(path):
            results[path] = []
            continue
        key = hashlib.sha256((stamp + name_of(path) + markdown(path)).encode()).hexdigest()[:16]
        target = kept / f"{name_of(path).replace('/', '-')}.{key}.json"
        if target.exists():
            results[path] = json.loads(target.read_text(encoding="utf-8"))
        else:
            wanted[path] = target
    console = Console()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
    failed = []
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar, ThreadPoolExecutor(jobs) as pool:
        task = bar.add_task("examples", total=len(wanted))

        def work(path: Path) -> tuple[Path, float, subprocess.CompletedProcess[str]]:
            start = time.perf_counter()
            command = [sys.executable, "-W", "ignore", str(Path(__file__)), "--child", str(path), str(wanted[path])]
            done = subprocess.run(command, text=True, capture_output=True, timeout=600, check=False)
            return path, time.perf_counter() - start, done

        for future in as_completed([pool.submit(work, path) for path in wanted]):
            path, seconds, done = future.result()
            bar.advance(task)
            if done.returncode:
                failed.append(path)
                console.print(f"[bold red]failed:[/] {name_of(path)}", highlight=False)
                console.print(done.stderr.strip(), markup=False, highlight=False)
            else:
                results[path] = json.loads(wanted[path].read_text(encoding="utf-8"))
                inside = sum(block["seconds"] for block in results[path])
                console.print(f"{name_of(path)}: {seconds:.1f} s ({inside:.1f} s in examples)", highlight=False)
    if failed:
        sys.exit(f"{len(failed)} page(s) have examples that fail: {', '.join(map(name_of, failed))}.")
    return results


# ---- putting pages together ------------------------------------------------------------------------------


def folded(text: str) -> str:
    """Long sentences in lines that fit the page; tables stay as they are."""
    lines = []
    for line in text.rstrip().splitlines():
        table = re.search(r"[│┃─━]| {3,}\S", line.strip())
        lines += [line] if table or len(line) <= WIDTH else textwrap.wrap(line, WIDTH, subsequent_indent="    ")
    return "\n".join(lines)


def assembled(path: Path, shown: list[dict[str, Any]], depth: int) -> str:
    """A page with its results below its examples."""
    results = iter(shown)
    up = "../" * depth

    def add(found: re.Match[str]) -> str:
        result = next(results)
        parts = [CHECK.sub("", found[0])]
        if result["text"].strip():
            fence = "`" * 4
            parts.append(f"{fence}{{code-block}} text\n:class: output\n\n{folded(result['text'])}\n{fence}")
        if result["html"]:
            parts.append(f'```{{raw}} html\n<div class="output shown">{result["html"]}</div>\n```')
        for file, width in zip(result["figures"], result["widths"], strict=True):
            wide = ".wide " if width > WIDE else ""
            parts.append(f"![what the code above draws]({up}_pictures/{file}){{{wide}width={width}px}}")
        return "\n\n".join(parts)

    return BLOCK.sub(add, markdown(path))


def gallery_index(results: dict[Path, list[dict[str, Any]]]) -> str:
    """Cards with a picture, a title and a sentence."""
    cards, names = [], []
    for path in sorted(p for p in results if p.suffix == ".py"):
        text = markdown(path)
        title = text.splitlines()[0].removeprefix("# ").strip()
        sentence = text.split("\n\n")[1].replace("\n", " ").split(". ")[0].rstrip(".") + "."
        pictures = [file for block in results[path] for file in block["figures"]]
        image = f"![{title}]({'../_pictures/' + pictures[-1]})" if pictures else ""
        cards.append(f":::{{container}} card\n{image}\n\n**[{title}]({path.stem}.md)**\n\n{sentence}\n:::")
        names.append(path.stem)
    intro = (DOCS / "gallery" / "index.md").read_text(encoding="utf-8")
    tree = "```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```"
    return f"{intro}\n::::{{container}} cards\n" + "\n\n".join(cards) + f"\n::::\n\n{tree}\n"


def assemble(results: dict[Path, list[dict[str, Any]]], kept: Path, source: Path) -> None:
    """The folder that sphinx reads."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    shutil.copy(DOCS / "conf.py", source)
    for folder in ("_ext", "_static"):
        shutil.copytree(DOCS / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    pictures = source / "_pictures"
    pictures.mkdir()
    for path, shown in results.items():
        target = (source / path.relative_to(DOCS)).with_suffix(".md")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(assembled(path, shown, len(path.relative_to(DOCS).parts) - 1), encoding="utf-8")
        if path.suffix == ".py":
            text = json.dumps(notebook(path), ensure_ascii=False, indent=1)
            target.with_suffix(".ipynb").write_text(text + "\n", encoding="utf-8")
        for block in shown:
            for file in block["figures"]:
                shutil.copy(kept / file, pictures)
    (source / "gallery" / "index.md").write_text(gallery_index(results), encoding="utf-8")
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, source / name.lower())


# ---- links -----------------------------------------------------------------------------------------------


class _Page(html.parser.HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {value for key in ("id", "name") if (value := found.get(key))}
        self.links |= {value for key in ("href", "src") if (value := found.get(key))}


def broken_links(site: Path) -> Iterator[str]:
    """Links inside the site that lead nowhere, and resources that would need the network."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path, page in pages.items():
        for link in sorted(page.links):
            if re.match(r"[a-z]+:", link):
                continue
            file, _, anchor = link.split("?")[0].partition("#")
            target = (path.parent / file).resolve() if file else path
            if not target.exists():
                yield f"{path.relative_to(site)}: {link} does not exist"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{path.relative_to(site)}: {link} has no such anchor"


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the documentation.")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "docs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", metavar="PAGE", nargs="+", help="run these pages' examples and print; no build")
    parser.add_argument("--child", nargs=2, type=Path, metavar=("PAGE", "TARGET"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        one_page(*given.child)
        return
    kept, source = given.out.parent / "docs-examples", given.out.parent / "docs-source"
    paths = sources()
    if given.only:
        chosen = [path for path in paths if name_of(path) in given.only]
        results = run_all(chosen, kept, given.jobs)
        for path in chosen:
            print(assembled(path, results[path], 0))
        return
    start = time.perf_counter()
    if subprocess.run([sys.executable, str(DOCS / "prose.py")], check=False).returncode:
        sys.exit("the places above should be said differently.")
    results = run_all(paths, kept, given.jobs)
    assemble(results, kept, source)
    shutil.rmtree(given.out, ignore_errors=True)
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(source / ".doctrees")]
    if subprocess.run([*sphinx, str(source), str(given.out)], check=False).returncode:
        sys.exit("the pages have warnings, which count as errors here.")
    sys.path.insert(0, str(DOCS))
    import plain

    texts = {name_of(path): (source / path.relative_to(DOCS)).with_suffix(".md") for path in results}
    plain.write({name: file.read_text(encoding="utf-8") for name, file in texts.items()}, given.out, ABOUT)
    broken = list(broken_links(given.out))
    if broken:
        sys.exit("broken links:\n" + "\n".join(broken))
    blocks = sum(len(shown) for shown in results.values())
    print(f"{given.out}/index.html: {len(paths)} pages, {blocks} examples run, no broken link, in "
          f"{time.perf_counter() - start:.0f} s.")  # fmt: skip


if __name__ == "__main__":
    main()

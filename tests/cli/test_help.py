"""What the command line says of itself: examples that work, completion, and a start without delay."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from pmbandits.cli.app import app
from tests.helpers import python

Command = typer.core.TyperCommand | typer.core.TyperGroup
RUN = ("metrics", "oracle", "theory table", "key", "run --example", "advise")  # cheap enough to run


def leaves(command: Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Command]]:
    """Every command that is not a group, with its name."""
    for name, one in getattr(command, "commands", {}).items():
        yield from leaves(one, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path), command


COMMANDS = dict(leaves(typer.main.get_command(app)))
EXAMPLES = {
    name: re.findall(r"^\s*pmbandits (.+?)$", (command.help or "").partition("Examples:")[2], re.MULTILINE)
    for name, command in COMMANDS.items()
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that examples name."""
    rows = "".join(f"{'AB'[k % 2]},{'AB'[k % 2]},{k % 3 % 2},{k % 3 % 2}\n" for k in range(200))
    (tmp_path / "log.csv").write_text(f"arm,supplier,reward,score\n{rows}")
    (tmp_path / "study").mkdir()
    (tmp_path / "service.toml").write_text("port = 9000\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_whose_options_exist(name: str, files: Path) -> None:
    assert EXAMPLES[name], f"pmbandits {name} --help has no examples"
    for example in EXAMPLES[name]:
        words = shlex.split(example)
        own = next(one for one in COMMANDS if words[: len(one.split())] == one.split())
        COMMANDS[own].make_context(own, words[len(own.split()) :])  # says what is wrong, if anything is


def test_examples_that_are_cheap_run(files: Path) -> None:
    ran = 0
    for example in [one for examples in EXAMPLES.values() for one in examples]:
        if not example.startswith(RUN) or example.startswith(("key revoke", "key rotate")):  # there is no such key
            continue
        with pytest.raises(SystemExit) as stopped:
            app(shlex.split(example))
        assert stopped.value.code in (0, None), example
        ran += 1
    assert ran >= 14


def test_commands_start_without_loading_what_they_do_not_need() -> None:
    code = """
        import sys
        from pmbandits.cli.app import app
        print([name for name in ("numba", "scipy.special", "scipy.stats", "pyarrow", "matplotlib", "pmbandits.policies")
               if name in sys.modules])
    """
    assert python(code) == "[]"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_and_options() -> None:
    script = """
        eval "$(_PMBANDITS_COMPLETE=source_bash pmbandits)"
        try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pmbandits_completion pmbandits; echo "${COMPREPLY[*]}"; }
        try pmbandits or
        try pmbandits key ""
        try pmbandits advise log.csv --met
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where the command was installed
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env={**os.environ, "PATH": path}, check=False
    )
    assert done.stdout.splitlines() == ["oracle", "create rotate list revoke", "--metric"], done

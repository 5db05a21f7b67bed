"""Verdicts take their time: they are worked out in a process of their own, which ends when nobody waits any more.

The two processes talk through pipes. Only the studio itself writes into them, so that pickle is safe here.
"""

from __future__ import annotations

import atexit
import os
import pickle
import re
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any, BinaryIO

_CODE = re.compile(r"\b(?:lower_cvar|cvar|var)\([\d.]+\)|\binter_quantile_range\b(?:\([\d., ]+\))?")
_PATIENCE = 1.5  # seconds after which a verdict that nobody waits for is ended, not finished


class Stale(Exception):
    """Somebody asked for something newer."""


class Careful:
    """One helper process, for one question at a time. A newer question replaces those that wait."""

    def __init__(self) -> None:
        self._turn, self._guard = threading.Lock(), threading.Lock()
        self._newest = 0
        self._since: float | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._loaded: object = None
        atexit.register(self.end)

    def start(self) -> None:
        """Begin to start the helper, so that it is ready when it is needed."""
        with self._turn:
            self._ready()

    def ask(self, problem: Any, question: dict[str, Any], *, replaceable: bool = True) -> Any:
        """Ask about a problem. Raises :class:`Stale` where a newer one came, and ``ValueError`` with a sentence."""
        with self._guard:
            if replaceable:
                self._newest += 1
            mine = self._newest
            if replaceable and self._since is not None and time.monotonic() - self._since > _PATIENCE:
                self.end()
        with self._turn:
            if replaceable and mine != self._newest:
                raise Stale
            self._since = time.monotonic() if replaceable else None
            try:
                process = self._ready()
                if self._loaded is not problem:
                    self._exchange(process, ("load", problem))
                    self._loaded = problem
                kind, answer = self._exchange(process, ("ask", question))
            except (EOFError, OSError, pickle.UnpicklingError):
                self.end()
                if replaceable and mine != self._newest:
                    raise Stale from None
                raise ValueError("the verdict could not be worked out; try again.") from None
            finally:
                self._since = None
        if kind == "error":
            raise ValueError(answer)
        return answer

    def _ready(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pmbandits.pages.studio.careful"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        return self._process

    @staticmethod
    def _exchange(process: subprocess.Popen[bytes], message: Any) -> Any:
        assert process.stdin is not None and process.stdout is not None
        _send(process.stdin, message)
        return _receive(process.stdout)

    def end(self) -> None:
        """End the helper."""
        process, self._process, self._loaded = self._process, None, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # what was not sent any more
                    pipe.close()  # type: ignore[union-attr]


def _send(pipe: Any, message: Any) -> None:
    raw = pickle.dumps(message, protocol=5)
    pipe.write(struct.pack("<Q", len(raw)))
    pipe.write(raw)
    pipe.flush()


def _receive(pipe: Any) -> Any:
    head = pipe.read(8)
    if len(head) < 8:
        raise EOFError
    size = struct.unpack("<Q", head)[0]
    raw = pipe.read(size)
    if len(raw) < size:
        raise EOFError
    return pickle.loads(raw)


# ---- the helper ------------------------------------------------------------------------------------------


def main(into: BinaryIO, out: BinaryIO) -> None:
    """Answer until the studio ends."""
    problem: Any = None
    while True:
        try:
            kind, given = _receive(into)
        except EOFError:
            return
        if kind == "load":
            problem = given
            _send(out, ("loaded", None))
            continue
        try:
            _send(out, ("answer", answer(problem, given)))
        except (ValueError, TypeError) as error:
            _send(out, ("error", str(error)))


def answer(problem: Any, question: dict[str, Any]) -> dict[str, Any]:
    """The advice on one or several preferences; with the report, if it is asked for."""
    from dataclasses import replace

    from pmbandits.advice import AdviceTable, report
    from pmbandits.advice.recommend import judge
    from pmbandits.metrics import as_metric

    metrics = [as_metric(text) for text in question["metrics"]]
    found = judge(
        problem,
        metrics,
        level=question["level"],
        shares=question["shares"],
        loss=question["loss"],
        repeat=question["repeat"],
    )
    if question.get("report"):
        named = [replace(advice, log=replace(advice.log, source=question["source"])) for advice in found]
        return {"page": report.page(named[0] if len(named) == 1 else AdviceTable(named))}
    return {
        "advice": [
            {
                **{key: value for key, value in advice.to_dict().items() if key not in ("rows", "repeat")},
                "recommendation": advice.recommendation,
                "reason": advice.reason,
                "outlook": advice.outlook,
                "costs": [_cost(price) for price in advice.costs.values()],
                "people": _for_people(advice),
            }
            for advice in found
        ]
    }


def _for_people(advice: Any) -> dict[str, Any]:
    """The sentences without what only programmers need, and with the words of the page."""
    from pmbandits.advice.spoken import spoken
    from pmbandits.metrics import as_metric

    name, where = repr(advice.metric), "“Change how it is read”, then “Where can rewards lie at all?”"

    offers: dict[str, str] = {}

    def in_words(found: re.Match[str]) -> str:
        offers[found[0]] = spoken(as_metric(found[0]))
        return offers[found[0]]

    def said(text: str) -> str:
        text = _CODE.sub(in_words, text.replace(name, "this preference"))
        text = text.replace(" by this preference", "").replace("`", "")
        text = re.sub(r"support=Interval.*?in the studio", where, text)
        text = text.replace("declare Interval(lo, hi)", f"say where they can lie ({where})")
        return text[:1].upper() + text[1:]

    return {
        "recommendation": said(advice.recommendation),
        "reason": said(advice.reason),
        "outlook": said(advice.outlook),
        "warnings": [said(text) for text in advice.warnings],
        "offers": [{"say": f"Look at {words}", "metric": text} for text, words in offers.items()],
        "notes": [said(text) for text in (*advice.checks, *advice.notes) if not text.startswith("In the data, ")],
    }


def _cost(price: Any) -> str:
    """What a limit costs, in percent of what could be reached without it."""
    limit = f"The limit {price.text}" if price.arm is None else f"The limit on {price.arm} ({price.text})"
    if price.gain <= 1e-9 * max(abs(price.value), abs(price.without)):
        return f"{limit} costs nothing."
    share = f" ({100.0 * price.gain / price.without:.2g} %)" if price.without > 0.0 else ""
    return f"{limit} costs {price.gain:.3g}{share} in these data."


if __name__ == "__main__":
    # Whatever is printed on the way must not disturb the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with sys.stdin.buffer as questions, answers:
        main(questions, answers)

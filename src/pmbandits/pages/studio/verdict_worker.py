"""Verdicts take their time: they are worked out in a process of their own, which ends when nobody waits any more."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import threading
import time
from contextlib import suppress
from math import isfinite
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

_ABANDON_AFTER = 1.5  # seconds after which a verdict that nobody waits for is ended, not finished


class Superseded(Exception):
    """A newer request has replaced this one."""


class VerdictWorker:
    """One helper process, for one question at a time. A newer question replaces those that wait."""

    def __init__(self) -> None:
        self._busy, self._newest_lock = threading.Lock(), threading.Lock()
        self._newest = 0
        self._since: float | None = None
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._loaded: object = None

    def start_process(self) -> None:
        """Begin to start the helper, so that it is ready when it is needed."""
        with self._busy:
            self._pipe_to_running_helper()

    def ask(self, problem: Any, question: dict[str, Any], *, replaceable: bool = True) -> Any:
        """Ask about a problem. Raises :class:`Superseded` if a newer one came, and ``ValueError`` with a sentence."""
        with self._newest_lock:
            if replaceable:
                self._newest += 1
            mine = self._newest
            if replaceable and self._since is not None and time.monotonic() - self._since > _ABANDON_AFTER:
                self.end_process()
        with self._busy:
            if replaceable and mine != self._newest:
                raise Superseded
            self._since = time.monotonic() if replaceable else None
            try:
                pipe = self._pipe_to_running_helper()
                pipe.send((None if self._loaded is problem else problem, question))
                self._loaded = problem
                answer, error = pipe.recv()
            except (EOFError, OSError, pickle.UnpicklingError):
                self.end_process()
                if replaceable and mine != self._newest:
                    raise Superseded from None
                raise ValueError("the verdict could not be worked out; try again.") from None
            finally:
                self._since = None
        if error is not None:
            raise ValueError(error)
        return answer

    def _pipe_to_running_helper(self) -> Connection:
        """The pipe to the helper, which is started if it does not run."""
        if self._pipe is None or self._process is None or not self._process.is_alive():
            self.end_process()
            context = multiprocessing.get_context("spawn")
            self._pipe, theirs = context.Pipe()
            self._process = context.Process(target=_answer_requests, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()  # so that the pipe ends with the helper
        return self._pipe

    def end_process(self) -> None:
        """End the helper."""
        process, self._process, self._pipe, self._loaded = self._process, None, None, None
        if process is not None:
            process.kill()
            process.join()


def _answer_requests(pipe: Connection) -> None:
    """The helper: answer (problem or ``None`` for the last one, question) until the studio ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the studio, which ends this process
    problem: Any = None
    with suppress(EOFError, OSError):  # the studio has ended
        while True:
            given, question = pipe.recv()
            problem = problem if given is None else given
            try:
                reply: tuple[Any, str | None] = advice_for_request(problem, question), None
            except (ValueError, TypeError) as error:
                reply = None, str(error)
            pipe.send(reply)


def advice_for_request(problem: Any, question: dict[str, Any]) -> dict[str, Any]:
    """The advice on one or several preferences; with the HTML report, if the request wants it."""
    from dataclasses import replace

    from pmbandits.advice import AdviceTable, report
    from pmbandits.advice.recommend import advise_on_problem
    from pmbandits.metrics.catalogue import as_preference

    wishes = [as_preference(text) for text in question["metrics"]]
    metrics = [wish.of_losses() if question["loss"] else wish.metric for wish in wishes]
    found = advise_on_problem(
        problem,
        metrics,
        level=question["level"],
        shares=question["shares"],
        loss=question["loss"],
        matters=question["matters"],
        repeat=question["repeat"],
    )
    by_column = (question["by"] or question["segment"]) and len(metrics) == 1
    groups = _advice_by_column(question) if by_column else None
    if question.get("report"):
        named = [replace(advice, log=replace(advice.log, source=question["source"])) for advice in found]
        if groups is not None:
            groups.whole = named[0]
        whole = named[0] if len(named) == 1 else AdviceTable(named)
        return {"page": report.html_page(whole if groups is None else groups)}
    said = None
    if groups is not None:
        findings = [f"{finding.seen} {finding.done}" for finding in getattr(groups, "findings", ())]
        said = {"rows": groups.rows(), "said": [groups.headline, groups.comparison, *findings], "title": groups.title}
    return {"advice": [_advice_for_page(advice) for advice in found], "groups": said}


def _advice_by_column(question: dict[str, Any]) -> Any:
    """The advice for each group of rows, or the plan for each segment, read from the file."""
    from pmbandits.advice import advise

    names = "shares", "level", "loss", "matters", "by", "segment"
    more = {name: question[name] for name in names if question[name] is not None}
    return advise(question["path"], question["metrics"][0], **question["options"], **more)


def _advice_for_page(advice: Any) -> dict[str, Any]:
    """An advice as the page takes it: its numbers, and its sentences without what only commands and programs need."""
    from pmbandits.advice import next_steps, sentences

    left = {*advice.log.findings, *(c for c in advice.caveats if c.kind == "rows")}  # these stand beside the table
    caveats = [f"{caveat.seen} {caveat.done}".strip() for caveat in advice.caveats if caveat not in left]
    written, averages = sentences.number_format(advice), sentences.average_format(advice)
    return {
        **{key: value for key, value in advice.to_dict().items() if key not in ("rows", "repeat")},
        "arms": [
            {
                "name": a.name,
                "share": a.share,
                "interval": a.interval if isfinite(a.interval[0]) else None,
                "span": written.interval_text(a.interval),
                "score": written(a.utility),
                "average": averages(a.mean),
            }
            for a in advice.arms
        ],
        "badge": sentences.short_verdict(advice),
        "kind": advice.decision.kind,
        "recommendation": advice.recommendation,
        "reason": advice.reason,
        "price": advice.price,
        "outlook": _next_step_on_the_page(advice),
        "caveats": caveats,
        "offers": [
            {"say": f"Look at {words}", "metric": text}
            for words, text in next_steps.preferences_without_heavy_tails(advice)
        ]
        if advice.decision.next_step.kind == "other preference"
        else [],
        "costs": [_cost_of_limit_text(price) for price in advice.costs.values()],
        "notes": [text for text in advice.notes if not text.startswith(("In the data, ", "What you value, as"))],
    }


def _next_step_on_the_page(advice: Any) -> str:
    """What to do next, without options of commands: where the page has them."""
    step, doubt = advice.decision.next_step.kind, advice.doubt
    if step == "ask again" and doubt is not None:
        if doubt.kind == "units" and "“" in doubt.seen:
            return "First press “Allow for that”, under “Your table”. Until then intervals may be too narrow."
        return "First decide how the table is read, under “Your table”."
    return advice.outlook.replace("--since DATE; since= in Python", "“Only rows since”, under “More choices”")


def _cost_of_limit_text(price: Any) -> str:
    """What a limit costs, in percent of what could be reached without it."""
    limit = f"The limit {price.text}" if price.arm is None else f"The limit on {price.arm} ({price.text})"
    if price.gain <= 1e-9 * max(abs(price.value), abs(price.without)):
        return f"{limit} costs nothing."
    share = f" ({100.0 * price.gain / price.without:.2g} %)" if price.without > 0.0 else ""
    return f"{limit} costs {price.gain:.3g}{share} in these data."

"""Bodies that no client would send, to the routes that read them without a framework.

Whatever comes, the answer is a sentence or the work is done; a refusal changes nothing; what was acknowledged is in the
log; and afterwards the policy is the one that the library makes of the log, pull by pull.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pmbandits import _validation
from pmbandits.service.openapi import openapi_description
from tests.service.replaying import replayed, rows_of, same
from tests.service.serving import SHOP, Served, serving
from tests.service.test_processes import policy_of

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 0.5, -0.0, 1e308, 1e-320, 2**31, 2**53, 2**53 + 1, 2**63, 2**64, -(2**63), 10**40,
    "", "A", "Z", "a" * 200, "a" * 201, "\0", "\x1b[2J", "<script>", "=cmd()", "é\u202e", "𝒜", [], {},
    [[]], [None], {"A": 1},
)  # fmt: skip
FIELDS = ("n", "among", "key", "unit", "ticket", "reward", "tickets", "rewards", "arm", "x")
PIECES = (
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u0000", b"\\ud800", b"\xff", b"\x00", b"NaN", b"Infinity",
    b"1e999", b"-", b"0", b"00", b"1.", b"null", b"true", b'"n":', b'"key":"k"', b'"ticket":1', b'"tickets":[1,1]',
    b'"rewards":[1,0]', b'"correct":true', b'"unit":"u"', b'"among":["A"]', b"/**/", b"\xef\xbb\xbf", b" " * 50,
    b"[" * 500, b"9" * 400,
)  # fmt: skip


class Attack:
    """Requests that are made up, and what must be true after each."""

    def __init__(self, served: Served, seed: int) -> None:
        self.served, self.rng, self.answers = served, random.Random(seed), Counter[tuple[str, int]]()
        self.asked: list[int] = []  # what was acknowledged
        self.told: dict[int, float] = {}
        schema = openapi_description(served.app.fallback_app)
        self.schemas = {
            verb: {"$ref": f"#/components/schemas/{verb.title()}", "components": schema["components"]}
            for verb in ("ask", "tell")
        }

    def body(self, verb: str, seen: int) -> bytes:
        """A good body, or one that was good before somebody changed it."""
        rng = self.rng
        tickets = [
            rng.randint(1, seen + 2) if rng.random() < 0.1 or not self.asked else rng.choice(self.asked[-40:])
            for _ in range(rng.choice((1, 1, 2, 5)))
        ]
        rewards = [7 if rng.random() < 0.05 else rng.randint(0, 1) for _ in tickets]
        good: dict[str, Any] = {}
        if verb == "ask":
            options = {"n": rng.choice((1, 2, 9)), "among": rng.sample("ABC", 2), "unit": rng.choice("uvw")}
            good = {name: value for name, value in options.items() if rng.random() < 0.4}
        elif rng.random() < 0.15:
            good = {"arms": [rng.choice("ABC") for _ in tickets], "rewards": rewards}
        elif rng.random() < 0.5:
            good = {"tickets": tickets, "rewards": rewards}
        else:
            good = {"ticket": tickets[0], "reward": rewards[0]}
        if rng.random() < 0.3:
            good["key"] = f"k{rng.randint(0, 20)}"
        if verb == "tell" and rng.random() < 0.4:
            good["correct"] = True
        what = rng.random()
        if what < 0.3:
            return json.dumps(good).encode()
        for _ in range(rng.choice((1, 1, 2, 4))):
            name = rng.choice([*good, *FIELDS])
            if rng.random() < 0.25:
                good.pop(name, None)
            elif isinstance(good.get(name), list) and rng.random() < 0.5:
                good[name].insert(rng.randint(0, 2), copy.deepcopy(rng.choice(ODD)))
            else:
                good[name] = copy.deepcopy(rng.choice(ODD))
        text = bytearray(json.dumps(good, ensure_ascii=rng.random() < 0.5).encode())
        for _ in range(rng.choice((0, 1, 3)) if what < 0.65 else 0):
            at = rng.randint(0, len(text))
            match rng.randint(0, 3):
                case 0:
                    text[at:at] = rng.choice(PIECES)
                case 1:
                    del text[at : at + rng.randint(1, 9)]
                case 2 if at < len(text):
                    text[at] ^= 1 << rng.randint(0, 7)
                case 3:
                    text[at:at] = text[: rng.randint(0, len(text))]
        return bytes(text)

    async def sent(self, verb: str, body: bytes) -> tuple[int, Any]:
        """Status and answer, without a client that would mend anything."""
        path, answers, parts = f"/v1/experiments/shop/{verb}", list[Any](), [body[:7], body[7:]]
        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
            "headers": [(b"host", b"127.0.0.1:8000")],
        }  # fmt: skip

        async def receive() -> Any:
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

        async def send(message: Any) -> None:
            answers.append(message)

        await self.served.app(scope, receive, send)
        return answers[0]["status"], json.loads(answers[1]["body"])

    async def run(self, tries: int) -> None:
        live = await self.served.service.live_experiment_or_refuse("shop")
        for _ in range(tries):
            verb, before = self.rng.choice(("ask", "tell")), live.replay.seen
            body = self.body(verb, before)
            status, answer = await self.sent(verb, body)
            new = live.replay.seen - before
            self.answers[verb, status] += 1
            about = (body, status, answer)
            if status != 200:
                assert status in (404, 409, 413, 422), about
                assert (
                    list(answer) == ["error"]
                    and _validation.escape_control_characters(answer["error"]) == answer["error"]
                ), about
                assert new == 0, about
                continue
            read = json.loads(body or b"{}")
            jsonschema.validate(read, self.schemas[verb])
            if verb == "ask":
                arms = answer.get("arms") or [answer["arm"]]
                self.asked += answer.get("tickets") or [answer["ticket"]]
                assert new == len(arms) or (new == 0 and "key" in read), about
                assert set(arms) <= set(read.get("among") or "ABC"), about
                continue
            assert new == answer["taken"] + answer["corrected"], about
            tickets, rewards = read.get("tickets") or [read.get("ticket")], read.get("rewards") or [read.get("reward")]
            assert sum(answer.values()) == len(rewards), about
            if tickets != [None] and new:
                self.told |= dict(zip(tickets, rewards, strict=True))


def attacked(store: Path, seed: int, tries: int) -> Counter[tuple[str, int]]:
    with serving(store) as served:
        served.post("", SHOP)
        attack = Attack(served, seed)
        for _ in range(tries // 50):
            served.wait(attack.run(50))
        spec, rows = rows_of(f"sqlite:///{store}", "shop")
        same(policy_of(served, "shop", store.parent), replayed(spec, rows))
    in_the_log = {ticket: value for _, kind, ticket, _, value, _ in rows if kind in (1, 2) and ticket is not None}
    assert in_the_log == attack.told, "what was acknowledged is there, and nothing else"
    return attack.answers


def test_bodies_that_nobody_would_send(tmp_path: Path) -> None:
    answers = attacked(tmp_path / "store.db", 0, 3000)
    for verb in ("ask", "tell"):
        assert answers[verb, 200] > 200 and answers[verb, 422] > 200, "neither all are good, nor all are bad"
    assert answers["tell", 404] and answers["tell", 409] and answers["ask", 409]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_many_bodies_that_nobody_would_send(tmp_path: Path, seed: int) -> None:
    attacked(tmp_path / "store.db", seed, 30_000)


def test_who_waits_when_the_service_stops_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server cancels what takes longer than it waits for."""
    with serving(tmp_path / "store.db") as served:

        async def forever(*_given: Any) -> None:
            await asyncio.sleep(100)

        monkeypatch.setattr(served.service, "compile_in_other_process", forever)

        async def create_and_cancel() -> list[Any]:
            body, sent = json.dumps(SHOP).encode(), list[Any]()
            scope = {
                "type": "http",
                "method": "POST",
                "path": "/v1/experiments",
                "raw_path": b"/v1/experiments",
                "query_string": b"",
                "headers": [(b"host", b"127.0.0.1:8000")],
                "http_version": "1.1",
                "scheme": "http",
                "server": ("127.0.0.1", 8000),
                "client": ("127.0.0.1", 1),
                "root_path": "",
            }

            async def receive() -> Any:
                return {"type": "http.request", "body": body, "more_body": False}

            async def send(message: Any) -> None:
                sent.append(message)

            task = asyncio.ensure_future(served.app(scope, receive, send))
            await asyncio.sleep(0.5)
            task.cancel()
            await task
            return sent

        start, content = served.wait(create_and_cancel())
        assert start["status"] == 503 and "is stopping" in json.loads(content["body"])["error"]

"""Policies with segments: who arrives, what counts for whom, and what stays true whatever happens in between."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import pmbandits as pmb
from pmbandits.engine.policy_file import description_checksum

SOME_ARMS = {"new": ["A", "B"], "returning": ["B", "C"]}


def make(kind: str = "uniform", segments: Any = ("new", "returning"), **options: Any) -> pmb.Policy:
    cls = {"uniform": pmb.Uniform, "vet": pmb.Vet}[kind]
    given = {"support": pmb.Interval(0, 1), "names": ["A", "B", "C"], **options}
    return cls("gini", segments=segments, **given)


def fingerprint(policy: pmb.Policy) -> Any:
    """All that a mistake must not change."""
    return (
        policy._memory.words.tobytes(),
        policy.names,
        policy.segments,
        repr(policy.options),
        dict(policy._tickets.open),
        dict(policy._tickets.answered),
        policy._arm_states(),
    )


def reloaded(policy: pmb.Policy) -> pmb.Policy:
    file = io.BytesIO()
    policy.save(file)
    return pmb.load(file)


# ---- asking and telling ------------------------------------------------------------------------------------


def test_only_arms_of_the_segment_are_chosen_and_counted_for_it() -> None:
    policy = make(segments=SOME_ARMS)
    assert policy.names == ("A", "B", "C")
    assert set(policy.ask(10, segment="new").tolist()) == {0, 1}
    assert set(policy.ask(4, segment="returning").tolist()) == {1, 2}
    assert policy.pulls.tolist() == [[5, 5, 0], [0, 2, 2]]
    assert policy.arrivals.tolist() == [10, 4]
    assert policy.mixture.tolist() == [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]
    policy.tell([1, "B", 2], [0.1, 0.2, 0.3], segment=["new", "returning", "returning"])
    policy.tell("A", [0.4, 0.5], segment="new")
    known = {arm.name: (arm.n, round(arm.mean, 3)) for arm in policy.estimates if arm.n}
    assert known == {"new: A": (2, 0.45), "new: B": (1, 0.1), "returning: B": (1, 0.2), "returning: C": (1, 0.3)}
    assert policy.pending.tolist() == [[3, 4, 0], [0, 1, 1]]


def test_names_are_the_union_of_the_segments_arms_where_none_are_given() -> None:
    assert pmb.Uniform("gini", support=pmb.Binary(), segments=SOME_ARMS).names == ("A", "B", "C")


def test_a_list_of_people_is_asked_for_in_its_order() -> None:
    one, each = make(), make()
    people = ["new", "returning", "returning", "new"] * 5
    assert one.ask(segment=people).tolist() == [each.ask(segment=who) for who in people]
    assert one.pulls.tolist() == each.pulls.tolist()


def test_with_one_segment_it_plays_as_without() -> None:
    plain = pmb.Uniform("gini", n_arms=3, support=pmb.Binary(), seed=7)
    alone = pmb.Uniform("gini", n_arms=3, support=pmb.Binary(), seed=7, segments=["all"])
    for t in range(200):
        arm = plain.ask()
        assert alone.ask(segment="all") == arm
        plain.tell(arm, float(t % 2))
        alone.tell(arm, float(t % 2), segment="all")
    assert alone.pulls.tolist() == [plain.pulls.tolist()]


def test_arms_that_are_not_available_are_not_chosen() -> None:
    policy = make(segments=SOME_ARMS)
    assert policy.ask(6, among=["B", "C"], segment="new").tolist() == [1] * 6
    with pytest.raises(ValueError, match="A, B"):
        policy.ask(among=["C"], segment="new")


def test_a_recipe_is_bound_to_segments() -> None:
    recipe = pmb.Uniform()
    policy = recipe.bind("gini", 2, pmb.Binary(), names=["A", "B"], segments=["new", "old"])
    assert policy.segments == ("new", "old")
    assert pmb.Uniform("gini", n_arms=2, support=pmb.Binary(), segments=np.array(["x", "y"])).segments == ("x", "y")
    policy.tell([], [], segment=[])  # no rewards of nobody are nothing
    assert pmb.Uniform(segments=["x"]).bind("gini", 2, pmb.Binary()).segments == ("x",)


MISTAKES = {
    "no segment": (lambda p: p.ask(), TypeError, "new, returning"),
    "no segment for several": (lambda p: p.ask(3), TypeError, "new, returning"),
    "no segment of a reward": (lambda p: p.tell(0, 1.0), TypeError, "new, returning"),
    "no segment of rewards": (lambda p: p.tell(np.array([0]), np.array([1.0])), TypeError, "new, returning"),
    "no segment of a ticket": (lambda p: p.ask_ticket(), TypeError, "new, returning"),
    "unknown": (lambda p: p.ask(segment="nwe"), ValueError, "'new'"),
    "unknown among several": (lambda p: p.ask(segment=["new", "x"]), ValueError, "'x'"),
    "unknown of a reward": (lambda p: p.tell(0, 1.0, segment="x"), ValueError, "'x'"),
    "a number": (lambda p: p.ask(segment=0), ValueError, "0"),
    "an arm that it does not have": (lambda p: p.tell("C", 1.0, segment="new"), ValueError, "A, B"),
    "an arm that nobody has": (lambda p: p.tell("D", 1.0, segment="new"), ValueError, "D"),
    "too few segments": (lambda p: p.tell(["A", "B"], [1.0, 1.0], segment=["new"]), ValueError, "2"),
    "nobody": (lambda p: p.ask(segment=[]), ValueError, "0"),
    "a bad reward": (lambda p: p.tell(["A", "B"], [1.0, 2.0], segment="new"), ValueError, "2"),
    "a segment twice": (lambda p: p.add_segment("new"), ValueError, "'new'"),
    "a segment of unknown arms": (lambda p: p.add_segment("x", ["Q"]), ValueError, "'Q'"),
    "an arm for an unknown segment": (lambda p: p.add_arm("D", segments=["x"]), ValueError, "'x'"),
    "an arm for one segment twice": (lambda p: p.add_arm("D", segments=["new", "new"]), ValueError, "twice"),
    "no reward of an unknown segment": (lambda p: p.tell([], [], segment="x"), ValueError, "'x'"),
    "a segment that is a list": (lambda p: p.add_segment([1]), ValueError, "text"),
    "an arm for nobody": (lambda p: p.add_arm("D", segments=[]), ValueError, "'D'"),
    "the last arm": (lambda p: [p.pause("A", segment="new"), p.pause("B")], ValueError, "new"),
    "an event of an unknown segment": (lambda p: p.replay([0, 1], [None, 1.0], segments=["new", "x"]), ValueError, "x"),
    "an event without": (lambda p: p.replay([0], [None]), TypeError, "new, returning"),
    "asked for an arm that it does not have": (lambda p: p.asked("C", segment="new"), ValueError, "A, B"),
    "merged with one without": (
        lambda p: p.merge(pmb.Uniform("gini", names=list("ABC"), support=pmb.Interval(0, 1))), ValueError, "segments"
    ),
    "merged with others": (lambda p: p.merge(make(segments={**SOME_ARMS, "x": ["A"]})), ValueError, "'x'"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_one_sentence_and_changes_nothing(mistake: str) -> None:
    act, error, fact = MISTAKES[mistake]
    policy = make(segments=SOME_ARMS)
    policy.tell(policy.ask(segment="new"), 0.5, segment="new")
    if mistake == "the last arm":
        policy.pause("A", segment="new")
        act = lambda p: p.pause("B")  # noqa: E731
    before = fingerprint(policy)
    with pytest.raises(error) as caught:
        act(policy)
    text = str(caught.value)
    assert fact in text
    assert text.endswith(".") and "\n" not in text
    assert fingerprint(policy) == before


@pytest.mark.parametrize(
    ("segments", "fact"),
    [("new", "new"), ([], "segment"), (["a", "a"], "'a'"), ([1], "1"), ({"new": ["A"]}, "'B'"), ({"new": []}, "arm"),
     ({"new": ["A", "B", "C", "D"]}, "'D'")],
)  # fmt: skip
def test_segments_that_cannot_be_are_refused(segments: Any, fact: str) -> None:
    with pytest.raises((ValueError, TypeError), match=fact):
        make(segments=segments)


@pytest.mark.parametrize("cls", [pmb.Track, pmb.CIRT, pmb.PMETC, pmb.UCB1, pmb.Thompson])
def test_policies_without_a_rule_for_segments_say_which_have_one(cls: Any) -> None:
    more = {"horizon": 99} if cls is pmb.PMETC else {}
    with pytest.raises(ValueError, match="Vet"):
        cls("mean", n_arms=2, support=pmb.Binary(), segments=["new"], **more)


@pytest.mark.parametrize("call", ["ask", "tell", "ask_ticket", "asked", "replay", "add_segment", "pause", "add_arm"])
def test_a_policy_without_segments_refuses_one(call: str) -> None:
    policy = pmb.Track("gini", names=["A", "B"], support=pmb.Binary())
    act = {
        "ask": lambda: policy.ask(segment="new"),
        "tell": lambda: policy.tell(0, 1.0, segment="new"),
        "ask_ticket": lambda: policy.ask_ticket(segment="new"),
        "asked": lambda: policy.asked(0, segment="new"),
        "replay": lambda: policy.replay([0], [None], segments=["new"]),
        "add_segment": lambda: policy.add_segment("new"),
        "pause": lambda: policy.pause("A", segment="new"),
        "add_arm": lambda: policy.add_arm("C", segments=["new"]),
    }[call]
    before = fingerprint(policy)
    with pytest.raises(ValueError, match="no segments"):
        act()
    assert fingerprint(policy) == before
    assert policy.segments == ()


# ---- tickets, files, merging -------------------------------------------------------------------------------


def test_a_ticket_knows_its_segment(tmp_path: Any) -> None:
    policy = make(segments=SOME_ARMS)
    ticket = policy.ask_ticket(segment="returning")
    assert ticket.segment == "returning" and ticket.name in ("B", "C") and ticket.share == 0.5
    policy.add_segment("staff", ["C"])  # columns move; the ticket does not
    again = reloaded(policy)
    for one in (policy, again):
        with pytest.raises(TypeError, match="segment"):
            one.tell(ticket=ticket, reward=0.7, segment="new")
        one.tell(ticket=ticket.id, reward=0.7)
        one.tell(ticket=ticket.id, reward=0.7)
        told = [(arm.name, arm.n) for arm in one.estimates if arm.n]
        assert told == [(f"returning: {ticket.name}", 1)]
        one.retell(ticket=ticket.id, reward=0.3)
        assert next(arm for arm in one.estimates if arm.n).mean == pytest.approx(0.3)
        assert one.log().columns["segment"].tolist() == ["returning"]
        one.log().save(tmp_path / "log.csv")


def test_a_reward_is_corrected_in_its_segment() -> None:
    policy = make()
    policy.tell(["A", "A"], [0.2, 0.2], segment=["new", "returning"])
    policy.retell("A", 0.2, 0.9, segment="returning")
    assert [arm.mean for arm in policy.estimates if arm.n] == [0.2, 0.9]


def test_merging_adds_the_arrivals_of_each_segment() -> None:
    here, there = make(), make()
    here.ask(7, segment="new")
    there.ask(segment=["new", "returning", "returning"])
    ticket = there.ask_ticket(segment="returning")
    here.merge(there)
    assert here.arrivals.tolist() == [8, 3]
    here.tell(ticket=ticket, reward=0.5)
    assert sum(arm.n for arm in here.estimates if arm.name.startswith("returning")) == 1


def test_threads_ask_and_tell_for_segments_of_one_policy() -> None:
    policy = make(segments=SOME_ARMS)

    def work(segment: str) -> None:
        for _ in range(200):
            policy.tell(policy.ask(segment=segment), 0.5, segment=segment)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("new", "returning") * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert policy.arrivals.tolist() == [400, 400]
    assert sum(arm.n for arm in policy.estimates) == 800
    assert policy.pending.sum() == 0


def test_a_replay_gives_the_state_that_asking_and_telling_gave() -> None:
    rng = np.random.default_rng(1)
    played, again = make(segments=SOME_ARMS), make(segments=SOME_ARMS)
    events: list[tuple[int, float, str, list[int] | None]] = []
    for _ in range(200):
        who = ("new", "returning")[int(rng.random() < 0.3)]
        among = [1] if rng.random() < 0.1 else None
        arm = played.ask(segment=who, among=among)
        events.append((arm, np.nan, who, among))
        if rng.random() < 0.8:
            reward = float(rng.random())
            played.tell(arm, reward, segment=who)
            events.append((arm, reward, who, None))
    arms, rewards, segments, among_each = (list(part) for part in zip(*events, strict=True))
    assert again.replay(arms, rewards, segments=segments, among=among_each, check=True) is None
    assert again.pulls.tolist() == played.pulls.tolist()
    assert [again.ask(segment="new") for _ in range(9)] == [played.ask(segment="new") for _ in range(9)]
    other = 1 - again._clone().ask(segment="new")
    assert again.replay([other], [None], segments=["new"], check=True) == 0


@pytest.mark.parametrize(
    "damage", ["names", "arms", "nobody", "many", "ticket segment", "ticket arm", "kind", "roster"]
)
def test_a_file_whose_segments_cannot_be_is_refused(damage: str, tmp_path: Any) -> None:
    policy = make(segments=SOME_ARMS)
    policy.tell(ticket=policy.ask_ticket(segment="new"), reward=0.5)
    policy.add_segment("staff", ["C"])
    policy.save(tmp_path / "good.pmb")
    with zipfile.ZipFile(tmp_path / "good.pmb") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    found = json.loads(parts["policy.json"])
    options = found["options"]
    if damage == "names":
        options["segments"] = ["new", 3]
    elif damage == "arms":
        options["segments"]["new"] = ["A", "Z"]
    elif damage == "nobody":
        options["segments"] = []
    elif damage == "many":
        options["segments"] = [f"s{i}" for i in range(400_000)]
    elif damage == "kind":
        options["segments"] = 7
    elif damage == "roster":
        found["roster"]["states"] = found["roster"]["states"][:-1]
    else:
        table = np.load(io.BytesIO(parts["tickets.npy"]))
        table[0, 7 if damage == "ticket segment" else 2] = 3 if damage == "ticket segment" else 2
        content = io.BytesIO()
        np.save(content, table)
        parts["tickets.npy"] = content.getvalue()
        found["parts"]["tickets"] = hashlib.sha256(parts["tickets.npy"]).hexdigest()
    found["sha256"] = description_checksum(found)
    parts["policy.json"] = json.dumps(found).encode()
    with zipfile.ZipFile(tmp_path / "bad.pmb", "w") as archive:
        for name, content_of in parts.items():
            archive.writestr(name, content_of)
    assert pmb.load(tmp_path / "good.pmb").segments == ("new", "returning", "staff")
    with pytest.raises(ValueError) as caught:
        pmb.load(tmp_path / "bad.pmb")
    assert str(caught.value).endswith(".")


# ---- arms and segments that come and go --------------------------------------------------------------------


def test_a_new_segment_is_asked_for_at_once_and_nothing_is_lost() -> None:
    policy = make(segments=SOME_ARMS)
    for who in ["new", "returning"] * 10:
        policy.tell(policy.ask(segment=who), 0.5, segment=who)
    assert policy.add_segment("staff", ["A", "C"]) == 2
    assert policy.mixture[2].tolist() == [0.5, 0.0, 0.5]
    assert sorted(policy.ask(4, segment="staff").tolist()) == [0, 0, 2, 2]
    assert policy.arrivals.tolist() == [10, 10, 4]
    assert sum(arm.n for arm in policy.estimates) == 20
    policy.tell("A", 0.5, segment="staff")
    assert policy._memory.earlier_arrivals.tolist() == [10, 10, 4]


def test_a_new_arm_comes_to_some_segments_and_is_tried_now_and_then() -> None:
    policy = make(segments=SOME_ARMS)
    policy.ask(20, segment="new")
    assert policy.add_arm("D", segments=["new"]) == 3
    assert policy.ask(segment="new") == 3
    late = policy.ask(99, segment="new")
    assert 5 <= int((late == 3).sum()) <= 15  # about the root of the rounds, while its reward has not come
    assert 3 not in policy.ask(50, segment="returning")
    policy.tell("D", 0.5, segment="new")
    assert policy.mixture[:, 3].tolist() == pytest.approx([1 / 3, 0.0])


def test_an_arm_is_paused_and_retired_in_one_segment_or_in_all() -> None:
    policy = make()
    policy.tell("A", 0.5, segment="new")  # without a reward it would be tried like a new arm afterwards
    policy.pause("A", segment="new")
    assert set(policy.ask(6, segment="new").tolist()) == {1, 2}
    assert set(policy.ask(6, segment="returning").tolist()) == {0, 1, 2}
    assert policy.playing == ("A", "B", "C")
    policy.resume("A")
    policy.retire("B")
    assert policy.retired == ("B",) and policy.playing == ("A", "C")
    assert policy.mixture.tolist() == [[0.5, 0.0, 0.5]] * 2
    assert policy.arrivals.tolist() == [6, 6]  # pulls of arms that do not play are arrivals all the same
    assert [policy._n_rounds_of(s) for s in range(2)] == [6, 6]


# ---- whatever happens --------------------------------------------------------------------------------------


STEPS = some.lists(
    some.tuples(some.sampled_from(["ask", "ask", "batch", "tell", "tell", "ticket", "answer", "save", "merge", "arm",
                                   "segment", "pause", "resume", "data"]), some.integers(0, 999)),
    max_size=40,
)  # fmt: skip


@pytest.mark.parametrize("kind", ["uniform", "vet"])
@settings(max_examples=40, deadline=None)
@given(steps=STEPS, support=some.sampled_from([pmb.Binary(), pmb.Interval(0, 1)]))
def test_arrivals_and_pulls_add_up_whatever_happens(kind: str, steps: Any, support: Any) -> None:
    policy = make(kind, segments=SOME_ARMS, support=support)
    arrived, told = {"new": 0, "returning": 0}, 0
    pulled: list[tuple[int, str]] = []
    tickets: list[Any] = []
    for step, n in steps:
        who = policy.segments[n % len(policy.segments)]
        if step == "ask":
            pulled.append((policy.ask(segment=who), who))
            arrived[who] += 1
        elif step == "batch":
            people = [policy.segments[(n + i) % len(policy.segments)] for i in range(n % 5 + 1)]
            for arm, one in zip(policy.ask(segment=people).tolist(), people, strict=True):
                pulled.append((arm, one))
                arrived[one] += 1
        elif step == "tell" and pulled:
            arm, one = pulled.pop(n % len(pulled))
            policy.tell(arm, float(n % 2), segment=one)
            told += 1
        elif step == "ticket":
            tickets.append(policy.ask_ticket(segment=who))
            arrived[who] += 1
        elif step == "answer" and tickets:
            policy.tell(ticket=tickets.pop(n % len(tickets)), reward=float(n % 2))
            told += 1
        elif step == "data":  # rewards that nobody asked for
            mine = policy._segments.to_dict()[who]
            policy.tell(mine[n % len(mine)], [0.0, 1.0], segment=who)
            told += 2
        elif step == "save":
            policy = reloaded(policy)
        elif step == "merge" and n % 3 == 0:
            other = policy._clone()
            other.ask(segment=who)
            policy.merge(other)
            arrived = {name: 2 * count + (name == who) for name, count in arrived.items()}
            told *= 2
        elif step == "arm" and policy.n_arms < 6:
            policy.add_arm(segments=[who] if n % 2 else None)
        elif step == "segment" and len(policy.segments) < 5:
            name = f"s{len(policy.segments)}"
            policy.add_segment(name, None if n % 2 else [policy.names[n % policy.n_arms]])
            arrived[name] = 0
        elif step in ("pause", "resume"):
            try:
                (policy.pause if step == "pause" else policy.resume)(n % policy.n_arms, segment=who if n % 2 else None)
            except ValueError as error:
                assert str(error).endswith(".")
        assert policy.arrivals.tolist() == list(arrived.values())
        assert policy.t == policy.pulls.sum() == sum(arrived.values())
        assert [policy._n_rounds_of(s) for s in range(len(policy.segments))] == list(arrived.values())
        assert sum(arm.n for arm in policy.estimates) == told
        exists = policy._segments.column_at >= 0
        assert (policy.pulls[~exists] == 0).all() and (policy.mixture[~exists] == 0.0).all()
        assert policy.mixture.sum(axis=1) == pytest.approx(np.ones(len(policy.segments)))
    again = reloaded(policy)
    people = list(policy.segments) * 3
    assert again.ask(segment=people).tolist() == policy.ask(segment=people).tolist()

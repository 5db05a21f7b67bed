"""Tickets: a reward counts once, however often and by however many threads it is told."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import threading
import zipfile
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.engine import ticket_methods, tickets
from pmbandits.engine.archive import npy_bytes
from pmbandits.engine.policy_file import description_checksum
from pmbandits.logs import read_samples

UNIT = pmb.Interval(0.0, 1.0)


def make(**options):
    return pmb.Track("gini", names=["A", "B", "C"], support=UNIT, **options)


def counts(policy):
    return [arm.n for arm in policy.estimates], policy.pending.tolist()


def test_a_reward_counts_once_however_often_it_is_sent():
    policy, plain = make(), make()
    for k in range(40):
        ticket = policy.ask_ticket()
        arm = plain.ask()
        assert (ticket.arm, ticket.name, ticket.round) == (arm, plain.names[arm], k + 1)
        for _ in range(1 + k % 3):
            policy.tell(ticket=ticket.id if k % 2 else ticket, reward=k / 40)
        plain.tell(arm, k / 40)
        if k % 2:
            with pytest.raises(ValueError, match=r"already.*retell"):
                policy.tell(ticket=ticket.id, reward=0.99)
        assert counts(policy) == counts(plain)
    assert policy.mixture.tolist() == plain.mixture.tolist()
    assert policy.ask() == plain.ask()


def test_lists_of_tickets_are_taken_in_whole_or_not_at_all():
    policy = make()
    given = [policy.ask_ticket().id for _ in range(6)]
    before = counts(policy)
    for keys, rewards, error in (
        ([given[0], "00000000-0"], [0.5, 0.5], "no ticket"),
        ([given[0], given[0]], [0.5, 0.6], "another one"),
        ([given[0], given[1]], [0.5, 1.5], "outside"),
        (given[:2], [0.5], "one reward for each"),
        (given[0], [0.5], "two lists of the same length"),
        ([given[0], 7], [0.5, 0.5], "given by its id"),
        ([given[0], given[1] + "0"], [0.5, 0.5], "no ticket"),
        ([given[0], given[1].replace("-1", "-01")], [0.5, 0.5], "no ticket"),
    ):
        with pytest.raises((ValueError, TypeError), match=error):
            policy.tell(ticket=keys, reward=rewards)
        assert counts(policy) == before
    with pytest.raises(TypeError, match="without an arm"):
        policy.tell(0, 0.5, ticket=given[0])
    with pytest.raises(TypeError, match="an arm and its reward"):
        policy.tell()
    with pytest.raises(TypeError, match="needs the reward"):
        policy.tell(ticket=given[0])
    policy.tell(ticket=[*given, given[2]], reward=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.3])
    assert sum(counts(policy)[0]) == 6 and policy.pending.sum() == 0


def test_many_threads_that_send_everything_twice_count_everything_once():
    policy = make()
    given = [policy.ask_ticket() for _ in range(300)]
    rewards = {
        ticket.id: round(float(x), 3) for ticket, x in zip(given, np.random.default_rng(0).random(300), strict=True)
    }
    more: list[tickets.Ticket] = []

    def send(seed):
        for k in np.random.default_rng(seed).permutation(300):
            policy.tell(ticket=given[k].id, reward=rewards[given[k].id])
            if k % 10 == 0:
                mine = policy.ask_ticket()
                more.append(mine)
                policy.tell(ticket=mine.id, reward=0.5)

    threads = [threading.Thread(target=send, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({ticket.id for ticket in (*given, *more)}) == 300 + 4 * 30
    assert sum(counts(policy)[0]) == 420 == policy.t
    assert policy.pending.sum() == 0
    for arm in range(3):
        told = [rewards[t.id] for t in given if t.arm == arm] + [0.5 for t in more if t.arm == arm]
        x, p = policy.estimates[arm].x, policy.estimates[arm].p
        assert np.allclose(np.repeat(x, np.rint(p * len(told)).astype(int)), np.sort(told))


def test_an_interrupt_between_the_reward_and_the_note_of_it_does_not_count_it_twice(monkeypatch):
    policy = make()
    ticket, other = policy.ask_ticket(), policy.ask_ticket()
    real = tickets.Tickets.mark_answered

    def interrupted(self, answers):
        monkeypatch.setattr(tickets.Tickets, "mark_answered", real)
        raise KeyboardInterrupt

    monkeypatch.setattr(tickets.Tickets, "mark_answered", interrupted)  # the reward was taken in, but not noted
    with pytest.raises(KeyboardInterrupt):
        policy.tell(ticket=ticket.id, reward=0.25)
    policy.tell(ticket=ticket.id, reward=0.25)
    assert sum(counts(policy)[0]) == 1

    def cut(*_):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(pmb.Track, "_record_rewards", cut)  # the note was made, but nothing was taken in
    with pytest.raises(KeyboardInterrupt):
        policy.tell(ticket=other.id, reward=0.75)
    assert sum(counts(policy)[0]) == 1
    policy.tell(ticket=other.id, reward=0.75)
    assert sum(counts(policy)[0]) == 2


@pytest.mark.parametrize(
    "support, options",
    [(UNIT, {}), (UNIT, {"estimates": "binned:16"}), (pmb.Finite([0, 0.5, 1]), {}), (pmb.Binary(), {})],
    ids=["exact", "binned", "finite", "binary"],
)
def test_a_corrected_reward_is_as_if_it_had_been_told_at_first(support, options):
    wrong, right = (pmb.Track("gini", n_arms=2, support=support, **options) for _ in range(2))
    rng = np.random.default_rng(1)

    def reward():
        x = float(rng.random())
        return x if support == UNIT else float(round(x)) if support == pmb.Binary() else round(2 * x) / 2

    given = []
    for _ in range(60):
        ticket, arm = wrong.ask_ticket(), right.ask()
        first, second = reward(), reward()
        if ticket.arm != arm:  # what was decided stays decided
            right.asked(ticket.arm)
        wrong.tell(ticket=ticket.id, reward=first)
        right.tell(ticket.arm, second)
        given.append((ticket, first, second))
    for k, (ticket, first, second) in enumerate(given):
        if k % 2:
            wrong.retell(ticket=ticket.id, reward=second)
            wrong.retell(ticket=ticket.id, reward=second)
        else:
            wrong.retell(ticket.arm, first, second)
    for a, b in zip(wrong.estimates, right.estimates, strict=True):
        assert a.n == b.n and np.allclose(a.x, b.x) and np.allclose(a.p, b.p)
        assert abs(a.mean - b.mean) < 1e-12
    assert np.allclose(wrong._memory.sums, right._memory.sums)
    fresh = pmb.Track("gini", n_arms=2, support=support, **options)
    for ticket, _, second in given:
        fresh.tell(ticket.arm, second)
    assert np.allclose(wrong.mixture, fresh.mixture, atol=0.02)
    assert np.allclose(wrong.utility_bounds([0.5, 0.5]), fresh.utility_bounds([0.5, 0.5]))


def test_what_cannot_be_corrected_is_said_in_one_sentence():
    policy = make()
    ticket, late = policy.ask_ticket(), policy.ask_ticket()
    policy.tell(ticket=ticket.id, reward=0.5)
    for call, error in (
        (lambda: policy.retell(ticket=late.id, reward=0.5), "no reward yet"),
        (lambda: policy.retell(ticket="nobody-1", reward=0.5), "did not give it out"),
        (lambda: policy.retell("A", 0.123, 0.5), "not there to be corrected"),
        (lambda: policy.retell(ticket=ticket.id), "retell needs"),
        (lambda: policy.retell("A", None, 0.5), "retell needs"),
        (lambda: policy.retell(ticket=ticket.id, reward=2.0), "outside"),
    ):
        with pytest.raises((ValueError, TypeError), match=error):
            call()
    sketched = make(estimates="sketch:16")
    ticket = sketched.ask_ticket()
    sketched.tell(ticket=ticket.id, reward=0.5)
    with pytest.raises(ValueError, match="sketches cannot be corrected"):
        sketched.retell(ticket=ticket.id, reward=0.4)


def test_tickets_that_never_come_back_get_a_default_reward(monkeypatch):
    policy = make()
    lost = [policy.ask_ticket().id for _ in range(3)]
    for _ in range(10):
        policy.tell(ticket=policy.ask_ticket().id, reward=1.0)
    assert policy.expire(older_than=13, reward=0.0) == ()
    assert policy.expire(older_than=11, reward=0.0) == tuple(lost[:2])
    assert sum(counts(policy)[0]) == 12
    with pytest.raises(ValueError, match="retell"):
        policy.tell(ticket=lost[0], reward=0.6)
    policy.retell(ticket=lost[0], reward=0.6)
    assert policy.expire(older_than=timedelta(hours=1), reward=0.0) == ()
    now = ticket_methods.time.time()
    monkeypatch.setattr(ticket_methods.time, "time", lambda: now + 7200)
    assert policy.expire(older_than=timedelta(hours=1), reward=0.0) == (lost[2],)
    with pytest.raises(TypeError, match="rounds or a timedelta"):
        policy.expire(older_than="a while", reward=0.0)
    with pytest.raises(ValueError, match="outside"):
        policy.expire(older_than=1, reward=7.0)


def test_open_and_answered_tickets_are_saved_copied_and_merged(tmp_path: Path):
    policy = make()
    given = [policy.ask_ticket() for _ in range(9)]
    policy.tell(ticket=[t.id for t in given[:4]], reward=[0.1, 0.2, 0.3, 0.4])
    policy.pause("B")  # arms that go have tickets, too
    policy.save(tmp_path / "policy.pmb")
    loaded, twin = pmb.load(tmp_path / "policy.pmb"), copy.deepcopy(policy)
    for other in (loaded, twin):
        assert other.log(waiting=True).columns["ticket"].tolist() == policy.log(waiting=True).columns["ticket"].tolist()
        other.tell(ticket=given[0].id, reward=0.1)
        with pytest.raises(ValueError, match="already"):
            other.tell(ticket=given[0].id, reward=0.9)
        other.tell(ticket=given[5].id, reward=0.6)
        assert sum(counts(other)[0]) == 5
        assert other.ask_ticket().id.split("-")[0] != given[0].id.split("-")[0]  # two servers from one file
    here, there = make(), make()
    mine, theirs = here.ask_ticket(), there.ask_ticket()
    here.merge(there)
    here.tell(ticket=[mine.id, theirs.id], reward=[0.3, 0.4])
    assert sum(counts(here)[0]) == 2 and here.pending.sum() == 0


def test_memory_is_bounded_and_old_tickets_still_count_once(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(tickets, "MAX_REMEMBERED", 10)
    policy = make()
    given = []
    for k in range(50):
        given.append(policy.ask_ticket())
        policy.tell(ticket=given[-1].id, reward=k / 50)
    assert len(policy._tickets.answered) == 10 and not policy._tickets.open
    policy.tell(ticket=[t.id for t in given], reward=[k / 50 for k in range(50)])
    assert sum(counts(policy)[0]) == 50
    with pytest.raises(ValueError, match="not remembered"):
        policy.retell(ticket=given[0].id, reward=0.5)
    drained = policy.log(drain=True)
    assert len(drained) == 10 and len(policy.log()) == 0
    policy.tell(ticket=given[-1].id, reward=49 / 50)
    assert sum(counts(policy)[0]) == 50
    policy.save(tmp_path / "policy.pmb")
    again = pmb.load(tmp_path / "policy.pmb")
    again.tell(ticket=given[7].id, reward=7 / 50)
    assert sum(counts(again)[0]) == 50


def test_propensities_are_shares_and_the_log_is_read_by_advise(tmp_path: Path):
    policy = make()
    rng = np.random.default_rng(2)
    for _ in range(400):
        ticket = policy.ask_ticket()
        assert 0.0 < ticket.share <= 1.0
        policy.tell(ticket=ticket.id, reward=float(rng.beta(2 + ticket.arm, 3)))
    policy.add_arm("D")
    new = policy.ask_ticket()
    assert (new.name, new.share) == ("D", 1.0)  # all pulls since it came
    table = policy.log()
    assert len(table) == 400 and len(policy.log(waiting=True)) == 401
    action, share = table.columns["action"], table.columns["propensity"]
    top = int(np.bincount(action).argmax())
    late = np.arange(400) >= 200
    assert abs(share[late & (action == top)].mean() - (action[late] == top).mean()) < 0.15
    feedback = table.feedback()
    assert feedback["n_rounds"] == 400 and feedback["n_actions"] == 4
    assert set(feedback) == {"n_rounds", "n_actions", "context", "action", "position", "reward", "pscore"}
    ips = np.mean(feedback["reward"] * (feedback["action"] == top) / feedback["pscore"])  # roughly its mean
    assert abs(ips - policy.estimates[top].mean) < 0.15
    for name in ("log.csv", "log.parquet"):
        table.save(tmp_path / name)
        read = read_samples(tmp_path / name)
        assert {arm: len(x) for arm, x in read.items()} == dict(
            zip(*np.unique(table.columns["arm"].astype(str), return_counts=True), strict=True)
        )
    advice = pmb.advise(table.to_arrow(), "gini", support=UNIT)
    assert set(advice.names) == {"A", "B", "C"}
    with pytest.raises(ValueError, match=r"\.csv or \.parquet"):
        table.save(tmp_path / "log.xlsx")


def test_crafted_tickets_in_a_file_are_refused(tmp_path: Path):
    policy = make()
    for _ in range(4):
        policy.ask_ticket()
    policy.tell(ticket=next(iter(policy._tickets.open)), reward=0.5)
    good, bad = tmp_path / "good.pmb", tmp_path / "bad.pmb"
    policy.save(good)
    pmb.load(good)

    def craft(change):
        with zipfile.ZipFile(good) as old, zipfile.ZipFile(bad, "w") as new:
            for name in old.namelist():
                data = old.read(name)
                if name == "policy.json":
                    description = json.loads(data)
                    change(description)
                    description["sha256"] = description_checksum(description)
                    data = json.dumps(description).encode()
                new.writestr(name, data)

    def put(place, value):
        def change(d):
            target = d["tickets"] if place[0] != "tickets" else d
            for step in place[:-1]:
                target = target[step]
            target[place[-1]] = value

        return change

    for change in (
        put(["issued"], []),
        put(["issued"], {}),
        put(["issued"], {"zz": 4}),
        put(["issued"], {"0123abcd": 1}),
        put(["issued"], {"0123abcd": -1}),
        put(["issued"], {"0123abcd": 4, "4567cdef": 0}),
        put(["issued"], {"0123abcd": 4.0}),
        put(["rows"], 3),
        put(["rows"], 10**15),
        put(["rows"], "4"),
        put(["tickets"], []),
        put(["tickets"], None),
    ):
        craft(change)
        with pytest.raises(ValueError, match="damaged"):
            pmb.load(bad)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        (0, 1.0), (0, -1.0), (1, 4.0), (1, 0.5), (1, -1.0), (2, 3.0), (2, -1.0), (2, np.nan), (3, 1.5), (3, -0.1),
        (3, np.nan), (4, 0.0), (4, 5.0), (4, 1.5), (5, np.inf), (6, 2.0), (6, -np.inf),
    ],
)  # fmt: skip
def test_a_ticket_that_no_policy_gave_out_is_refused(tmp_path: Path, column: int, value: float):
    """Columns: which prefix, which number, arm, share, round, time, reward."""
    policy = make()
    for _ in range(4):
        policy.ask_ticket()
    file = tmp_path / "policy.pmb"
    policy.save(file)
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    table = np.lib.format.read_array(io.BytesIO(parts["tickets.npy"]))
    assert table.shape == (4, 7)
    for row, refused in ((table[2].copy(), False), (table[2], True)):
        row[column] = value if refused else row[column]
        parts["tickets.npy"] = npy_bytes(np.vstack((table[:2], row, table[3:])))
        description = json.loads(parts["policy.json"])
        description["parts"]["tickets"] = hashlib.sha256(parts["tickets.npy"]).hexdigest()
        description["sha256"] = description_checksum(description)
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in {**parts, "policy.json": json.dumps(description).encode()}.items():
                archive.writestr(name, content)
        if refused:
            with pytest.raises(ValueError, match="damaged"):
                pmb.load(file)
        else:
            assert pmb.load(file)._tickets.open == policy._tickets.open


def test_tickets_do_not_unpack_to_more_than_a_policy_may_take(tmp_path: Path):
    policy = make()
    for _ in range(3000):
        policy.ask_ticket()
    policy.save(tmp_path / "policy.pmb")
    size = 2 * policy._memory.words.nbytes
    assert size < 3000 * 7 * 8
    with pytest.raises(ValueError, match="too large"):
        pmb.load(tmp_path / "policy.pmb", max_memory=size)
    assert len(pmb.load(tmp_path / "policy.pmb")._tickets.open) == 3000


@pytest.mark.parametrize("among", [None, [0, 2]])
@pytest.mark.parametrize("cls", [pmb.Track, pmb.Thompson, pmb.UCB1])
def test_propensities_of_many_arms_at_once_are_those_of_single_asks(cls, among):
    """Also while a new arm is tried out, and with an arm that does not play."""
    policies = together, single = [cls("mean", names=["A", "B", "C"], support=UNIT, seed=3) for _ in range(2)]
    rng = np.random.default_rng(0)
    for step in range(6):
        for policy in policies:
            if step == 2:
                policy.add_arm("D")
            elif step == 4:
                policy.pause("B")
        found = ticket_methods.ask_with_propensities(together, 17, among, ticket_methods.PropensityReader())
        one_by_one = []
        for _ in range(17):
            arm = single.ask(among=among)
            one_by_one.append((arm, ticket_methods.propensity_of_chosen_arm(single, arm)))
        assert found == one_by_one, step
        rewards = rng.random(17)
        for policy in policies:
            policy.tell([arm for arm, _ in found], rewards)

"""Policies on disk: whole, checked, all or nothing, and never code."""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.engine import policy_file

GINI = pmb.GiniDeviation()


def play(policy: Any, rounds: int, seed: int = 0, means: tuple[float, ...] = (0.02, 0.98, 0.5)) -> list[int]:
    rng = np.random.default_rng(seed)
    arms = []
    for _ in range(rounds):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < means[arm]))
        arms.append(arm)
    return arms


def look(policy: Any) -> tuple[Any, ...]:
    phase = getattr(policy, "phase", None)
    ends = getattr(policy, "phase_ends", None)
    seen = [(e.name, e.n, e.x.tolist(), e.p.tolist(), e.radius, e.low, e.high) for e in policy.estimates]
    counts = (policy.t, policy.pulls.tolist(), policy.pending.tolist(), policy.mixture.tolist())
    return (repr(policy), policy.names, policy.seed, policy.explain(), phase, ends, repr(seen), *counts)


def again(policy: Any, path: Path, **given: Any) -> Any:
    policy.save(path)
    return pmb.load(path, **given)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policy.pmb"


def small(**options: Any) -> Any:
    return pmb.PMUCB(GINI, n_arms=2, support=pmb.Binary(), horizon=200, epsilon=0.25, **options)


def rewrite(path: Path, *, repaired: bool = True, **changes: Any) -> None:
    """The same file with other entries in its description, and usually with a checksum that fits."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    description = json.loads(parts["policy.json"])
    description |= changes
    if repaired and "sha256" not in changes:
        description["sha256"] = policy_file.description_checksum(description)
    parts["policy.json"] = json.dumps(description).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


# ---- the same policy comes back --------------------------------------------------------------------------
@pytest.mark.parametrize("rounds", [0, 1, 2, 60, 150, 300, 700])
def test_cirt_goes_on_from_any_phase(path: Path, rounds: int) -> None:
    policy = pmb.CIRT(GINI, n_arms=2, support=pmb.Binary(), epsilon=0.25)
    play(policy, rounds)
    loaded = again(policy, path)
    assert look(loaded) == look(policy)
    assert play(loaded, 500, seed=1) == play(policy, 500, seed=1)
    assert look(loaded) == look(policy)


def test_cirt_is_saved_while_it_tracks(path: Path) -> None:
    policy = pmb.CIRT(GINI, n_arms=2, support=pmb.Binary(), epsilon=0.25)
    play(policy, 1500)
    policy.ask()
    assert policy.phase == "track"
    loaded = again(policy, path)
    assert loaded.phase == "track"
    assert loaded.phase_ends == policy.phase_ends
    assert len(loaded.phase_ends) == loaded.phases == 2
    assert play(loaded, 400, seed=1) == play(policy, 400, seed=1)


@pytest.mark.parametrize("rounds", [0, 10, 50, 51, 200, 500, 600])
def test_etc_goes_on_before_and_after_it_commits(path: Path, rounds: int) -> None:
    policy = pmb.PMETC(GINI, n_arms=2, support=pmb.Binary(), horizon=500, epsilon=0.1)
    play(policy, rounds)
    loaded = again(policy, path)
    assert loaded.phase == policy.phase == ("explore" if rounds < 50 else "commit")
    assert look(loaded) == look(policy)
    assert play(loaded, 300, seed=1) == play(policy, 300, seed=1)


@pytest.mark.parametrize(
    "support", [pmb.Binary(), pmb.Finite([0, 0.5, 1]), pmb.Interval(0, 1), pmb.Real(0.5)], ids=repr
)
@pytest.mark.parametrize("name", ["PMETC", "PMUCB", "CEUCB", "CIRT", "FixedGrid", "Uniform", "SolitaryArm", "UCB1"])
def test_buffers_that_have_grown_come_back_with_all_rewards(path: Path, name: str, support: Any) -> None:
    options: dict[str, Any] = {"horizon": 2000, "epsilon": 0.25} if name in ("PMETC", "PMUCB", "CEUCB") else {}
    policy = getattr(pmb, name)(GINI, n_arms=2, support=support, seed=3, **options)
    play(policy, 700)
    policy.ask(5)
    loaded = again(policy, path)
    assert sum(e.n for e in loaded.estimates) == 700
    assert look(loaded) == look(policy)
    assert play(loaded, 60, seed=1) == play(policy, 60, seed=1)
    assert look(loaded) == look(policy)


def test_names_seed_and_options_are_kept(path: Path) -> None:
    policy = pmb.Uniform(pmb.UpperCVaR(0.9), names=["grün", "b", "c"], support=pmb.Interval(-1, 2), seed=12345)
    play(policy, 10)
    loaded = again(policy, path)
    assert type(loaded) is pmb.Uniform
    assert loaded.names == ("grün", "b", "c")
    assert loaded.seed == 12345
    assert loaded.metric == pmb.UpperCVaR(0.9)
    assert loaded.support == pmb.Interval(-1, 2)
    assert loaded.ask(30).tolist() == policy.ask(30).tolist()
    loaded.tell("grün", 0.5)


def test_every_option_is_kept(path: Path) -> None:
    given = {"epsilon": 0.2, "branching": 6, "delta": 0.1, "exploration": 0.7, "confidence": "dkw"}
    given |= {"stopping": "literal", "tolerance": 0.01, "search": "grid", "estimates": "binned"}
    policy = pmb.CIRT(GINI, n_arms=3, support=pmb.Binary(), **given)
    assert again(policy, path).options == policy.options == given


@pytest.mark.parametrize(
    "policy",
    [
        pmb.SolitaryArm(n_arms=2, support=pmb.Binary(), arm=np.int64(1)),
        pmb.PMUCB(GINI, n_arms=2, support=pmb.Binary(), horizon=np.int64(100), epsilon=np.float32(0.125)),
        pmb.CIRT(GINI, n_arms=2, support=pmb.Binary(), delta=np.float32(0.1)),
        pmb.PMETC(GINI, n_arms=2, support=pmb.Binary(), horizon=100, epsilon=0.25, delta_12=np.float32(0.1)),
    ],
    ids=lambda policy: policy.name,
)
def test_options_given_as_numpy_numbers_can_be_saved(policy: pmb.Policy, tmp_path: Path) -> None:
    policy.save(tmp_path / "policy.pmb")
    assert pmb.load(tmp_path / "policy.pmb").ask() == policy.ask()
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "policy.pmb").stat().st_mode) == 0o666 & ~mask


def test_a_combined_metric_is_stored_as_data(path: Path) -> None:
    metric = 0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9)
    policy = pmb.PMUCB(metric, n_arms=2, support=pmb.Interval(0, 1), horizon=100, epsilon=0.25)
    assert again(policy, path).metric == metric


def test_a_saved_and_a_running_policy_are_independent(path: Path) -> None:
    policy = small()
    play(policy, 20)
    loaded = again(policy, path)
    play(policy, 20)
    assert loaded.t == 20


def test_saving_changes_nothing_and_gives_the_same_file_content(path: Path, tmp_path: Path) -> None:
    policy, untouched = small(), small()
    play(policy, 20)
    play(untouched, 20)
    policy.save(path)
    assert look(policy) == look(untouched)
    policy.save(tmp_path / "second.pmb")
    with zipfile.ZipFile(path) as one, zipfile.ZipFile(tmp_path / "second.pmb") as two:
        assert one.namelist() == two.namelist()
        assert all(one.read(name) == two.read(name) for name in one.namelist())


def test_a_string_will_do_for_a_path_and_folders_are_made(tmp_path: Path) -> None:
    target = str(tmp_path / "new" / "folder" / "policy.pmb")
    small().save(target)
    assert pmb.load(target).t == 0


def test_an_open_file_takes_and_gives_a_policy(path: Path) -> None:
    policy, file = small(), io.BytesIO()
    play(policy, 50)
    policy.save(file)
    policy.save(path)
    with path.open("rb") as on_disk:
        for source in (file, on_disk):
            loaded = pmb.load(source)
            assert look(loaded) == look(policy)
            assert loaded.ask(20).tolist() == copy_of(policy).ask(20).tolist()


def copy_of(policy: Any) -> Any:
    """A copy of a policy, so that asking it leaves the policy as it is."""
    file = io.BytesIO()
    policy.save(file)
    return pmb.load(file)


def test_an_open_file_that_is_damaged_or_too_large_is_refused() -> None:
    file = io.BytesIO()
    small().save(file)
    with pytest.raises(ValueError, match="damaged"):
        pmb.load(io.BytesIO(file.getvalue()[:-30]))
    with pytest.raises(ValueError, match="max_memory"):
        pmb.load(file, max_memory=100)


def test_a_recipe_cannot_be_saved(path: Path) -> None:
    with pytest.raises(ValueError, match="recipe"):
        pmb.CIRT().save(path)
    assert not path.exists()


# ---- all or nothing --------------------------------------------------------------------------------------
class DiskFullError(OSError):
    pass


@pytest.mark.parametrize("broken", ["os.fsync", "os.replace", "write_array", "writestr"])
def test_a_write_that_fails_leaves_the_old_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    old = small()
    play(old, 30)
    old.save(path)
    before = path.read_bytes()
    new = small()
    play(new, 50)

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise DiskFullError("no space left")

    with monkeypatch.context() as patch:
        if broken == "write_array":
            patch.setattr(np.lib.format, "write_array", fail)
        elif broken == "writestr":
            patch.setattr(zipfile.ZipFile, "writestr", fail)
        else:
            patch.setattr(os, broken.removeprefix("os."), fail)
        with pytest.raises(DiskFullError):
            new.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert pmb.load(path).t == 30


def test_a_file_is_replaced_by_a_newer_state(path: Path) -> None:
    policy = small()
    policy.save(path)
    play(policy, 40)
    policy.save(path)
    assert pmb.load(path).t == 40
    assert [p.name for p in path.parent.iterdir()] == [path.name]


# ---- what is in the file ---------------------------------------------------------------------------------
def test_a_file_holds_json_and_plain_arrays_and_no_pickle(path: Path) -> None:
    policy = pmb.CIRT(GINI, n_arms=2, support=pmb.Interval(0, 1))
    play(policy, 40)
    policy.save(path)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert names.count("policy.json") == 1
        description = json.loads(archive.read("policy.json"))
        assert description["format"] == policy_file.FORMAT
        assert description["version"] == policy_file.VERSION
        assert description["policy"] == "cirt"
        for name in names:
            if name == "policy.json":
                continue
            assert name.endswith(".npy")
            array = np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
            assert array.dtype in (np.dtype(np.int64), np.dtype(np.float64))


def test_a_pickle_in_place_of_an_array_is_refused(path: Path) -> None:
    policy = small()
    policy.save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    parts["pulls.npy"] = buffer.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match="damaged"):
        pmb.load(path)


# ---- what is refused -------------------------------------------------------------------------------------
def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pmb"):
        pmb.load(tmp_path / "nowhere.pmb")
    with pytest.raises(FileNotFoundError):
        pmb.load(tmp_path)


def test_a_newer_file_is_refused_with_a_sentence(path: Path) -> None:
    small().save(path)
    rewrite(path, version=policy_file.VERSION + 1, library="99.0")
    with pytest.raises(ValueError, match="newer") as caught:
        pmb.load(path)
    text = str(caught.value)
    assert "99.0" in text
    assert "upgrade" in text
    assert path.name in text
    assert text.endswith(".")


def test_an_unknown_policy_is_refused_with_its_name(path: Path) -> None:
    small().save(path)
    rewrite(path, policy="theirs")
    with pytest.raises(ValueError, match="'theirs'") as caught:
        pmb.load(path)
    assert "import" in str(caught.value)


@pytest.mark.parametrize("changes", [{"format": "another"}, {"version": "one"}, {"version": None}], ids=str)
def test_another_format_is_refused(path: Path, changes: dict[str, Any]) -> None:
    small().save(path)
    rewrite(path, **changes)
    with pytest.raises(ValueError, match="not a policy file"):
        pmb.load(path)


@pytest.mark.parametrize("repaired", [False, True], ids=["old checksum", "new checksum"])
@pytest.mark.parametrize(
    "changes",
    [{"sha256": "0" * 64}, {"n_arms": 3}, {"support": {"kind": "real", "sigma": 1.0}}],
    ids=str,
)
def test_a_description_that_does_not_fit_the_arrays_is_refused(
    path: Path, changes: dict[str, Any], repaired: bool
) -> None:
    small().save(path)
    rewrite(path, repaired=repaired, **changes)
    with pytest.raises(ValueError, match="damaged"):
        pmb.load(path)


@pytest.mark.parametrize("missing", ["policy", "metric", "support", "options", "sha256", "n_arms", "seed", "names"])
def test_a_description_with_a_missing_part_is_refused_as_damaged(path: Path, missing: str) -> None:
    small().save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    description = json.loads(parts["policy.json"])
    del description[missing]
    parts["policy.json"] = json.dumps(description).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match="damaged"):
        pmb.load(path)


@pytest.mark.parametrize("content", [b"[]", b"3", b'"text"', b"null", b"{}", b"{"], ids=repr)
def test_a_description_that_is_no_description_is_refused_as_damaged(path: Path, content: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("policy.json", content)
    with pytest.raises(ValueError, match="damaged"):
        pmb.load(path)


def test_a_file_without_one_of_its_arrays_is_refused(path: Path) -> None:
    small().save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist() if name != "counts.npy"}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match="damaged"):
        pmb.load(path)


@pytest.mark.slow
def test_no_flipped_bit_changes_what_is_loaded(path: Path) -> None:
    """Every flip is refused as damage, or hits a byte that carries nothing (times, attributes)."""
    policy = small()
    play(policy, 30)
    policy.save(path)
    content = path.read_bytes()
    expected = look(policy)
    loaded = 0
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place // 3) % 8
        path.write_bytes(bytes(damaged))
        try:
            other = pmb.load(path)
        except ValueError as error:
            assert "damaged" in str(error), place
        else:
            loaded += 1
            if loaded % 10 == 0:
                assert look(other) == expected, place


def test_a_bit_that_marks_a_part_as_encrypted_is_refused_as_damage(path: Path) -> None:
    small().save(path)
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02")  # the first entry of the directory; its flags are 8 bytes on
    content[at + 8] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="damaged"):
        pmb.load(path)


# ---- code is not stored ----------------------------------------------------------------------------------
def hump(u: Any) -> Any:
    return u * (1.0 - u)


OWN = pmb.Distortion.from_function(hump, name="hump", holder=(1.0, 1.0))


@pytest.mark.parametrize("metric", [OWN, 0.5 * OWN + 0.5 * pmb.Mean()], ids=["alone", "in a combination"])
def test_a_metric_made_from_a_function_must_be_given_again(path: Path, metric: Any) -> None:
    policy = pmb.PMUCB(metric, n_arms=2, support=pmb.Binary(), horizon=200, epsilon=0.25)
    play(policy, 50)
    policy.save(path)
    with pytest.raises(ValueError, match="metric=") as caught:
        pmb.load(path)
    assert "hump" in str(caught.value)
    loaded = pmb.load(path, metric=metric)
    assert look(loaded) == look(policy)
    assert play(loaded, 50, seed=1) == play(policy, 50, seed=1)


def test_a_stored_metric_cannot_be_exchanged(path: Path) -> None:
    small().save(path)
    with pytest.raises(ValueError, match="stores its metric"):
        pmb.load(path, metric=pmb.Mean())


def test_loading_with_another_metric_than_the_saved_one_names_both(tmp_path: Path) -> None:
    mine, other = (pmb.Distortion.from_function(f, name=n) for f, n in ((lambda u: u * u, "mine"), (np.sqrt, "other")))
    pmb.Track(mine, n_arms=2, support=pmb.Binary()).save(tmp_path / "m.pmb")
    with pytest.raises(ValueError, match=r"mine.*other"):
        pmb.load(tmp_path / "m.pmb", metric=other)
    assert pmb.load(tmp_path / "m.pmb", metric=mine).n_arms == 2


def test_loading_with_another_curve_of_the_same_name_is_refused(path: Path) -> None:
    root, square, same = (pmb.Distortion.from_function(f) for f in (np.sqrt, lambda u: u * u, lambda u: u**0.5))
    assert repr(root) == repr(square) == repr(same)
    policy = pmb.Track(root, n_arms=2, support=pmb.Binary(), seed=3)
    play(policy, 30)
    policy.save(path)
    with pytest.raises(ValueError, match="another curve"):
        pmb.load(path, metric=square)
    loaded = pmb.load(path, metric=same)
    assert look(loaded) == look(policy)


def test_a_stored_confidence_set_cannot_be_exchanged(path: Path) -> None:
    small(confidence="dkw").save(path)
    with pytest.raises(ValueError, match="confidence"):
        pmb.load(path, confidence="paper")


class Narrow:
    kind = "band"

    def radius(self, n: Any) -> Any:
        return 0.5 / np.sqrt(n)


def test_a_confidence_set_of_ones_own_must_be_given_again(path: Path) -> None:
    policy = small(confidence=Narrow())
    play(policy, 50)
    policy.save(path)
    with pytest.raises(ValueError, match="confidence="):
        pmb.load(path)
    loaded = pmb.load(path, confidence=Narrow())
    assert loaded.confidence.name == "Narrow"
    assert [e.radius for e in loaded.estimates] == [e.radius for e in policy.estimates]
    assert play(loaded, 50, seed=1) == play(policy, 50, seed=1)


def test_a_mixture_that_could_not_be_used_afterwards_is_refused(path: Path) -> None:
    policy = small()
    play(policy, 50)
    policy.save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    mixture = np.lib.format.read_array(io.BytesIO(parts["mix.npy"])).copy()
    mixture[0] += 1e-9
    parts["mix.npy"] = policy_file.npy_bytes(mixture)
    description = json.loads(parts["policy.json"])
    description["parts"]["mix"] = hashlib.sha256(parts["mix.npy"]).hexdigest()
    description["sha256"] = policy_file.description_checksum(description)
    parts["policy.json"] = json.dumps(description).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match="mixture"):
        pmb.load(path)


def test_a_small_file_does_not_unpack_to_a_large_description(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small().save(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("policy.json", b"[" + b"0," * (30 << 20) + b"0]")
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was unpacked"))
    with pytest.raises(ValueError, match="too large"):
        pmb.load(path)

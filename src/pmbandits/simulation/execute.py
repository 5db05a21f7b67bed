"""Many trials of several policies: played in parallel, journalled, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from pmbandits import _validation
from pmbandits._extras import import_optional
from pmbandits.arms import Bandit
from pmbandits.changing import Changing
from pmbandits.constraints import Shares
from pmbandits.engine.registry import REGISTRY
from pmbandits.metrics.distortion import Distortion
from pmbandits.simulation.assemble import Results
from pmbandits.simulation.delays import Delay
from pmbandits.simulation.files import why_trial_is_impossible
from pmbandits.simulation.journal import FinishedTrials, Journal, OtherSpecification, decode_trials
from pmbandits.simulation.policy_specs import PolicySpec
from pmbandits.simulation.prepare import LARGEST_SEED, Experiment, PolicyAtHorizon, prepare_experiment
from pmbandits.simulation.run import Run
from pmbandits.simulation.spec_file import Experiments, differences_from_files, spec_files, with_best_mixtures
from pmbandits.simulation.study import (
    CostEstimate,
    Study,
    are_several_given,
    assemble_study,
    errors_that_name_problem,
    prepare_study,
    study_identity,
)
from pmbandits.simulation.workers import make_trial_player, numbered_entries, play_missing_trials, resolve_n_jobs
from pmbandits.state.fields import PHASE_ENDS
from pmbandits.state.timing import Stopwatch

ESTIMATE_SECONDS = 0.25  # of play for each policy, horizon, problem and metric, from which costs are estimated
SHORT_SECONDS = 0.02  # so long, trials are played twice, because the first loads what it needs
FIRST_ROUNDS = 64
BACKENDS = ("threads", "processes", "dask")
T = TypeVar("T")
Several = Sequence[T] | Mapping[str, T]


class Options(TypedDict, total=False):
    """What :func:`simulate` takes by name."""

    delay: Delay
    batch: int
    schedule: Sequence[Sequence[Any]]
    checkpoints: int | ArrayLike | None
    shares: Shares
    cost: Mapping[str, float] | None
    budget: float | None
    segments: Mapping[str, float] | None
    n_jobs: int | None
    backend: str
    progress: bool | None
    out: str | Path | None


Policies = PolicySpec | Sequence[PolicySpec] | Mapping[str, PolicySpec]


@overload
def simulate(
    metric: Distortion | str, bandit: Bandit | Changing, policies: Policies, horizon: float | Sequence[float],
    trials: float | Sequence[int] = ..., seed: int | None = ..., *, dry_run: Literal[False] = ...,
    **options: Unpack[Options],
) -> Run: ...  # fmt: skip
@overload
def simulate(
    metric: Any, bandit: Any, policies: Policies, horizon: float | Sequence[float],
    trials: float | Sequence[int] = ..., seed: int | None = ..., *, dry_run: Literal[False] = ...,
    **options: Unpack[Options],
) -> Study: ...  # fmt: skip
@overload
def simulate(
    metric: Any, bandit: Any, policies: Policies, horizon: float | Sequence[float],
    trials: float | Sequence[int] = ..., seed: int | None = ..., *, dry_run: Literal[True],
    **options: Unpack[Options],
) -> CostEstimate: ...  # fmt: skip


@_validation.suggest_nearest_argument_name
def simulate(
    metric: Distortion | str | Several[Distortion | str],
    bandit: Bandit | Changing | Several[Bandit | Changing],
    policies: Policies,
    horizon: float | Sequence[float],
    trials: float | Sequence[int] = 100,
    seed: int | None = 0,
    *,
    delay: Delay = 0,
    batch: int = 1,
    schedule: Sequence[Sequence[Any]] = (),
    checkpoints: int | ArrayLike | None = None,
    shares: Shares = None,
    cost: Mapping[str, float] | None = None,
    budget: float | None = None,
    segments: Mapping[str, float] | None = None,
    n_jobs: int | None = None,
    backend: str = "threads",
    progress: bool | None = None,
    out: str | Path | None = None,
    dry_run: bool = False,
) -> Run | Study | CostEstimate:
    """Play policies against known arms, in many trials, and measure their regret.

    The regret after t rounds is the utility of the best mixture minus that of the shares that were played: V(α*) −
    V(τ_t/t).

    The n-th reward of an arm in a trial depends only on (seed, trial, arm, n), and on how the arm is in that round if
    it changes. So all policies of a trial get the same rewards, and can be compared in pairs. Results do not depend on
    the number of workers or on the backend, and a trial can be run alone.

    Parameters
    ----------
    metric : what is valued: a metric, its name, or text such as ``"0.7*mean + 0.3*upper_cvar(0.9)"``. A policy that was
        made with a metric of its own plays for that one, and is scored by this one.
        Several metrics (a list, or a mapping that names them) make a study.
    bandit : the true arms, or arms that change: :class:`Changing`. Several (a list, or a mapping that names the
        problems) make a study: every policy plays every problem for every metric, and the answer is a :class:`Study`
        with one table. A study has one journal, and goes on as a whole.
    policies : one or several, or a mapping that names them. Each is a recipe such as ``PMUCB(horizon=20_000)`` (metric,
        arms and support need not be repeated), a name such as ``"pmucb"`` (a policy that needs its horizon gets this
        one), or a function or class that makes a policy in plain Python; see below.
    horizon : how many rounds to play, or several such numbers. With several, a policy that needs its horizon plays each
        of them as a run of its own (its ``horizon`` is replaced), and an anytime policy plays one run to the longest.
    trials : how many trials, or which ones (a list of their numbers, which begin with 0).
    seed : the seed of all rewards and of the policies' own random choices. ``None`` takes a new one, which ``run.seed``
        tells.
    delay : how many rounds rewards are late. The reward of round r comes after round r + delay, so 0 means before the
        next ask. It can be a number, or a frozen ``scipy.stats`` distribution, rounded to whole rounds. It can be a
        function of a numpy ``Generator`` and a count that returns that many delays, or a mapping from arms to any of
        these. Policies get rewards in the order in which they come. Those due after the last round never come.
    batch : how many arms to ask for at once. Policies get the rewards that have come together, after each batch.
    schedule : arms that come and go, as in ``[(5000, "add", "D"), (8000, "pause", "B")]``. Each event has a number of
        rounds after which it happens, a word (``add``, ``pause``, ``resume``, ``retire``) and an arm. The bandit has
        all arms; those that are added later do not play at first. Policies learn of an event by the method of that name
        (``add_arm`` for ``add``).
    checkpoints : the rounds at which to measure, or how many of them. The default is 40, and they are spaced evenly on
        a logarithmic scale; where arms change, or come and go, they are spaced evenly. The memory that results take
        grows with trials × checkpoints.
    shares, cost, budget : limits on the shares of the arms and on what a round costs, as in :func:`oracle`. Every
        policy that has none of its own keeps them, and regret is against the best mixture within them. (A policy in
        plain Python can ask for ``limits``, and must keep them itself.)
    segments : how often people of each segment come, ``{"new": 0.6, "returning": 0.4}``. Then ``bandit`` has a bandit
        for each of them, and regret is that of the rewards of the whole population, as in :func:`oracle`. Who comes in
        a round depends on seed and trial only. Policies that know nothing of segments can be compared with:
        ``simulation.PerSegment(Vet())`` is one for each segment, ``simulation.IgnoringSegments(Vet())`` one for all.
    n_jobs : how many workers; by default one for each core.
    backend : ``"threads"`` (compiled policies run in parallel in them), ``"processes"``, or ``"dask"`` for an existing
        cluster (a ``dask.distributed.Client`` must be open; it needs the extra ``distributed``). Policies in plain
        Python run faster in parallel only with processes.
    progress : whether to show a progress bar. By default it is shown on a terminal only.
    out : a folder in which finished trials are kept at once. The same call goes on where it was stopped, however it was
        stopped, and you may ask for more trials later. The run is saved there as ``run.parquet``, and a study as one
        such file for each problem and metric (:meth:`Study.load` reads them).
    dry_run : play nothing, and answer what it would cost, worked out from short trials: a
        :class:`~pmbandits.simulation.study.CostEstimate`.

    Notes
    -----
    Where arms change, or come and go, time falls into periods in which nothing changes. The regret of a period is
    against the best mixture of the arms that play then: V*_m − V_m(shares played in the period). The regret after t
    rounds is the mean of this over the rounds. The column ``declared`` has V*_m − V_m(mixture) at the checkpoint, with
    the policy's own mixture. So ``declared`` shows what the policy knows, and ``regret`` what it did.

    A policy in plain Python is any object with ``ask()`` (which returns the position of an arm), ``tell(arm, reward)``
    and ``mixture`` (the shares that it takes for the best). Give the class, or a function that makes an object: every
    trial gets a new one. The class or function is given what it asks for by name: ``n_arms``, ``seed`` (the policy's
    own, a different one in every trial), ``metric``, ``names``, ``support``, ``horizon``, ``limits``. Its rewards,
    checkpoints, journal and table are the same as for all others. It is slow: some hundred thousand rounds a second,
    where the compiled ones play tens of millions. The summary says how many.

    A journal identifies such a policy by where it is defined, and by a hash of its code and of your own code that it
    uses; installed packages count with their version. If the code has changed, the folder is refused.

    Examples
    --------
    >>> import pmbandits as pmb
    >>> bandit = pmb.Bandit.bernoulli([0.4, 0.9])
    >>> run = pmb.simulate("gini", bandit, [pmb.CIRT(), "uniform"], horizon=2000, trials=20, seed=1)
    >>> run
    Run(CIRT, Uniform; 20 trials, up to 2,000 rounds, seed 1)
    >>> run.difference("CIRT", "Uniform").mean < 0
    True

    Arms that change places after half of the rounds, with rewards that are 100 rounds late:

    >>> world = pmb.Changing.steps([(0, bandit), (1000, pmb.Bandit.bernoulli([0.9, 0.4]))])
    >>> run = pmb.simulate("gini", world, ["track", "uniform"], horizon=2000, trials=20, delay=100)
    >>> run.changes
    (1000,)

    A policy of your own, in plain Python:

    >>> class InTurn:
    ...     def __init__(self, n_arms):
    ...         self.t, self.mixture = 0, [1 / n_arms] * n_arms
    ...     def ask(self):
    ...         self.t += 1
    ...         return self.t % len(self.mixture)
    ...     def tell(self, arm, reward):
    ...         pass
    >>> pmb.simulate("gini", bandit, {"mine": InTurn, "cirt": "cirt"}, horizon=1000, trials=5)
    Run(mine, cirt; 5 trials, up to 1,000 rounds, seed 0)
    """
    import_optional("pyarrow", "simulations")
    _validation.check_choice("backend", backend, BACKENDS)
    first = metric if isinstance(metric, (list, tuple)) else [metric]
    if any(isinstance(one, str) and one.lower() in REGISTRY for one in first):
        raise TypeError(
            f"{_validation.short_repr(metric)} is a policy; the order is simulate(metric, bandit, policies, horizon)."
        )
    jobs = resolve_n_jobs(n_jobs)
    several = are_several_given(metric) or (segments is None and are_several_given(bandit))
    problems: Any = [bandit] if several and segments is not None else bandit
    make = prepare_study if several else lambda *given, **more: {("", ""): prepare_experiment(*given, **more)}
    made = make(
        metric, problems, policies, horizon, trials, _validation.check_seed("seed", seed, LARGEST_SEED), checkpoints,
        delay, batch, schedule, shares=shares, cost=cost, budget=budget, segments=segments,
    )  # fmt: skip
    if dry_run or out is None:
        for key, x in made.items():
            with errors_that_name_problem(key):
                _ = x.best_mixtures  # this says so if a utility is infinite
    if dry_run:
        names = ("problem", "metric") if several else ()
        rows = [dict(zip(names, key, strict=False)) | row for key, x in made.items() for row in estimate_cost(x, jobs)]
        return CostEstimate(rows, jobs)
    results = Results()
    if out is None:
        found = assemble_study(made, play_missing_trials(list(made.values()), results, jobs, backend, progress, None))
        return found if several else found["", ""]
    if seed is None:
        raise ValueError("with out=... give a seed: with a new one in every call, no run would ever go on.")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out={str(out)!r} is a file; give a folder.")
    with _open_journal(folder, made) as journal:
        for path, (key, x) in zip(spec_files(folder, made), made.items(), strict=True):
            with errors_that_name_problem(key):
                made[key] = with_best_mixtures(path, key, x)
        experiments = list(made.values())
        results = _read_finished_trials(journal, experiments)
        try:
            play_missing_trials(experiments, results, jobs, backend, progress, journal)
        except KeyboardInterrupt:
            count = sum(len(x.entries) * len(x.trials) for x in experiments)
            raise KeyboardInterrupt(
                f"stopped; {results.n_trials:,} of {count:,} trials are in {str(out)!r}, and the same call goes on."
            ) from None
        found = assemble_study(made, results)
        if several:
            found.save(folder)
        else:
            found["", ""].save(folder / "run.parquet")
    return found if several else found["", ""]


def _open_journal(folder: Path, made: Experiments) -> Journal:
    """Open the journal of these experiments; if the folder has that of others, say what differs."""
    try:
        return Journal(folder, made["", ""].identity_hash if ("", "") in made else study_identity(made))
    except OtherSpecification as error:
        why = differences_from_files(folder, made)
        before, _, after = str(error).rpartition(";")
        raise OtherSpecification(f"{before}{f' ({why})' if why else ''};{after}") from None


def _read_finished_trials(journal: Journal, experiments: Sequence[Experiment]) -> Results:
    entries, known = numbered_entries(experiments), Results()
    for payload in journal.records():
        try:
            found = decode_trials(payload)
            if 0 <= found.entry < len(entries):
                experiment, entry = entries[found.entry]
                wanted = found.rows(np.isin(found.trials, experiment.trials))
                _check_journal_record(wanted, experiment, entry)
                known.add(wanted)
        except ValueError as error:
            raise ValueError(
                f"{journal.path} is not the journal of this simulation: {error} Give another folder, or delete it; "
                "nothing was overwritten."
            ) from None
    return known


def _check_journal_record(found: FinishedTrials, experiment: Experiment, entry: PolicyAtHorizon) -> None:
    """Refuse finished trials that no simulation can have left behind."""
    k = experiment.bandit.n_arms
    t, period_ends, problem = entry.checkpoints, experiment.period_ends(entry.horizon), None
    if found.pulls.shape[1] != (t.size + period_ends.size) * k or found.mixture.shape[1] != t.size * k:
        problem = "there is not one number for each arm and checkpoint"
    else:
        times = np.concatenate((t, period_ends))
        order = np.argsort(times, kind="stable")
        pulls = found.pulls.reshape(found.size, times.size, k)[:, order]
        problem = why_trial_is_impossible(times[order], pulls, found.mixture)
    if problem is None and (
        found.ends.shape[1] > PHASE_ENDS or not ((found.seconds >= 0) & np.isfinite(found.seconds)).all()
    ):
        problem = "phases or seconds cannot be"
    if problem is None and not ((found.ends >= 0) & (found.ends <= entry.horizon)).all():
        problem = "phases end after the last round"
    if problem is not None:
        raise ValueError(f"in a record of {entry.label} {problem}.")


# ---- estimating the cost --------------------------------------------------------------------------------------


def estimate_cost(experiment: Experiment, jobs: int) -> list[dict[str, Any]]:
    """Estimate rounds, rows and seconds of each policy on this many workers, from short trials of each."""
    rows = []
    for entry in experiment.entries:
        one, count = _seconds_of_a_trial(experiment, entry), len(experiment.trials)
        rows.append(
            {
                "policy": entry.label,
                "horizon": entry.horizon,
                "trials": count,
                "rounds": entry.horizon * count,
                "rows": entry.checkpoints.size * count,
                "seconds": one * count / min(jobs, count),
            }
        )
    return rows


def _seconds_of_a_trial(experiment: Experiment, entry: PolicyAtHorizon) -> float:
    """Estimate the seconds of one trial from shorter ones, each twice as long as the last, until they took a while."""
    rounds: list[int] = []
    seconds: list[float] = []
    clock = Stopwatch()
    while not rounds or (rounds[-1] < entry.horizon and clock.seconds < ESTIMATE_SECONDS):
        rounds.append(min(entry.horizon, 2 * rounds[-1] if rounds else FIRST_ROUNDS))
        checkpoints = np.array(rounds[-1:], dtype=np.int64)
        player = make_trial_player(entry, experiment.timeline, experiment.seed, checkpoints)
        seconds.append(min(player.play(trial).seconds for trial in range(1 if clock.seconds > SHORT_SECONDS else 2)))
    growth = 1.0  # of the seconds with the rounds, as an exponent
    if len(rounds) > 1:
        before = max(len(rounds) - 3, 0)
        growth = float(np.clip(np.log(seconds[-1] / seconds[before]) / np.log(rounds[-1] / rounds[before]), 0.5, 2.2))
    return seconds[-1] * (entry.horizon / rounds[-1]) ** growth

"""The fields of the state, in groups: what every policy needs, and what each feature adds to it.

A feature that a policy does not use has sizes of 0, so its arrays are empty. What a single policy needs is not here:
the policy declares it itself (``state`` in ``numba_types.py``), as Vet and CIRT do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

PHASE_ENDS = 64  # phases whose ends are remembered
MAX_EXACT_ENDS = 64  # ends of KL bands that are computed exactly, on each side
KL_BAND_ROW = 2 * MAX_EXACT_ENDS + 12  # numbers that are kept of a KL band (confidence/_kl_bands.py)
SKETCH_HEADER, SKETCH_STATS = 61, 5  # whole numbers and other numbers of a sketch (estimates/_sketch.py)
DETECTOR_HEADER, DETECTOR_THRESHOLDS, DETECTOR_COUNTS = 8, 64, 4352  # numbers of a detector
CHANGE_ROW = 10  # numbers that are kept of a change that was found
POOLS = ("x", "pool_arm", "window_rewards", "window_arms")  # arrays with one entry for each reward so far
LIFECYCLE_WORDS = ("saved", "added", "cleared", "fixed", "scratch", "arranged")


@dataclass(frozen=True)
class Field:
    """One field: its name, whether it holds whole numbers, its shape, and what becomes of it.

    ``lifecycle`` is one or more of these words:

    - saved: written to the file of a policy, and read from it.
    - added: when two policies are merged, the other's numbers are added.
    - cleared: when two policies are merged, it is set to 0, because it is no longer true.
    - fixed: it follows from the options. It stays as it is between trials, and is made anew when a file is loaded.
    - scratch: a kernel's working space. It has no meaning between two calls.
    - arranged: it tells how the pool of rewards is arranged, which a look at the mixture may change for good.

    Whatever is not fixed and not scratch is set back at the start of each trial of a simulation.

    ``valid_range`` says between which numbers a saved field must lie: ``"0 … n_rewards"``, with numbers, sizes and
    other fields as limits. A side that is left out is not limited, but for infinity; ``"any"`` allows that too. Files
    are checked by it when they are loaded. Where nothing is said, whole numbers lie from 0 to 2⁵³, others are finite.
    """

    name: str
    type: type
    shape: str
    lifecycle: frozenset[str]
    valid_range: str = ""

    @property
    def is_single_number(self) -> bool:
        """Whether it is a single number."""
        return self.shape == ""

    @cached_property
    def dimensions(self) -> tuple[tuple[str | int, ...], ...]:
        """For each dimension of an array the terms that are added up: sizes by name, and numbers."""
        return tuple(
            tuple(int(term) if term.isdecimal() else term for term in (one.strip() for one in length.split("+")))
            for length in self.shape.split(", ")
        )


@dataclass(frozen=True)
class Group:
    """Fields that are used together, and the sizes on which their shapes depend."""

    sizes: tuple[str, ...]
    fields: tuple[Field, ...]


def field(name: str, kind: type, shape: str = "", lifecycle: str = "", valid_range: str = "") -> Field:
    """A field of the state; with an empty shape it is a single number."""
    words = frozenset(lifecycle.split())
    assert words <= set(LIFECYCLE_WORDS), f"{name}: {words}"
    return Field(name, kind, shape, words, valid_range)


def own_field(kind: type, shape: str = "", lifecycle: str = "", valid_range: str = "") -> Field:
    """A field that a policy declares in ``state(name=own_field(...))``, and that gets its name there."""
    return field("", kind, shape, lifecycle, valid_range)


# What every policy needs: pulls, rewards, the metric and the mixture.
CORE = Group(
    sizes=(
        "n_arms",
        "n_atoms",  # points of a finite support, or of bins; 0 if rewards are kept one by one
        "reward_capacity",  # rewards that fit into memory
        "n_encoded",  # length of the encoded metric
        "n_earlier_pulls",  # n_arms if pulls can be taken off the clock, else 0
    ),
    fields=(
        field("lock_token", int, "", "fixed"),  # not 0 while a thread is at work in the memory (state/lock.py)
        field("lock_wanted", int, "", "fixed"),  # 1 while a thread waits that must come before single asks and tells
        field("t", int, "", "saved added"),  # pulls so far
        field("rewards", int, "", "saved added"),  # rewards so far
        field("seed", int, "", "fixed"),  # of the random numbers
        # how many random numbers the policy has drawn
        field("rng_counter", int, "", "saved", "0 … 4503599627370496"),
        field("storage_mode", int, "", "fixed"),  # BINARY, FINITE or SAMPLES
        field("bounded", int, "", "fixed"),  # 1 if the support is bounded
        field("max_rewards", int, "", "fixed"),  # at so many rewards memory must grow
        field("max_arm_rewards", int, "", "fixed"),  # at so many rewards of one arm memory must grow
        field("n_sorted", int, "", "saved arranged", "-1 … rewards"),  # how many rewards of the pool are sorted
        field("low", float, "", "fixed"),  # the lower end of the support
        field("high", float, "", "fixed"),  # and the upper one
        field("rounding", float, "", "fixed"),  # how far rounding to bins moves a reward at most
        field("max_abs_reward", float, "", ""),  # the largest absolute value of a reward or of an end of the support
        field("metric_shape", int, "", "fixed"),  # CONCAVE, CONVEX or NEITHER
        field("max_h", float, "", "fixed"),  # the largest value of h
        field("max_abs_h", float, "", "fixed"),  # the largest value of |h|
        # the Lipschitz constant of U_h in W1, where balls on the line need it; else 0
        field("lipschitz", float, "", "fixed"),
        field("holder_q", float, "", "fixed"),  # |U_h(F) − U_h(G)| ≤ holder_c · W1(F, G)^holder_q
        field("holder_c", float, "", "fixed"),  # 0 if there is no such pair
        field("dirty", int, "", "saved", "0 … 1"),  # 1 if rewards came since the last look
        # at how many rewards (or pulls and rewards) it is time to look again
        field("next_update_at", int, "", "saved cleared"),
        field("pulls", int, "n_arms", "saved added", "0 … t"),  # pulls of each arm
        field("pending", int, "n_arms", "saved added"),  # pulls whose reward has not come, earlier ones included
        field("n_rewards", int, "n_arms", "saved added", "0 … rewards"),  # rewards of each arm
        # pulls that the clock no longer counts: forgotten, or from before it began anew; all pulls are ``pulls +
        # earlier_pulls``
        field("earlier_pulls", int, "n_earlier_pulls", "saved added"),
        field("sums", float, "n_arms", "saved added", "any"),  # the sum of the rewards of each arm
        field("sums_of_squares", float, "n_arms", ""),  # the sum of their squares
        field("w1_path_length", float, "n_arms", ""),  # how far in W1 the empirical distribution has moved in all
        field("counts", int, "n_arms, n_atoms", "saved added"),  # rewards of each arm at each atom
        field("points", float, "n_atoms", "fixed"),  # the atoms, or the points of bins
        field("h", float, "n_encoded", "fixed"),  # the metric, encoded (metrics/encoding.py)
        field("refused_arm", int, "", "scratch"),  # what ``pull`` was last given that is not an arm
        field("mix", float, "n_arms", "saved", "0 … 1"),  # the mixture that is played
        field("unavailable", int, "n_arms", "scratch"),  # 1 for the arms that are not available in this call
        field("phase_ends", int, f"{PHASE_ENDS}", "saved", "0 … t"),  # when phases ended, for policies that have them
        field("x", float, "reward_capacity", "saved arranged"),  # the pool: all rewards, sorted up to ``n_sorted``,
        field("pool_arm", int, "reward_capacity", "saved arranged", "0 … n_arms - 1"),  # and the arms that paid them
    ),
)

# Confidence sets of the arms (``confidence/``).
CONFIDENCE_SETS = Group(
    sizes=(
        "n_radii",  # entries of the table of radii
        "n_ball_grid",  # points of the table behind the bounds in Wasserstein balls
        "n_tail_multipliers",  # 3 if rewards are unbounded with KL bands (confidence/_heavy_tails.py), else 0
        "n_kl_bands",  # n_arms if the sets are KL bands (confidence/_kl_bands.py), else 0
        "line_capacity",  # cells that fit, of KL bands on the whole line (confidence/_sub_gaussian.py), else 0
    ),
    fields=(
        field("set_kind", int, "", "fixed"),  # INTERVAL, BAND, BALL or KL_BAND
        field("stretched", int, "", "fixed"),  # 1 if ends of KL bands far from the share are moved further out
        field("n_exact_ends", int, "", "fixed"),  # rewards above or below for which ends of KL bands are exact
        # p and B of E|X|^p ≤ B (confidence/_heavy_tails.py); 0 if not assumed
        field("moment_order", float, "", "fixed"),
        field("moment_bound", float, "", "fixed"),
        field("modulus_exponent", float, "", "fixed"),  # |h(u) − h(v)| ≤ C·|u − v|^q
        field("modulus_constant", float, "", "fixed"),
        field("sub_gaussian_sigma", float, "", "fixed"),  # σ of sub-Gaussian rewards in KL bands, else 0
        field("mean_interval_log_term", float, "", "fixed"),  # 2·ln(1/δ) of the intervals of their means
        field("line_built_at", int, "", "cleared"),  # for how many rewards the cells of the line are laid out; 0: not
        field("n_line_cells", int, "", "scratch"),  # the number of these cells
        field("line_start", float, "", "scratch"),  # where they begin
        field("line_tail_bound", float, "", "scratch"),  # what of a utility lies beyond them at most
        field("coarse_radii", int, "", "fixed"),  # 1 if the table of radii has an entry for each range of n only
        field("radii_decrease", int, "", "fixed"),  # 1 if radii fall with n, and so looking ahead is possible
        field("paper_bonus", int, "", "fixed"),  # 1 if the bonus is not cut off at the ends of [0, 1]
        field("rounding_utility_bound", float, "", "fixed"),  # the most that rounding to bins changes a utility
        field("radii", float, "n_radii", "fixed"),  # the radius after n rewards
        field("set_built_at", int, "n_arms", "cleared"),  # rewards of each arm when its set was last worked out
        # ends of the mean: for rewards of 0 and 1, and for sub-Gaussian ones in KL bands
        field("lower", float, "n_arms"),
        field("upper", float, "n_arms"),
        field("radius", float, "n_arms"),  # the radius of the set of each arm
        # of the moment or the mean, for the largest and the least utility; and at how many rewards they are found anew
        field("tail_multipliers", float, "n_tail_multipliers", "saved cleared"),
        field("kl_band", float, f"n_kl_bands, {KL_BAND_ROW}", ""),  # each arm's KL band (confidence/_kl_bands.py)
        field("kl_band_built_at", int, "n_kl_bands", "cleared"),  # for how many of its rewards that was worked out
        field("line_width", float, "line_capacity", "scratch"),  # KL bands on the line: widths of cells,
        field("line_lower", float, "line_capacity, n_arms", "scratch"),  # the ends of the arms' survivals in them,
        field("line_upper", float, "line_capacity, n_arms", "scratch"),
        field("line_radius", float, "n_arms", "scratch"),  # and their W1 radii
        # points of the table behind the bounds in Wasserstein balls
        field("ball_grid", float, "n_ball_grid", "fixed"),
        field("ball_envelope", float, "n_ball_grid", "scratch"),  # and h between its neighbours there
        field("rewards_above", int, "n_arms", "scratch"),  # of each arm, in a pass over all rewards
        field("survival_scratch", float, "reward_capacity + n_atoms + 2", "scratch"),
        field("cell_width", float, "reward_capacity + n_atoms + 2", "scratch"),
    ),
)

# Grids of mixtures, and bounds on how far their values can have changed (``mixtures/_lazy_argmax.py``).
GRIDS = Group(
    sizes=(
        "n_grid",  # mixtures that fit into the grid
        "n_lazy",  # n_arms if changes of grid values are bounded, else 0
        "n_lazy_chords",  # n_arms if the bounds by chords are kept too, else 0
        "n_block_curves",  # curves over them, of all arms (confidence/_block_bounds.py)
        "n_block_ends",  # ends of blocks that fit (estimates/_reward_blocks.py); 0 without blocks
    ),
    fields=(
        # 1 if changes of utilities are bounded by chords (mixtures/_lazy_argmax.py)
        field("uses_chords", int, "", "fixed"),
        field("n_grid_used", int, "", "saved", "0 … n_grid"),  # grid points in use
        field("current_point", int, "", "saved", "-1 … "),  # the grid point that is played, or −1
        field("random_ties", int, "", "fixed"),  # 1 if any of several tied grid points is taken
        field("look_ahead", int, "", "cleared"),  # how many rewards of each arm to look ahead next time
        # the choice stands while no arm has more rewards than this
        field("choice_valid_until", int, "n_arms", "cleared"),
        # work that the lazy argmax did beyond what pays; and from how many rewards on it pauses (or is to pause still)
        field("lazy_excess", int, "", "cleared"),
        field("lazy_pause_from", int, "", "cleared"),
        field("grid", float, "n_grid, n_arms", "saved", "0 … 1"),  # the mixtures among which a policy chooses
        # the empirical utility of each grid point when it was last worked out; and for the bound of its change since
        # (mixtures/_lazy_argmax.py):
        field("value", float, "n_grid", ""),
        field("value_at", float, "n_grid", "cleared"),  # at how many rewards that was (0: never),
        field("value_basis", float, "n_grid, n_lazy", "cleared"),  # the arms' travel or counts then,
        field("value_radius", float, "n_grid, n_lazy", "cleared"),  # and their radii;
        # how much it can rise for each unit of change of each arm,
        field("value_rise", float, "n_grid, n_lazy_chords", "cleared"),
        field("value_fall", float, "n_grid, n_lazy_chords", "cleared"),  # and fall,
        field("value_shrink", float, "n_grid, n_lazy_chords", "cleared"),  # and for each unit that a radius shrinks
        field("value_tail_widths", float, "n_grid, 2", "cleared"),  # widths of what lies above and below all rewards
        # the largest utility that each grid point can have, with the same numbers; in policies without a grid: one
        # number of each arm
        field("index", float, "n_grid", ""),
        field("index_at", float, "n_grid", "cleared"),
        field("index_basis", float, "n_grid, n_lazy", "cleared"),
        field("index_radius", float, "n_grid, n_lazy", "cleared"),
        field("index_rise", float, "n_grid, n_lazy_chords", "cleared"),
        field("index_fall", float, "n_grid, n_lazy_chords", "cleared"),
        field("index_shrink", float, "n_grid, n_lazy_chords", "cleared"),
        field("index_tail_widths", float, "n_grid, 2", "cleared"),
        # blocks of rewards (estimates/_reward_blocks.py): how many, at how many rewards they were laid out, how many
        # rewards they hold,
        field("n_blocks", int, "", "cleared"),
        field("blocks_laid_out_at", int, "", "cleared"),
        field("n_in_blocks", int, "", "cleared"),
        field("block_stride", int, "", "cleared"),  # how many are taken together in the next look,
        field("block_successes", int, "", "cleared"),  # and how many looks such steps have decided so far
        field("block_end", float, "n_block_ends", "cleared"),  # where they begin and end,
        field("block_count", int, "n_arms, n_block_ends", "cleared"),  # the rewards of each arm in each,
        field("block_excess", float, "n_arms, n_block_ends", "cleared"),  # and the sum of what they lie above its start
        # curves of each arm over the blocks (confidence/_block_bounds.py)
        field("block_curves", float, "n_block_curves, n_block_ends", "scratch"),
        # bounds on the W1 radius of each arm's KL band, and for how many of its rewards
        field("w1_radius_bounds", float, "n_kl_bands, 2", "cleared"),
        field("w1_radius_stride", int, "n_kl_bands", "cleared"),  # by how many blocks at a time
        field("w1_radius_at", int, "n_kl_bands", "cleared"),
    ),
)

# Searches over all mixtures, exploration, and slopes.
SEARCH = Group(
    sizes=(
        "n_slopes",  # n_arms if slopes are kept from round to round, else 0
    ),
    fields=(
        field("continuous", int, "", "fixed"),  # 1 if all mixtures are searched, without a grid
        # how fine a continuous search is, as a share of what chance does
        field("search_tolerance", float, "", "fixed"),
        field("min_share", float, "", "fixed"),  # the least share of every arm in a continuous search
        # at how many rewards it is looked for from many starts again
        field("next_multistart_at", int, "", "saved cleared"),
        field("exploration", float, "", "fixed"),  # ξ of eq:any_sampling_rule
        field("next_exploration_at", int, "", "cleared"),  # before this round no arm is due to be explored
        field("slope", float, "n_slopes", "saved"),  # the slope of the utility towards each arm at the last look
        field("slope_variance", float, "n_slopes", "saved", "0 … "),  # and the variance of what it is the mean of
    ),
)

# The arms' survivals at common knots (``mixtures/_survival_table.py``).
SURVIVAL_TABLE = Group(
    sizes=(
        "n_vetted",  # n_arms with such a table, else 0
        "knot_capacity",  # knots that fit into it
    ),
    fields=(
        field("n_knots", int, "", "saved", "0 … knot_capacity"),  # knots in use; 0: nothing was laid out yet
        field("knots", float, "knot_capacity", "saved"),  # the knots of the table of the arms' survivals
        field("survival_rows", float, "n_vetted, knot_capacity"),  # the survival of each arm at the knots
        # rewards of each arm when its row was written; 0: not yet
        field("row_n_rewards", int, "n_vetted", "cleared"),
        field("row_variance", float, "n_vetted"),  # of the distribution in each row
        field("row_utility", float, "n_vetted"),  # its utility; not for concave metrics
        field("row_size", int, "n_vetted"),  # at how many knots it has rewards,
        field("row_knots", int, "n_vetted, knot_capacity"),  # which these are,
        field("row_weights", float, "n_vetted, knot_capacity"),  # and the share of rewards there
    ),
)

# Segments of a population (``pmbandits/segments.py``): an arm is then a column, a pair of a segment and an arm.
SEGMENTS = Group(
    sizes=(
        "n_segments",  # 0 without segments
        "n_segmented",  # n_arms with segments, else 0
    ),
    fields=(
        field("arriving", int, "", "scratch"),  # the segment of this round, set before the policy chooses
        field("segment_of", int, "n_segmented", "fixed"),  # the segment of each column; columns are ordered by it
        # arrivals of each segment that ``pulls`` does not show: from before the clock began anew, and those that
        # columns outside of this memory were pulled for
        field("earlier_arrivals", int, "n_segments"),
    ),
)

# Limits on shares (``mixtures/_constraint_tracking.py``).
SHARE_LIMITS = Group(
    sizes=(
        "n_limited",  # n_arms if shares are limited, else 0
        "has_share_limits",  # 1 if shares are limited, else 0
        "n_limit_rows",  # limits, if one of them is on several arms, else 0
        "n_corners",  # corners of the mixtures that keep the limits, where they are needed
    ),
    fields=(
        # how shares are limited: 0, or the sum of some of SINGLE_ARM_LIMITS, JOINT_LIMITS and SOME_ARMS_BARRED
        field("constraint_kind", int, "", "fixed"),
        # 1 if ``mix`` is sure to keep the limits; a user's kernel may not see to it
        field("mix_is_feasible", int, "", "fixed"),
        field("min_shares", float, "n_limited", "fixed"),  # the least share of each arm
        field("max_shares", float, "n_limited", "fixed"),  # and the largest
        # limits on several arms: limit_rows · shares ≤ limit_bounds
        field("limit_rows", float, "n_limit_rows, n_limited", "fixed"),
        field("limit_bounds", float, "n_limit_rows", "fixed"),
        field("limit_excess", float, "n_limit_rows", "scratch"),  # by how much each of them is exceeded, in pulls
        field("corners", float, "n_corners, n_limited", "fixed"),  # the corners of the mixtures that keep all limits
        # what the 1, 2, … arms that are furthest behind may lack together
        field("lag_bounds", float, "n_limited", "fixed"),
        field("search_scratch", float, "4, n_limited", "scratch"),  # of a search within limits
        # limits on several arms: for each arm the mixture within the limits that has the most of it
        field("fullest_mixtures", float, "n_limited, n_limited", "fixed"),
        # by how much an arm is behind what the limits are kept by
        field("limit_deficit", float, "n_limited", "saved cleared"),
        # before this round no floor is in danger
        field("next_limit_check_at", int, "has_share_limits", "saved cleared"),
    ),
)

# Pulls for certifying (``mixtures/_certifying.py``).
CERTIFYING = Group(
    sizes=(
        "n_certifying",  # n_arms if a share of pulls is for certifying, else 0
    ),
    fields=(
        field("certify", float, "", "fixed"),  # the share of pulls that is for certifying
        field("certify_pulls", int, "n_certifying", "saved added", "0 … pulls"),  # pulls of each arm for certifying
        # rewards of each arm when the gains were worked out
        field("certify_n_rewards", int, "n_certifying", "saved cleared"),
        field("certify_gain", float, "n_certifying", "saved"),  # how much a reward of each arm helps
        field("rival_mixture", float, "n_certifying", "scratch"),  # the mixture with the largest possible utility
    ),
)

# Rewards in sketches (``estimates/_sketch.py``).
SKETCHES = Group(
    sizes=(
        "n_sketches",  # n_arms if rewards are kept in sketches, else 0
        "sketch_capacity",  # numbers that fit into a sketch
        "n_pool_weights",  # numbers that fit into all sketches together
    ),
    fields=(
        field("sketch_size", int, "", "fixed"),  # k of the sketches; 0 without sketches
        field("rank_delta", float, "", "fixed"),  # probability that a sketch's rank error is larger than stated
        field("n_pooled", int, "", "saved arranged"),  # how many numbers the pool holds, with sketches
        # whole numbers of the sketch of each arm,
        field("sketch_header", int, f"n_sketches, {SKETCH_HEADER}", "saved"),
        field("sketch_stats", float, f"n_sketches, {SKETCH_STATS}", "saved", "any"),  # other numbers,
        # and the rewards that it keeps
        field("sketch_items", float, "n_sketches, sketch_capacity", "saved arranged"),
        field("pool_weight", int, "n_pool_weights", "arranged"),  # for how many rewards a number stands
    ),
)

# Rewards that are forgotten, and arms that are watched for changes (``estimates/``).
FORGETTING = Group(
    sizes=(
        "window_capacity",  # rewards that are kept in the order in which they came; 0 without a window
        "n_detectors",  # n_arms if each arm is watched for changes, else 0
        "n_forgetting_counters",  # 3 if rewards are forgotten or arms are watched, else 0
        "n_found_changes",  # changes that are remembered; 0 if arms are not watched
    ),
    fields=(
        field("alarm_threshold", float, "", "fixed"),  # ln(K/level) of watching the arms for changes
        # how often was forgotten; the logarithm of the share of δ that is left; and how many changes were found
        field("forgetting_counters", float, "n_forgetting_counters", "saved", "0 … "),
        # what watches each arm: whole numbers,
        field("detector_header", int, f"n_detectors, {DETECTOR_HEADER}", "saved"),
        field("detector_thresholds", float, f"n_detectors, {DETECTOR_THRESHOLDS}", "saved"),  # thresholds,
        field("detector_counts", int, f"n_detectors, {DETECTOR_COUNTS}", "saved"),  # and counts
        field("found_changes", float, f"n_found_changes, {CHANGE_ROW}", "saved"),  # the changes that were found last
        # the rewards of the window in the order in which they came,
        field("window_rewards", float, "window_capacity", "saved arranged"),
        # and the arms that paid them
        field("window_arms", int, "window_capacity", "saved arranged", "0 … n_arms - 1"),
    ),
)

GROUPS = (
    CORE, CONFIDENCE_SETS, GRIDS, SEARCH, SURVIVAL_TABLE, SEGMENTS, SHARE_LIMITS, CERTIFYING, SKETCHES, FORGETTING,
)  # fmt: skip

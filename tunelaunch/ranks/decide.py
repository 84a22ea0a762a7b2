"""Which choice of tactics wins, from interleaved timings of the whole op: pure functions, no torch, no clock.

Every round of a trial times each candidate once, so a candidate is compared with another round by round and slow drift
(clocks, temperature) cancels. The noise is measured in the same rounds: default is timed twice under two names, and the
spread of the rounds counts too. Within that noise two candidates are a tie: the incumbent of an earlier
generation wins it, else the lowest tactics. A choice that does not beat default by the minimum gain loses to default.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_NEARLY_ALL = 0.9
NEAR = 0.04
"""How far behind the best of the heat a choice may be and still run in the final: more than two captures of one differ."""
MOST_FINALISTS = 5

Combo = tuple[tuple[str, str | None, Any], ...]
"""(op, runner name, tactic as JSON) for each stage of the op, in call order."""

_MEDIAN_OF_TWO = 1.2533 * 2.0**0.5
"""Standard error of a difference of two medians over that of one mean, for normal noise."""


@dataclass(frozen=True)
class Samples:
    """Interleaved timings of one op at one bucket.

    ``times[i][r]`` is candidate ``i`` in round ``r``, in microseconds; ``candidates[0]`` is default and ``twin`` is
    default once more, timed as if it were another candidate.
    """

    candidates: tuple[Combo, ...]
    times: tuple[tuple[float, ...], ...]
    twin: tuple[float, ...]


@dataclass(frozen=True)
class Verdict:
    """The choice for one bucket. ``ranking`` lists candidate indices, best first, as fallbacks if the choice fails a check."""

    index: int
    why: str
    us: float
    default_us: float
    runner_up_us: float | None
    noise_percent: float
    ranking: tuple[int, ...] = field(default=())

    @property
    def gain_percent(self) -> float:
        """How much faster than default the choice ran, in percent of default's time (negative: slower)."""
        return 100.0 * (1.0 - self.us / self.default_us) if self.default_us > 0 else 0.0


def mean_samples(ranks: Sequence[Samples]) -> Samples:
    """Timings averaged over the ranks of a group, which ran the same candidates in the same rounds."""
    first = ranks[0]

    def mean(rows: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
        return tuple(statistics.fmean(values) for values in zip(*rows, strict=True))

    times = tuple(mean([rank.times[i] for rank in ranks]) for i in range(len(first.times)))
    return Samples(first.candidates, times, mean([rank.twin for rank in ranks]))


def noise(samples: Samples) -> float:
    """Relative margin within which two candidates of these rounds are a tie (0.01 is one percent).

    The larger of two readings: default against itself, captured and timed twice; and three standard errors of a
    comparison, from the spread of all candidates' rounds around their own middle once the common drift is taken out.
    """
    rows = [*samples.times, samples.twin]
    drift = [statistics.median(values) for values in zip(*rows, strict=True)]
    residuals = []
    for row in rows:
        shares = [value / common for value, common in zip(row, drift, strict=True) if common > 0]
        middle = statistics.median(shares) if shares else 0.0
        residuals += [abs(share / middle - 1.0) for share in shares if middle > 0]
    spread = 1.4826 * statistics.median(residuals) if residuals else 0.0
    error = spread * _MEDIAN_OF_TWO / max(len(samples.twin), 1) ** 0.5
    again = [b / a for a, b in zip(samples.times[0], samples.twin, strict=True) if a > 0]
    return max(abs(statistics.median(again) - 1.0) if again else 0.0, 3.0 * error)


def ratio(samples: Samples, index: int, against: int) -> float:
    """Median over rounds of candidate ``index``'s time divided by candidate ``against``'s."""
    pairs = zip(samples.times[index], samples.times[against], strict=True)
    return statistics.median(a / b for a, b in pairs if b > 0)


def beaten(samples: Samples, index: int, by: int, margin: float) -> bool:
    """Whether candidate ``by`` is faster beyond the noise: in the middle by more than ``margin``, and in nearly every round.

    The best of several equals looks faster than it is, so that the middle alone would unseat a choice now and then.
    """
    pairs = list(zip(samples.times[index], samples.times[by], strict=True))
    slower = sum(mine > theirs for mine, theirs in pairs)
    return ratio(samples, index, by) > 1.0 + margin and slower >= _NEARLY_ALL * len(pairs)


def finalists(samples: Samples, incumbent: Combo | None = None) -> tuple[Combo, ...]:
    """Default, the incumbent and the choices of a first heat that a second look may still put first."""
    ranking = sorted(range(1, len(samples.candidates)), key=lambda i: ratio(samples, i, 0))
    best = ratio(samples, ranking[0], 0) if ranking else 1.0
    near = [i for i in ranking if ratio(samples, i, 0) <= best * (1.0 + NEAR) + noise(samples)][:MOST_FINALISTS]
    held = [i for i in ranking if samples.candidates[i] == incumbent]
    return tuple(samples.candidates[i] for i in (0, *sorted({*near, *held})))


def among(samples: Samples, candidates: Sequence[Combo]) -> Samples:
    """The same rounds, of ``candidates`` only."""
    places = [samples.candidates.index(combo) for combo in candidates]
    return Samples(tuple(candidates), tuple(samples.times[i] for i in places), samples.twin)


def decide(
    samples: Samples,
    *,
    min_gain_percent: float,
    incumbent: Combo | None = None,
    excluded: frozenset[int] = frozenset(),
    heat: Samples | None = None,
) -> Verdict:
    """Choose for one bucket.

    ``excluded`` are candidates that failed a check; default (index 0) is never excluded. ``heat`` holds earlier,
    independent rounds of the same candidates: what beats another must have done so in both.
    """
    allowed = [i for i in range(len(samples.candidates)) if i == 0 or i not in excluded]
    against_default = {i: ratio(samples, i, 0) for i in allowed}
    ranking = sorted(allowed, key=lambda i: (against_default[i], _order(samples.candidates[i])))
    margin = max(noise(samples), noise(heat) if heat is not None else 0.0)
    looks = [samples] if heat is None else [samples, heat]
    tied = [i for i in ranking if not all(beaten(look, i, ranking[0], margin) for look in looks)]
    held = next((i for i in allowed if incumbent is not None and samples.candidates[i] == incumbent), None)
    choice, why = _choice(ranking, tied, held, against_default, samples, margin, min_gain_percent / 100.0)
    default_us = statistics.median(samples.times[0])
    others = [i for i in ranking if i != choice]
    return Verdict(
        index=choice,
        why=why,
        us=default_us * against_default[choice],
        default_us=default_us,
        runner_up_us=default_us * against_default[others[0]] if others else None,
        noise_percent=100.0 * margin,
        ranking=tuple(ranking),
    )


def _choice(
    ranking: list[int],
    tied: list[int],
    held: int | None,
    against_default: Mapping[int, float],
    samples: Samples,
    margin: float,
    min_gain: float,
) -> tuple[int, str]:
    """The choice and why. A tie never costs the gain: the fastest may pass where the lowest of the tied does not."""
    best = ranking[0]
    if held is not None and held in tied:
        return held, "fastest" if held == best else "incumbent"
    # To put a default that was chosen before out of office takes the gain beyond noise, or it would flip at every start.
    enough = 1.0 - min_gain - (margin if held == 0 else 0.0)
    fast = [i for i in tied if i != 0 and against_default[i] <= enough]
    if not fast:
        return 0, "not faster"
    lowest = min(fast, key=lambda i: _order(samples.candidates[i]))
    return lowest, "fastest" if lowest == best else "tie"


def candidates_for(
    stages: Mapping[str, Sequence[tuple[str | None, Any]]], *, limit: int, incumbent: Combo | None = None
) -> tuple[Combo, ...]:
    """Default first, then the near-best pairs of stages, at most ``limit`` in all; the profile's own picks come early.

    ``stages`` maps each op, in call order, to its (runner, tactic) options, the profile's best first. Mixed choices (one
    stage at default) are included, because a stage can win its own profile and lose in the op.
    """
    ops = list(stages)
    default: Combo = tuple((op, None, -1) for op in ops)
    options = [[(op, *option) for option in [*stages[op], (None, -1)]] for op in ops]
    combos: list[tuple[int, Combo]] = []
    _extend(options, (), 0, combos)
    ordered = [combo for _, combo in sorted(combos, key=lambda item: item[0])]
    chosen: list[Combo] = [default]
    for combo in ([incumbent] if incumbent else []) + ordered:
        if combo not in chosen and len(chosen) < limit:
            chosen.append(combo)
    return tuple(chosen)


def _extend(
    options: list[list[tuple[str, str | None, Any]]], head: Combo, cost: int, out: list[tuple[int, Combo]]
) -> None:
    if not options:
        out.append((cost, head))
        return
    for place, option in enumerate(options[0]):
        _extend(options[1:], (*head, option), cost + place, out)


def _order(combo: Combo) -> tuple[str, ...]:
    """A fixed order of choices, lowest tactic first; padded so that 9 comes before 10."""
    return tuple(json.dumps(_padded(tactic)) for _, _, tactic in combo)


def _padded(tactic: Any) -> Any:
    if isinstance(tactic, list):
        return [_padded(item) for item in tactic]
    return f"{tactic + 1:08d}" if isinstance(tactic, int) and not isinstance(tactic, bool) else tactic

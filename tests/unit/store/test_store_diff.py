"""What changed between two states of a table."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from storekit import TID, row

from tunelaunch.store import Row, Table
from tunelaunch.store.diff import KINDS, diff

MIRROR = {"gained": "lost", "lost": "gained", "new": "gone", "gone": "new", "changed": "changed"}


def table(*rows: Row, generation: int = 1) -> Table:
    return Table(TID.device, TID.environment, generation, rows)


def timed(number: int, tactic: Any, us: float | None, noise: float = 0.0, **more: Any) -> Row:
    times = {} if us is None else {"us": {"winner": us, "default": 100.0, "runner_up": None}}
    return row(number, tactic, evidence={"tokens": number, "noise_percent": noise, **times}, **more)


EVIDENCE = st.fixed_dictionaries(
    {},
    optional={
        "us": st.fixed_dictionaries(
            {}, optional={"winner": st.floats() | st.integers() | st.text(max_size=2) | st.none()}
        )
        | st.integers(),
        "noise_percent": st.floats(0, 60) | st.none() | st.text(max_size=2),
        "tokens": st.integers(1, 8) | st.none() | st.booleans(),
        "at": st.text(max_size=3),
    },
)
ROWS = st.lists(
    st.builds(
        row,
        st.integers(1, 6),
        st.sampled_from([-1, 7, 14, True, [[128, 16], True]]),
        evidence=EVIDENCE,
        scope=st.sampled_from([None, "9b0d4e2f61aa"]),
    ),
    max_size=8,
    unique_by=lambda r: r.identity,
)
TABLES = st.none() | st.builds(lambda rows, generation: table(*rows, generation=generation), ROWS, st.integers(0, 9))


@settings(deadline=None)
@given(TABLES)
def test_a_state_differs_from_itself_by_nothing(state: Table | None) -> None:
    found = diff(state, state)
    assert found.changes == ()
    assert found.same == (len(state.rows) if state else 0)


@settings(deadline=None, max_examples=200)
@given(TABLES, TABLES)
def test_swapped_states_swap_gained_with_lost_and_new_with_gone(a: Table | None, b: Table | None) -> None:
    there, back = diff(a, b), diff(b, a)
    key = lambda change: (change.key, change.scope or "")  # noqa: E731
    for kind in KINDS:
        assert sorted(map(key, there.of(kind))) == sorted(map(key, back.of(MIRROR[kind])))
    assert {key(c): (c.before, c.after) for c in there.changes} == {key(c): (c.after, c.before) for c in back.changes}
    every = {r.identity for state in (a, b) if state for r in state.rows}
    assert sum(there.counts().values()) == len(every)
    assert (there.before, there.after) == (back.after, back.before)


def test_each_kind_of_change_is_told_with_its_figures() -> None:
    before = table(timed(1, 7, 50.0), timed(2, 7, 50.0), timed(3, 7, None), timed(4, 7, 50.0), timed(6, 7, 50.0))
    after = table(
        timed(1, 9, 40.0), timed(2, 9, 60.0), timed(3, 9, 50.0), timed(5, -1, 50.0), timed(6, 7, 10.0), generation=2
    )
    found = diff(before, after)
    assert [(c.kind, c.tokens, c.percent) for c in found.changes] == [
        ("gained", 1, 20.0),
        ("lost", 2, -20.0),
        ("changed", 3, None),
        ("gone", 4, None),
        ("new", 5, None),
    ]
    assert found.same == 1  # the same choice, measured again, is no change
    gained = found.changes[0]
    assert gained.before is not None and gained.after is not None
    assert (gained.before.tactic, gained.after.tactic, gained.before.us, gained.after.us) == (7, 9, 50.0, 40.0)
    assert found.summary() == ("generation 1 -> generation 2: 1 gained, 1 lost, 1 changed, 1 new, 1 gone, 1 the same")
    assert found.to_json()["counts"] == {"gained": 1, "lost": 1, "changed": 1, "new": 1, "gone": 1, "same": 1}


def test_a_difference_within_the_recorded_noise_is_no_gain() -> None:
    found = diff(table(timed(1, 7, 100.0, noise=5.0)), table(timed(1, 9, 96.0)))
    assert [c.kind for c in found.changes] == ["changed"]
    assert [c.kind for c in diff(table(timed(1, 7, 100.0, noise=3.0)), table(timed(1, 9, 96.0))).changes] == ["gained"]


def test_another_policy_or_runner_is_a_change_and_a_nested_tactic_is_compared_by_content() -> None:
    nested = Row(key="k", value=["R", ((1, 2), True)])
    same = Row(key="k", value=["R", [[1, 2], True]])
    assert diff(table(nested), table(same)).changes == ()
    for other in (["R", [[1, 2], 1]], ["S", [[1, 2], True]], ["R", [[1, 2], True], "policy"]):
        assert len(diff(table(nested), table(Row(key="k", value=other))).changes) == 1


def test_without_a_table_before_every_row_is_new() -> None:
    found = diff(None, table(row(1), row(2)))
    assert [c.kind for c in found.changes] == ["new", "new"]
    assert found.summary() == "no table -> generation 1: 2 new"
    assert diff(None, None).summary() == "no table -> no table: no choice differs (0 rows the same)"

"""Rows that are usable only as the whole set of one launch: they stand or fall together."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storekit import ENVIRONMENT, TID, row

from tunelaunch.store import Row, Store
from tunelaunch.store.merge import merge, overlay, set_id, whole


def ranks(name: str, numbers: range | list[int], tactic: int, size: int | None = None) -> list[Row]:
    """One row a rank; the number of the row stands for the rank in its key."""
    size = len(numbers) if size is None else size
    return [row(n, tactic, set={"id": name, "size": size, "index": i}) for i, n in enumerate(numbers)]


def publish(store: Store, rows: list[Row], **options: bool):
    return store.publish(TID, rows, environment=ENVIRONMENT, **options)


def rows_of(store: Store) -> set[Row]:
    table = store.load(TID).table
    return set(table.rows) if table else set()


def test_the_set_of_a_later_launch_is_dropped_whole_without_replace(store: Store) -> None:
    first = ranks("A", range(4), 7)
    publish(store, first)
    out = publish(store, ranks("B", range(2, 6), 9))
    assert (out.generation, out.added, out.problems) == (1, 0, ())
    assert rows_of(store) == set(first)


def test_with_replace_a_set_takes_the_place_of_every_set_that_it_meets(store: Store) -> None:
    publish(store, [*ranks("A", range(4), 7), *ranks("C", [4, 5], 7), row(9)])
    second = ranks("B", range(2, 5), 9)
    out = publish(store, second, replace=True)
    assert (out.added, out.replaced, out.removed, out.kept) == (0, 3, 3, 1)
    assert rows_of(store) == {*second, row(9)}


def test_a_set_that_meets_no_other_is_added_beside_it(store: Store) -> None:
    first, second = ranks("A", range(2), 7), ranks("B", range(2, 4), 9)
    publish(store, first)
    publish(store, second)
    assert rows_of(store) == {*first, *second}


def test_a_later_pass_of_the_same_launch_adds_to_its_own_set(store: Store) -> None:
    first = ranks("A", range(2), 7)
    publish(store, first)
    more = ranks("A", [10, 11], 8)
    assert publish(store, [*more, *ranks("A", range(2), 9)]).added == 2
    assert rows_of(store) == {*first, *more}


def test_a_set_on_disk_that_lacks_ranks_gives_way_to_a_whole_one(store: Store) -> None:
    publish(store, ranks("A", [0, 1], 7, size=4))
    whole_one = ranks("B", range(4), 9)
    publish(store, whole_one)
    assert rows_of(store) == set(whole_one)


def test_a_published_set_that_lacks_ranks_never_replaces_a_whole_one(store: Store) -> None:
    first = ranks("A", range(4), 7)
    publish(store, first)
    out = publish(store, ranks("B", [0, 1], 9, size=4), replace=True)
    assert "rows of set B lack ranks" in str(out.problems[0])
    assert rows_of(store) == set(first)


def test_a_pinned_table_keeps_its_sets_whole(store: Store) -> None:
    first = ranks("A", range(2), 7)
    publish(store, first)
    store.pin(TID)
    out = publish(store, [*ranks("B", range(1, 3), 9), row(9)], replace=True)
    assert (out.added, out.replaced, out.removed) == (1, 0, 0)
    assert rows_of(store) == {*first, row(9)}


def test_a_row_without_a_set_replaces_the_whole_set_of_its_key(store: Store) -> None:
    publish(store, ranks("A", range(3), 7))
    publish(store, [row(1, 9)])
    assert rows_of(store) == set(ranks("A", range(3), 7))
    publish(store, [row(1, 9)], replace=True)
    assert rows_of(store) == {row(1, 9)}


def test_a_set_below_that_is_covered_in_part_does_not_show_through(tmp_path: Path) -> None:
    below, above = Store.open(tmp_path / "below"), tmp_path / "above"
    publish(below, [*ranks("A", range(3), 7), row(9)])
    store = Store(above, below=below.root)
    second = ranks("B", range(2), 9)
    out = publish(store, second, replace=True)
    assert (out.replaced, out.removed, out.kept) == (2, 1, 1)
    assert rows_of(store) == {*second, row(9)}
    assert publish(store, second, replace=True).generation == out.generation
    assert rows_of(below) == {*ranks("A", range(3), 7), row(9)}


def test_any_size_that_a_file_holds_is_judged_at_once() -> None:
    assert not whole([row(1, set={"id": "A", "size": 10**15, "index": 0})])
    assert not whole([row(1, set={"id": "A", "size": 1, "index": -3})])
    assert not whole([row(1, set={"id": "A", "size": 2, "index": i}) for i in (0, 2)])
    assert whole([row(1), row(2)])


SETS = st.builds(
    lambda name, start, size, tactic: ranks(name, range(start, start + size), tactic),
    st.sampled_from("ABCDEFGH"),
    st.integers(0, 8),
    st.integers(1, 4),
    st.integers(0, 3),
)
LAUNCHES = st.lists(
    st.tuples(SETS | st.builds(lambda n, t: [row(n, t)], st.integers(0, 12), st.integers(0, 3)), st.booleans())
)


@settings(deadline=None, max_examples=200)
@given(LAUNCHES, st.data())
def test_whatever_is_published_every_set_in_the_table_is_whole(
    launches: list[tuple[list[Row], bool]], data: st.DataObject
) -> None:
    rows: tuple[Row, ...] = ()
    below: tuple[Row, ...] = ()
    for number, (incoming, replace) in enumerate(launches):
        # Each launch has an id of its own, as on a real host.
        mine = [row_of(r, number) for r in incoming]
        made = merge(rows, mine, replace=replace, pinned=data.draw(st.booleans()), below=below)
        rows = made.rows
        if data.draw(st.integers(0, 4)) == 0:
            below, rows = overlay(below, rows), ()
        seen = overlay(below, rows)
        sets: dict[str, list[Row]] = {}
        for r in seen:
            if (name := set_id(r)) is not None:
                sets.setdefault(name, []).append(r)
        assert all(whole(group) for group in sets.values())
        assert len({r.identity for r in seen}) == len(seen)


def row_of(r: Row, launch: int) -> Row:
    part = None if r.set is None else {**r.set, "id": f"{r.set['id']}{launch}"}
    return Row(key=r.key, value=r.value, op=r.op, set=part)


@pytest.mark.parametrize("replace", [False, True])
def test_two_sets_in_one_publish_are_not_mixed(store: Store, replace: bool) -> None:
    first, second = ranks("A", range(3), 7), ranks("B", range(1, 4), 9)
    mixed = [r for pair in zip(first, second, strict=True) for r in pair]
    publish(store, mixed, replace=replace)
    assert rows_of(store) == set(second if replace else first)

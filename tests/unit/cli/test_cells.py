"""Ages, sizes and tactics, as typed and as printed."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunelaunch.cli import cells
from tunelaunch.cli.cache.names import Ref, ref_of
from tunelaunch.cli.output import print_columns


@pytest.mark.parametrize(
    ("text", "seconds"), [("45s", 45), ("90m", 5400), ("12h", 43200), ("1.5d", 129600), ("2w", 1209600)]
)
def test_ages(text: str, seconds: float) -> None:
    assert cells.age_from(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("2048", 2048), ("10k", 10240), ("1.5G", 3 << 29), ("500MB", 500 << 20), ("1GiB", 1 << 30)],
)
def test_sizes(text: str, size: int) -> None:
    assert cells.size_from(text) == size


@pytest.mark.parametrize("text", ["", "3", "d", "-3d", "3 d 4", "1e9d", "\u0663d", "3days"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="30d"):
        cells.age_from(text)


@pytest.mark.parametrize("text", ["", "M", "-1M", "1X", "nan", "1e9"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="500M"):
        cells.size_from(text)


def test_words_for_ages_and_sizes() -> None:
    assert [cells.age_words(s) for s in (-5, 0, 59, 60, 7199, 86400, 9e9)] == [
        "0s",
        "0s",
        "59s",
        "1m",
        "1h",
        "1d",
        "104166d",
    ]
    assert [cells.size_words(s) for s in (0, 1023, 1024, 1536, 1 << 40, 1 << 60)] == [
        "0",
        "1023",
        "1.0K",
        "1.5K",
        "1.0T",
        "1048576.0T",
    ]
    assert cells.time_words(1e300) == "-"


TACTICS = st.integers() | st.recursive(
    st.lists(st.integers() | st.booleans() | st.none(), max_size=3),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


@given(TACTICS)
def test_a_tactic_that_was_printed_can_be_typed_as_it_is_or_as_python_writes_it(tactic: Any) -> None:
    assert cells.tactic_from(cells.tactic_words(tactic)) == tactic
    native = tuple(tactic) if isinstance(tactic, list) else tactic
    assert cells.tactic_from(repr(native)) == tactic


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        (None, Ref()),
        ("3", Ref(None, 3)),
        ("nvidia@3", Ref("nvidia", 3)),
        ("@3", Ref(None, 3)),
        ("x/0123456789ab", Ref("x/0123456789ab")),
        ("012345678901", Ref("012345678901")),
    ],
)
def test_what_names_a_table_and_what_a_generation(text: str | None, ref: Ref) -> None:
    assert ref_of(text) == ref


def test_columns_of_numbers_go_to_the_right_and_dashes_with_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns([("A", "B", "C"), ("1.5", "x", "-"), ("-", "long", "+10.0%"), ("100.0", "y", "1.5K")])
    assert capsys.readouterr().out.splitlines() == [
        "    A  B          C",
        "  1.5  x          -",
        "    -  long  +10.0%",
        "100.0  y       1.5K",
    ]

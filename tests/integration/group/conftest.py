"""One nest for all tests of groups: importing SGLang takes longer than most scenarios."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from support.group import Nest


@pytest.fixture(scope="session")
def nest() -> Iterator[Nest]:
    """The nest with the installed SGLang and FlashInfer."""
    made = Nest()
    yield made
    made.close()

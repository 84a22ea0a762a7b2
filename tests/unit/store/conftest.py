from __future__ import annotations

from pathlib import Path

import pytest

from tunelaunch.store import Store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def store(root: Path) -> Store:
    return Store.open(root)

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cachekit import Cache


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cache:
    for name in [n for n in os.environ if n.startswith("TUNELAUNCH_")]:
        monkeypatch.delenv(name)
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("TUNELAUNCH_CACHE_DIR", str(tmp_path / "root"))
    return Cache(tmp_path / "root", capsys)

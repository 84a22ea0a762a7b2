"""Helpers of the command line's tests: a root with tables in it, and commands over it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tunelaunch.cli.main import main
from tunelaunch.store import Row, Store, TableId

PRO = TableId("nvidia-rtx-pro-6000-blackwell-workstation-edition.sm120.188sm", "a" * 12)
RTX = TableId("nvidia-geforce-rtx-5090.sm120.170sm", "b" * 12)


class Cache:
    """The root that ``TUNELAUNCH_CACHE_DIR`` names, and the command line over it."""

    PRO, RTX = PRO, RTX

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self._capsys = root, capsys

    @property
    def store(self) -> Store:
        return Store.open(self.root)

    def publish(self, *rows: Row, tid: TableId = PRO, **options: Any) -> None:
        out = self.store.publish(tid, rows, environment={"gpu_name": "X"}, replace=True, **options)
        assert out.generation is not None and not out.problems, out

    def run(self, *args: str, code: int = 0) -> str:
        """Run ``tunelaunch ARGS``; its output, and after a failure its errors."""
        got = main(list(args))
        out, err = self._capsys.readouterr()
        assert got == code, (got, out, err)
        return out if code == 0 else out + err

    def json(self, *args: str, code: int = 0) -> Any:
        assert main([*args, "--format", "json"]) == code
        return json.loads(self._capsys.readouterr().out)


def row(tokens: int, tactic: Any, us: float | None = None, default: float = 100.0, **evidence: Any) -> Row:
    """A row as a tuning pass makes it."""
    times = {} if us is None else {"us": {"winner": us, "default": default, "runner_up": us + 1}}
    gain = {} if us is None else {"gain_percent": round((default / us - 1) * 100, 2)}
    found = {"tokens": tokens, **times, **gain, **evidence}
    return Row(key=f"('m::gemm1', 'R', (({tokens}, 8),), ())", value=["R", tactic], op="m::gemm1", evidence=found)

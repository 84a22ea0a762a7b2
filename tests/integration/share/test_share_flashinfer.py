"""A plain file of ours and FlashInfer itself: loaded where the environment is the same, refused where it is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "unit" / "share"))
from sharekit import FIELDS, publish, row

from tunelaunch.cli.main import main

LOAD = """
import json, sys
import torch
torch.cuda.current_device = lambda: 0
torch.cuda.get_device_name = lambda device=None: "Simulated GPU (CPU)"
from flashinfer.autotuner import AutoTuner, _collect_metadata
tuner = AutoTuner.get()
loaded = [tuner.load_configs(path) for path in sys.argv[1:]]
rows = {key: list(value) for key, value in tuner._file_configs.items()}
print(json.dumps({"metadata": _collect_metadata(), "loaded": loaded, "rows": rows}))
"""
"""Only the GPU's name is not real."""


def flashinfer(*paths: Path) -> Any:
    done = subprocess.run([sys.executable, "-c", LOAD, *map(str, paths)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_flashinfer_loads_what_export_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    metadata = flashinfer()["metadata"]
    fields = {name: value for name, value in FIELDS.items() if not name.startswith("flashinfer.")}
    fields |= {f"flashinfer.{name}": value for name, value in metadata.items()}
    rows = [row(1, 5), row(2, [[128, 16], [1, 1], True, False, 4]), row(3, -1)]
    files = {}
    for name, changed in (("same", {}), ("other", {"flashinfer.cudnn_version": "1"})):
        publish(tmp_path / name, rows, fields | changed)
        files[name] = tmp_path / f"{name}.json"
        export = ["export", str(files[name]), "--as", "flashinfer", "--tunelaunch-cache", str(tmp_path / name)]
        assert main(export) == 0
    seen = flashinfer(files["other"], files["same"])
    assert seen["loaded"] == [False, True]
    assert {key: value[:2] for key, value in seen["rows"].items()} == {r.key: list(r.value) for r in rows}

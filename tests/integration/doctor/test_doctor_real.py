"""Real SGLang, FlashInfer and torch are asked, on this machine, with or without a GPU; half a minute a question."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).resolve().parents[2] / "unit"
sys.path[:0] = [str(UNIT / name) for name in ("doctor", "device")]

from doctorkit import GATE, is_valid  # noqa: E402

from tunelaunch.cli.main import main  # noqa: E402
from tunelaunch.doctor import recorded  # noqa: E402
from tunelaunch.doctor.asking import ask  # noqa: E402


def test_real_sglang_and_flashinfer_answer_without_a_gpu_or_a_model(tmp_path: Path) -> None:
    config = tmp_path / "server.yaml"
    config.write_text("moe-runner-backend: flashinfer_trtllm\ntensor-parallel-size: 4\n")
    arguments = ["--config", str(config), "--model-path", "m", "--quantization", "modelopt_fp4"]
    answer = ask(["sglang", "environment"], arguments, timeout_s=300.0, environ={**os.environ, "HOME": str(tmp_path)})
    data = answer.data
    assert answer.problems == ()
    assert data["sglang"]["missing"] == data["flashinfer"]["missing"] == []
    raw = data["arguments"]["raw"]
    assert (raw["moe_runner_backend"], raw["tp_size"], raw["quantization"]) == ("flashinfer_trtllm", 4, "modelopt_fp4")
    assert {"moe_runner_backend", "tp_size", "model_path"} <= set(data["arguments"]["given"])
    assert data["arguments"]["lacking"] == []
    assert set(GATE["moe_backends"]) <= set(data["gate"]["moe_backends"])
    assert set(data["directories"]) >= {"SGLANG_CACHE_DIR", "FLASHINFER_WORKSPACE_BASE", "TRITON_CACHE_DIR"}
    told = [data["libraries"]] if not data["devices"] else [known["environment"] for known in data["devices"]]
    for fields in (environment["fields"] for environment in told):
        assert fields["flashinfer.flashinfer_version"] == data["flashinfer"]["version"]
        assert len(fields["packages"]) == 64
    assert json.dumps(data)


def test_this_machine_is_examined_and_its_facts_answer_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root, facts = tmp_path / "root", tmp_path / "facts.json"
    monkeypatch.setenv("TUNELAUNCH_CACHE_DIR", str(root))
    # An abbreviation that only SGLang's own parser knows, and no --model-path, which it requires.
    arguments = ["--moe-runner", "flashinfer_cutlass", "--save-facts", str(facts)]
    main(["doctor", *arguments, "--format", "json"])
    found = is_valid(json.loads(capsys.readouterr().out), "doctor")
    assert found["arguments"]["raw"]["moe_runner_backend"] == "flashinfer_cutlass"
    assert found["arguments"]["lacking"] == ["--model-path"]
    assert {place["variable"] for place in found["places"]} >= {"TUNELAUNCH_CACHE_DIR", "SGLANG_CACHE_DIR"}
    assert found["sglang"]["missing"] == found["flashinfer"]["missing"] == []
    written = recorded.load(facts)
    is_valid(written.to_json(), "facts")
    assert written.sglang.version == found["sglang"]["version"]
    assert main(["why", "--facts", str(facts), "--format", "json"]) == 0
    answer = is_valid(json.loads(capsys.readouterr().out), "why")["answers"][0]
    assert answer["hit"] is (False if written.devices else None)
    assert not root.exists()

"""``tunelaunch doctor`` as a command; what SGLang would say of the arguments is given (for real: tests/integration)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from cachekit import Cache

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("doctor", "device")]

from doctorkit import PRO, host, save, told  # noqa: E402

from tunelaunch.cli import doctor  # noqa: E402
from tunelaunch.doctor import known  # noqa: E402


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """SGLang's answer is given at once; the arguments that it was asked about are kept."""
    asked: list[tuple[str, ...]] = []

    def ask(parts, arguments, **_):
        asked.append(tuple(arguments))
        given = dict(zip(arguments[::2], arguments[1::2], strict=False))
        return told(raw={"moe_runner_backend": given.get("--moe-runner-backend", "auto")})

    monkeypatch.setattr(doctor, "ask", ask)
    monkeypatch.setattr(known, "ask", ask)
    return asked


def test_the_wrong_backend_for_a_recorded_card_is_exit_1(
    cache: Cache, tmp_path: Path, answered: list[tuple[str, ...]]
) -> None:
    facts = str(save(tmp_path / "facts.json", host(PRO)))
    out = cache.run("doctor", "--facts", facts, "--moe-runner-backend", "flashinfer_trtllm", "--tp", "2", code=1)
    assert answered == [("--moe-runner-backend", "flashinfer_trtllm", "--tp", "2")]
    assert "BLOCKING  the trtllm-gen MoE kernels exist for SM100" in out
    assert "use instead: --moe-runner-backend flashinfer_cutlass" in out
    assert "https://github.com/flashinfer-ai/flashinfer/issues/2045" in out
    fine = cache.run("doctor", f"--facts={facts}", "--moe-runner-backend", "flashinfer_cutlass")
    assert "BLOCKING" not in fine


def test_a_foreign_plugin_list_is_named(
    cache: Cache, answered: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_PLUGINS", "other")
    found = {finding["id"]: finding for finding in cache.json("doctor")["findings"]}
    assert found["plugin.whitelist"]["do"] == "SGLANG_PLUGINS=other,tunelaunch"


def test_a_variable_with_a_wrong_value_is_named(
    cache: Cache, answered: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNELAUNCH_EFFORT", "extreme")
    found = {finding["id"]: finding for finding in cache.json("doctor")["findings"]}
    assert "TUNELAUNCH_EFFORT is ignored" in found["option.ignored"]["what"]


def test_facts_that_cannot_be_read_cost_no_question(
    cache: Cache, tmp_path: Path, answered: list[tuple[str, ...]]
) -> None:
    assert "cannot be read" in cache.run("doctor", "--facts", str(tmp_path / "none"), code=1)
    assert answered == []


def test_facts_that_cannot_be_written_are_exit_1(cache: Cache, answered: list[tuple[str, ...]]) -> None:
    assert "nothing saved" in cache.run("doctor", "--save-facts", "/proc/none/facts.json", code=1)


def test_what_follows_two_dashes_is_sglangs(cache: Cache, answered: list[tuple[str, ...]]) -> None:
    cache.run("doctor", "--format", "json", "--", "--facts", "x")
    assert answered == [("--facts", "x")]


@pytest.mark.parametrize("command", ["doctor", "why"])
def test_help_and_wrong_values_are_the_commands_own(cache: Cache, command: str) -> None:
    assert "exit codes:" in cache.run(command, "--help")
    assert "--timeout" in cache.run(command, "--timeout", "soon", code=2)
    assert "is not one of" in cache.run(command, "--tunelaunch-mode", "nonsense", code=2)

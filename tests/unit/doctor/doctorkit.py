"""Helpers of the tests of ``why`` and ``doctor``: recorded hosts, answers of SGLang, a fake NVML with card states."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
from fake_nvml import FakeNvml, Gpu

from tunelaunch.device.environment import Environment, Value
from tunelaunch.device.facts import DeviceFacts
from tunelaunch.device.identity import table_id
from tunelaunch.device.recorded import recorded
from tunelaunch.doctor.asking import Answer
from tunelaunch.doctor.recorded import HostFacts, Known, Library
from tunelaunch.store import Row, Store, TableId

REPOSITORY = Path(__file__).resolve().parents[3]
DATA = REPOSITORY / "tests" / "data" / "devices.json"
PRO = recorded(DATA, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition")
MAX_Q = recorded(DATA, "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition")
RTX = recorded(DATA, "NVIDIA GeForce RTX 5090")
GB10 = recorded(DATA, "NVIDIA GB10")
H200 = recorded(DATA, "NVIDIA H200")
OPS = ("trtllm::fused_moe::gemm1", "trtllm::fused_moe::gemm2")
GATE = {
    "moe_backends": ["flashinfer_cutedsl", "flashinfer_cutlass", "flashinfer_mxfp4", "flashinfer_trtllm"],
    "refuses_deterministic": True,
}


def environment(facts: DeviceFacts, packages: str = "5f0c2b6e9d01", tag: str = "", **changed: Value) -> Environment:
    """The environment of ``facts`` with FlashInfer 0.7.2's metadata; ``changed`` are fields of that."""
    metadata: dict[str, Value] = {
        "flashinfer_version": "0.7.2",
        "cuda_version": "13.0",
        "cublas_version": "13.1.1",
        "cudnn_version": "92000",
        "cudnn_frontend_version": "1.32.0",
        "gpu": facts.name,
    }
    info: dict[str, Value] = {"sglang": "0.5.23"}
    return Environment.of(facts, flashinfer={**metadata, **changed}, packages=packages, tag=tag, info=info)


def host(*devices: DeviceFacts, env: Environment | None = None, **fields: Any) -> HostFacts:
    """A recorded host with these cards, each in its environment (or all in ``env``)."""
    known = tuple(Known(device, env or environment(device)) for device in devices)
    libraries = {"sglang": Library("0.5.23", ()), "flashinfer": Library("0.7.2", ())}
    return HostFacts(devices=known, torch={"version": "2.14.1", "cuda": "13.0"}, **{**libraries, **fields})


def save(path: Path, facts: HostFacts) -> Path:
    path.write_text(json.dumps(facts.to_json()))
    return path


def publish(root: Path, facts: DeviceFacts, env: Environment, *rows: Row) -> TableId:
    """Write ``rows`` (or 6 rows of two ops) through the real store, as a start does."""
    tid = table_id(facts, env)
    done = Store.open(root).publish(tid, rows or moe_rows(), environment=dict(env.fields), launch="L1")
    assert done.generation and not done.problems, done
    return tid


def moe_rows(*, rank: int | None = None, world: int = 1) -> list[Row]:
    """Rows of two ops, three profiles each; with ``rank``, keys as FlashInfer 0.6.18 writes them on that rank."""
    extras = "()" if rank is None else f"(10, 1, 0, {world}, {rank}, 1, 0)"
    members = None if rank is None else {"id": "L1", "size": world * 6}
    found = []
    for op in OPS:
        for tokens in (1, 64, 8192):
            key = f"('{op}', 'MoERunner', (({tokens}, 2560), (256, 1280, 160), (0,), (256, 2560, 40), (0,)), {extras})"
            index = len(found) + (rank or 0) * 6
            tactic = -1 if tokens == 8192 else 14
            belongs = None if members is None else {**members, "index": index}
            found.append(Row(key=key, value=["MoERunner", tactic], op=op, set=belongs, evidence={"tokens": tokens}))
    return found


def told(*devices: Known, raw: Mapping[str, Any] | None = None, **data: Any) -> Answer:
    """What the process with torch and SGLang would say on a host with ``devices``."""
    base = {
        "devices": [{**known.to_json(), "device": known.device.to_json()} for known in devices],
        "sglang": {"version": "0.5.23", "missing": []},
        "flashinfer": {"version": "0.7.2", "missing": []},
        "torch": {"version": "2.14.1", "cuda": "13.0"},
        "gate": GATE,
        "arguments": {"raw": dict(raw or {}), "given": sorted(raw or {})},
    }
    return Answer({**base, **data})


@dataclass
class FakeCards(FakeNvml):
    """A fake NVML that also tells the state of its cards; a state that is not given is Not Supported."""

    state: Mapping[str, Any] = field(default_factory=dict)
    cuda: int = 13000
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return self.cuda

    def nvmlDeviceGetMigMode(self, handle: Gpu) -> tuple[int, int]:
        return (1, 1) if handle.slices else (int(self._known(self.state.get("mig"))), 0)

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: Gpu) -> int:
        return self._known(self.state.get("power_default_w")) * 1000

    def nvmlDeviceGetClockInfo(self, handle: Gpu, kind: int) -> int:
        return self._known(self.state.get("sm_mhz"))

    def nvmlDeviceGetMaxClockInfo(self, handle: Gpu, kind: int) -> int:
        return self._known(self.state.get("sm_max_mhz"))

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Gpu) -> int:
        return self._known(self.state.get("throttle"))

    def nvmlDeviceGetTemperature(self, handle: Gpu, kind: int) -> int:
        return self._known(self.state.get("celsius"))

    def nvmlDeviceGetMemoryInfo(self, handle: Gpu) -> SimpleNamespace:
        return SimpleNamespace(total=self._known(handle.facts.memory_mib) * 2**20, used=2**20)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Gpu) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self._known(self.state.get("processes"))]


def fake_cards(*facts: DeviceFacts, **state: Any) -> FakeCards:
    """A fake host with these cards, all in ``state``."""
    healthy = {"mig": False, "sm_mhz": 2400, "sm_max_mhz": 2600, "throttle": 1, "celsius": 40, "processes": []}
    cards = [Gpu(replace(f, uuid=f.uuid or f"GPU-{i:04x}beef-0000")) for i, f in enumerate(facts)]
    power = facts[0].power_limit_w if facts else None
    return FakeCards(cards, state={**healthy, "power_default_w": power, **state})


def is_valid(value: Any, name: str) -> Any:
    """``value``, after the published schema ``name`` held for it."""
    schema = json.loads((REPOSITORY / "cache_schema" / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(value)
    return value

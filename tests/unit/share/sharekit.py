"""Helpers of the tests of shared tables: environments, rows with evidence, stores, broken bundles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tunelaunch.share import archive
from tunelaunch.share.document import SharedTable, identity
from tunelaunch.store import Row, Store, TableId

REPOSITORY = Path(__file__).resolve().parents[3]
OP = "trtllm::fused_moe::gemm1"
KEY = b"a key of thirty-two bytes or so."
FIELDS: dict[str, Any] = {
    "gpu_name": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    "compute_capability": "12.0",
    "sm_count": 188,
    "mig_profile": None,
    "packages": "5f0c2b6e9d01",
    "tag": "",
    "flashinfer.flashinfer_version": "0.7.2",
    "flashinfer.cuda_version": "13.0",
    "flashinfer.cudnn_version": "92101",
    "flashinfer.gpu": "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    "info.driver": "580.126.20",
}
OTHER_FIELDS = {**FIELDS, "flashinfer.cudnn_version": "92000"}
RTX_FIELDS = {
    **FIELDS,
    "gpu_name": "NVIDIA GeForce RTX 5090",
    "sm_count": 170,
    "flashinfer.gpu": "NVIDIA GeForce RTX 5090",
}
TID = identity(FIELDS, "test")
OTHER = identity(OTHER_FIELDS, "test")
RTX = identity(RTX_FIELDS, "test")
MEASURED = {"gain_percent": 12.5, "host": "host-a", "launch": "L1", "checked": {"frobenius": 0.001}}


def key(number: int, op: str = OP) -> str:
    extras = "(torch.bfloat16, 8, 256, False)"
    return f"('{op}', 'MoERunner', (({number}, 2560), (256, 1280, 160), (0,), (256, 2560, 40), (0,)), {extras})"


def row(number: int, tactic: Any = 14, **more: Any) -> Row:
    more.setdefault("evidence", dict(MEASURED))
    return Row(key=key(number), value=["MoERunner", tactic], op=OP, **more)


def table(rows: Sequence[Row], fields: Mapping[str, Any] = FIELDS, **more: Any) -> SharedTable:
    return SharedTable(identity(fields, "test"), dict(fields), tuple(rows), **more)


def publish(root: Path, rows: Sequence[Row], fields: Mapping[str, Any] = FIELDS, **more: Any) -> TableId:
    tid = identity(fields, "test")
    done = Store.open(root).publish(tid, rows, environment=fields, **more)
    assert done.generation is not None, done.problems
    return tid


def rows_at(root: Path, tid: TableId = TID) -> dict[str, Any]:
    """Tactic by key of a table, or nothing."""
    loaded = Store.open(root, readonly=True).load(tid).table
    return {r.key: r.tactic for r in loaded.rows} if loaded else {}


def snapshot(root: Path) -> dict[str, bytes | None]:
    """Every file and directory below ``root`` with its bytes."""
    if not root.exists():
        return {}
    return {str(p.relative_to(root)): p.read_bytes() if p.is_file() else None for p in sorted(root.rglob("*"))}


def repacked(raw: bytes, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> bytes:
    """A bundle whose documents were changed and whose manifest was made to fit again, as an attacker would."""
    members = archive.unpack(raw)
    manifest = json.loads(members.pop("manifest.json"))
    members.pop("manifest.hmac", None)
    documents = {name: json.loads(data) for name, data in members.items()}
    change(manifest, documents)
    data = {name: document if isinstance(document, bytes) else dumps(document) for name, document in documents.items()}
    if "members" in manifest:
        manifest["members"] = {
            name: {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest()} for name, raw in data.items()
        }
    return archive.pack({"manifest.json": dumps(manifest), **data})


def dumps(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()

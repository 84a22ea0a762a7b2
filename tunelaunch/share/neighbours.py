"""Rows that others have already: FlashInfer's files, which SGLang and vLLM keep too, and its store of single entries.

Nothing in these files was measured by tunelaunch, so their rows carry the mark that they must be verified before they
serve. Guarantees: they are read into the one environment of this host whose values are those in the file, never into
another; a file or a row whose key does not say enough (FlashInfer up to 0.6.17: two models share a key) is refused with
that reason; rows at default are left out, they would only keep a shape from being tuned.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tunelaunch.device.environment import FLASHINFER, Environment, differences, explain
from tunelaunch.errors import ShareError
from tunelaunch.share.bundle import read_file
from tunelaunch.share.document import SharedTable
from tunelaunch.share.evidence import UNVERIFIED
from tunelaunch.share.strictjson import MAX_BYTES, decode
from tunelaunch.store import Row, TableId

MAX_FILES = 20_000
MAX_DEPTH = 8
_ENOUGH = (0, 6, 18)
"""First FlashInfer whose keys of MoE ops say dtypes, top-k and sizes."""
_NO_RANKS = (0, 7, 2)
"""First FlashInfer whose keys carry no rank again."""
_RANK_FILE = re.compile(r"rank_tp(\d{1,4})_pp(\d{1,4})_dp(\d{1,4})\.json")
_KEY = re.compile(r"\('([^']{1,200})', '([^']{1,200})', ")
_STORE = re.compile(r"[0-9a-f]{16}")

Known = Sequence[tuple[TableId, Environment]]


@dataclass
class Found:
    """What the files of a neighbour hold: rows by table, and what was refused with the reason."""

    rows: dict[TableId, dict[str, Row]] = field(default_factory=dict)
    fields: dict[TableId, Mapping[str, Any]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    files: int = 0

    def tables(self) -> tuple[SharedTable, ...]:
        """As tables that can be imported."""
        return tuple(
            SharedTable(tid, dict(self.fields[tid]), tuple(rows.values()), provenance={"from": "FlashInfer files"})
            for tid, rows in self.rows.items()
        )


def is_flashinfer(raw: bytes) -> bool:
    """Whether ``raw`` begins like a JSON object; decides only how it is read."""
    return raw.lstrip()[:1] == b"{"


def read_flashinfer_file(path: Path, known: Known) -> Found:
    """The rows of one FlashInfer file. Raises :class:`ShareError` when none of it can be used."""
    found = Found()
    _add_files([path], known, found)
    return _unless_empty(found, path)


def read_flashinfer_directory(path: Path, known: Known) -> Found:
    """The rows of every FlashInfer file and store below ``path``. Raises :class:`ShareError` when none can be used."""
    found = Found()
    groups: dict[Path, list[Path]] = {}
    for item in _walk(path):
        if item.name == "manifest.json" and _STORE.fullmatch(item.parent.name):
            _guarded(found, item, lambda item=item: _add_store(item.parent, known, found))
        elif item.suffix == ".json" and item.parent.name != "entries":
            # Rank files of one start belong together; any other file stands alone.
            groups.setdefault(item.parent if _RANK_FILE.fullmatch(item.name) else item, []).append(item)
    for files in groups.values():
        _add_files(files, known, found)
    return _unless_empty(found, path)


def _add_files(files: Sequence[Path], known: Known, found: Found) -> None:
    read: list[tuple[int, Mapping[str, Any], TableId]] = []
    for path in sorted(files):
        match = _RANK_FILE.fullmatch(path.name)
        _guarded(found, path, lambda path=path, rank=int(match[1]) if match else 0: read.append(
            (rank, *_read_file(path, known, found))
        ))  # fmt: skip
    for tid in dict.fromkeys(tid for _, _, tid in read):
        ranks = [(rank, rows) for rank, rows, owner in read if owner == tid]
        for row in _of_ranks(ranks, len(files), found.fields[tid]):
            found.rows.setdefault(tid, {}).setdefault(row.key, row)


def _of_ranks(ranks: Sequence[tuple[int, Mapping[str, Any]]], files: int, fields: Mapping[str, Any]) -> Iterator[Row]:
    """Rows of the rank files of one start: plain where all ranks have the key, a set where each has its own."""
    version = _version(str(fields.get(FLASHINFER + "flashinfer_version")))
    carries = files > 1 and version < _NO_RANKS
    everywhere = set.intersection(*(set(rows) for _, rows in ranks))
    text = "|".join(sorted(key for _, rows in ranks for key in rows))
    name = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    for rank, rows in ranks:
        for key, value in rows.items():
            own = carries and key not in everywhere
            group = {"id": name, "size": files, "index": rank} if own else None
            yield Row(key, list(value), op=_op(key), evidence=dict(UNVERIFIED), set=group)


def _read_file(path: Path, known: Known, found: Found) -> tuple[Mapping[str, Any], TableId]:
    value = decode(read_file(path, MAX_BYTES), path.name)
    if not isinstance(value, Mapping) or not isinstance(metadata := value.get("_metadata"), Mapping):
        raise ShareError("is no FlashInfer file: it has no _metadata, so nothing says what its tactics mean")
    tid = _owner(metadata, known, found)
    rows = {key: item for key, item in value.items() if not key.startswith("_")}
    return {key: item for key, item in rows.items() if _accepted(key, item, path, found)}, tid


def _add_store(directory: Path, known: Known, found: Found) -> None:
    manifest = decode(read_file(directory / "manifest.json", MAX_BYTES), "manifest.json")
    if not isinstance(manifest, Mapping):
        raise ShareError("holds no JSON object")
    tid = _owner(manifest, known, found)
    for path in sorted((directory / "entries").glob("*.json"))[:MAX_FILES]:
        _guarded(found, path, lambda path=path: _add_entry(path, tid, found))


def _add_entry(path: Path, tid: TableId, found: Found) -> None:
    entry = decode(read_file(path, MAX_BYTES), path.name)
    key = entry.get("key") if isinstance(entry, Mapping) else None
    if not isinstance(key, str) or path.stem != hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:24]:
        raise ShareError("does not lie where its key belongs")
    policy = entry.get("profiling_policy")
    value = [entry.get("runner"), entry.get("tactic"), *([policy] if isinstance(policy, list) else [])]
    if _accepted(key, value, path, found):
        row = Row(key, value, op=_op(key), evidence=dict(UNVERIFIED))
        found.rows.setdefault(tid, {}).setdefault(key, row)


def _owner(metadata: Mapping[str, Any], known: Known, found: Found) -> TableId:
    """The environment here in which ``metadata`` was written."""
    text = str(metadata.get("flashinfer_version"))
    if (version := _version(text)) < _ENOUGH:
        raise ShareError(
            f"was written by FlashInfer {text[:40]}: up to 0.6.17 a key does not say dtypes, quantization or top-k (it "
            "has no scope), so a tactic in it may be another kernel for this model"
            if version
            else "does not say which FlashInfer wrote it"
        )
    if not known:
        raise ShareError(
            "is not taken: no environment of this host is known yet; start SGLang through tunelaunch once, then import"
        )
    apart: list[str] = []
    for tid, environment in known:
        names = [name for name in environment.fields if name.startswith(FLASHINFER)]
        saved = Environment({name: metadata.get(name[len(FLASHINFER) :]) for name in names})
        current = Environment({name: environment.fields[name] for name in names})
        odd = [d for d in differences(saved, current) if metadata.get(d.field[len(FLASHINFER) :]) != "*"]
        if not odd and names:
            found.fields[tid] = environment.fields
            return tid
        apart.append("; ".join(line.strip() for line in explain(odd).splitlines()[1:]))
    raise ShareError(f"was written in another environment ({min(apart, key=len)[:300]})")


def _accepted(key: str, value: Any, path: Path, found: Found) -> bool:
    why = None
    try:
        Row.from_json({"key": key, "value": value})
    except ValueError as error:
        why = str(error)
    else:
        if not _KEY.match(key):
            why = "its key is not one of FlashInfer's"
        elif key.endswith(", ())"):
            why = "its key says shapes only (it has no scope)"
        elif value[1] == -1:
            why = "it is at default"
    if why:
        found.refused.append(f"{path.name}: row {key[:80]}: {why}")
    return why is None


def _op(key: str) -> str:
    match = _KEY.match(key)
    return match[1] if match else ""


def _version(text: str) -> tuple[int, ...]:
    match = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", text)
    return tuple(map(int, match.groups())) if match else ()


def _guarded(found: Found, path: Path, work: Any) -> None:
    found.files += 1
    try:
        work()
    except ShareError as why:
        found.refused.append(f"{path.name}: {why}" if path.name not in str(why) else str(why))


def _unless_empty(found: Found, path: Path) -> Found:
    if any(found.rows.values()):
        return found
    if not found.files:
        raise ShareError(f"{path} holds no table of tunelaunch, no bundle and no file of FlashInfer")
    raise ShareError(
        f"nothing in {path} can be used: {found.refused[0] if found.refused else 'its files hold no rows'}"
    )


def _walk(top: Path) -> Iterable[Path]:
    """Regular files below ``top``, links not followed, in order, bounded."""
    level, count = [top], 0
    for _ in range(MAX_DEPTH):
        deeper: list[Path] = []
        for directory in level:
            try:
                items = sorted(directory.iterdir())
            except OSError:
                continue
            for item in items:
                if item.is_symlink():
                    continue
                if item.is_dir():
                    deeper.append(item)
                elif item.is_file() and (count := count + 1) <= MAX_FILES:
                    yield item
        level = deeper

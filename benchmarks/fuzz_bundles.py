"""Broken bundles by the thousand: each is refused with a reason or imported whole, and nothing else ever happens.

    python benchmarks/fuzz_bundles.py [--bundles 20000] [--seed 0]

Every bundle goes through ``tunelaunch import`` in this process, into a store of its own. Counted as a failure: an exit code
other than 0 or 1, a file outside of the store, a store that changed although the bundle was refused, a table that holds
something else than the bundle said, and a bundle that takes more than 5 seconds of CPU. Exit code 1 if there was one.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tunelaunch.cli.main import main as tunelaunch
from tunelaunch.share import archive
from tunelaunch.share.bundle import make_bundle, read_bundle
from tunelaunch.share.document import SharedTable, identity
from tunelaunch.store import Row, Store

SLOW_S = 5.0
FIELDS = {"gpu_name": "NVIDIA GeForce RTX 5090", "compute_capability": "12.0", "sm_count": 170, "packages": "abc"}
NASTY: tuple[Any, ...] = (
    None, True, -1, 2**63, 10**400, 1.5, "", "../../x", "/etc/passwd", "\x00", "\ud800", "k" * 30_000, [], {}, [[]],
    {"a": 1}, "tunelaunch/share/2", "NaN", ["R", -1], [["R"]],
)  # fmt: skip


def sample() -> bytes:
    """A good bundle of two tables."""
    evidence = {"gain_percent": 4.5, "host": "a", "checked": {"frobenius": 0.01}}
    rows = tuple(Row(f"('op', 'R', {n}, (1,))", ["R", [n, [n, True]]], op="op", evidence=evidence) for n in range(6))
    ranks = tuple(
        Row(f"('op', 'R', 9, ({n},))", ["R", n], op="op", evidence=evidence, set={"id": "s", "size": 2, "index": n})
        for n in range(2)
    )
    tables = []
    for fields in (FIELDS, {**FIELDS, "packages": "def"}):
        bad = ({"key": "('op', 'R', 0, (1,))", "scope": None, "runner": "R", "tactic": 99},)
        tables.append(SharedTable(identity(fields, "sample"), fields, rows + ranks, bad, {"generation": 1}))
    return make_bundle(tables)


def mutants(raw: bytes, random_: random.Random) -> Iterator[tuple[str, bytes]]:
    """Endless broken bundles made of ``raw``, with the kind of damage."""
    kinds: dict[str, Callable[[bytes, random.Random], bytes]] = {
        "bits": _bits, "cut": _cut, "splice": _splice, "header": _header, "values": _values, "text": _text, "gzip": _gzip,
    }  # fmt: skip
    while True:
        name = random_.choice(list(kinds))
        yield name, kinds[name](raw, random_)


def run(count: int, seed: int, folder: Path) -> tuple[Counter[str], list[str]]:
    """Import ``count`` broken bundles below ``folder``; what became of them, and a line for each failure."""
    random_ = random.Random(seed)
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    source, root, cwd = folder / "bundle", folder / "store", folder / "cwd"
    cwd.mkdir()
    before_cwd = Path.cwd()
    os.chdir(cwd)
    try:
        for number, (kind, raw) in zip(range(count), mutants(sample(), random_), strict=False):
            source.write_bytes(raw)
            started = time.process_time()  # not the clock: the machine may be busy with other things
            code, said = _import(source, root)
            fault = _fault(code, said, raw, root, folder, time.process_time() - started)
            outcomes[f"{kind}: {'imported' if code == 0 else 'refused'}"] += 1
            if fault:
                failures.append(f"bundle {number} of seed {seed} ({kind}): {fault}")
            if root.exists():
                shutil.rmtree(root)
    finally:
        os.chdir(before_cwd)
    return outcomes, failures


def _import(source: Path, root: Path) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = tunelaunch(["import", str(source), "--tunelaunch-cache", str(root), "--format", "json"])
    return code, err.getvalue()


def _fault(code: int, said: str, raw: bytes, root: Path, folder: Path, seconds: float) -> str | None:
    names = {path.name for path in folder.iterdir()} | {f"cwd/{path.name}" for path in (folder / "cwd").iterdir()}
    fault = None
    if seconds > SLOW_S:
        fault = f"took {seconds:.1f} s of CPU"
    elif names - {"bundle", "store", "cwd"}:
        fault = f"left {sorted(names)}"
    elif code == 1:
        fault = "the store was touched" if root.exists() else None if said.strip() else "no reason was given"
    elif code != 0:
        fault = f"exit code {code}: {said[-500:]}"
    else:
        store = Store.open(root, readonly=True)
        for table in read_bundle(raw).tables:
            loaded = store.load(table.tid).table
            if loaded is not None and not set(loaded.rows) <= set(table.rows):
                fault = f"{table.tid} holds rows that the bundle does not"
    return fault


def _bits(raw: bytes, random_: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(random_.choice((1, 1, 2, 20))):
        changed[random_.randrange(len(changed))] ^= 1 << random_.randrange(8)
    return bytes(changed)


def _cut(raw: bytes, random_: random.Random) -> bytes:
    cut = raw[: random_.randrange(len(raw))]
    return cut + random_.randbytes(random_.choice((0, 0, 1, 512, 1024)))


def _splice(raw: bytes, random_: random.Random) -> bytes:
    """Blocks repeated, moved or dropped."""
    blocks = [raw[i : i + 512] for i in range(0, len(raw), 512)]
    for _ in range(random_.randrange(1, 4)):
        place = random_.randrange(len(blocks))
        action = random_.randrange(3)
        if action == 0:
            blocks.insert(place, random_.choice(blocks))
        elif action == 1 and len(blocks) > 1:
            blocks.pop(place)
        else:
            blocks[place] = random_.choice((b"\0" * 512, random_.randbytes(512), random_.choice(blocks)))
    return b"".join(blocks)


def _header(raw: bytes, random_: random.Random) -> bytes:
    """One field of a member's header, with a checksum that fits."""
    header = bytearray(raw[:512])
    names = (b"../../x", b"/etc/passwd", b"manifest.json", b"tables/a.json", b"\xff\xfe", b"a" * 100, b"")
    place, width, value = random_.choice(
        (
            (0, 100, random_.choice(names)),
            (124, 12, random_.choice((b"00000000000\0", b"77777777777\0", b"\x80" + b"\xff" * 11, b"x"))),
            (156, 1, bytes([random_.randrange(256)])),
            (157, 100, b"/etc/passwd"),
            (345, 155, b"../.."),
            (108, 8, b"0001750\0"),
        )
    )
    header[place : place + width] = value.ljust(width, b"\0")[:width]
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + raw[512:]


def _values(raw: bytes, random_: random.Random) -> bytes:
    """A value of a document exchanged, and the manifest made to fit, as somebody with bad intentions would."""
    members = archive.unpack(raw)
    manifest = json.loads(members.pop("manifest.json"))
    documents = {name: json.loads(data) for name, data in members.items()}
    for _ in range(random_.choice((1, 1, 3))):
        _exchange(random_.choice([manifest, *documents.values(), *documents.values()]), random_)
    return _fitted(manifest, {name: json.dumps(document).encode() for name, document in documents.items()}, random_)


def _text(raw: bytes, random_: random.Random) -> bytes:
    """The text of a document damaged, and the manifest made to fit."""
    members = archive.unpack(raw)
    manifest = json.loads(members.pop("manifest.json"))
    name = random_.choice(list(members))
    data = members[name]
    place = random_.randrange(len(data))
    nasty = (
        b"[" * 3000,
        b'"',
        b"9" * 5000,
        b"1e9999",
        b"NaN",
        b"\xff",
        b"\\ud800",
        b"{}",
        b",",
        b"\0",
        b'{"a":1,"a":2}',
    )
    members[name] = data[:place] + random_.choice(nasty) + data[place + random_.randrange(8) :]
    return _fitted(manifest, members, random_)


def _gzip(raw: bytes, random_: random.Random) -> bytes:
    choice = random_.randrange(4)
    if choice == 0:
        return _bits(gzip.compress(raw, mtime=0), random_)
    if choice == 1:
        return gzip.compress(gzip.compress(raw, mtime=0), mtime=0)
    if choice == 2:
        return gzip.compress(raw + b"\0" * random_.choice((512, 1 << 23)), mtime=0)
    return _cut(gzip.compress(raw, mtime=0), random_)


def _exchange(document: Any, random_: random.Random) -> None:
    """Change one value somewhere inside ``document``."""
    node = document
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        name = random_.choice(keys)
        inner = node[name]
        if isinstance(inner, (dict, list)) and inner and random_.random() < 0.8:
            node = inner
            continue
        if isinstance(node, dict) and random_.random() < 0.15:
            del node[name]
        else:
            node[name] = copy.deepcopy(random_.choice(NASTY))
        return


def _fitted(manifest: Any, documents: dict[str, bytes], random_: random.Random) -> bytes:
    manifest = manifest if isinstance(manifest, dict) else {}
    if random_.random() < 0.9:
        manifest["members"] = {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in documents.items()
        }
    if random_.random() < 0.5:  # else the manifest's own description of a changed table no longer holds
        entries = manifest.get("tables")
        for entry in entries if isinstance(entries, list) else []:
            _describe_again(entry, documents)
    return archive.pack({"manifest.json": json.dumps(manifest).encode(), **documents})


def _describe_again(entry: Any, documents: dict[str, bytes]) -> None:
    try:
        document = json.loads(documents[entry["member"]])
        entry |= {name: document[name] for name in ("device", "environment", "fields")}
        entry |= {"rows": len(document["rows"]), "quarantined": len(document["quarantine"])}
    except (KeyError, TypeError, ValueError, RecursionError):
        pass


def main() -> int:
    """Run, print counts and failures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundles", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcomes, failures = run(args.bundles, args.seed, Path(folder))
    for name, number in sorted(outcomes.items()):
        print(f"{name:24} {number:6}")
    print(f"{args.bundles} bundles in {time.monotonic() - started:.0f} s, {len(failures)} failures")
    print("\n".join(failures[:20]))
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())

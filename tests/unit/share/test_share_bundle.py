"""Bundles: equal tables give equal bytes, what comes back is what went in, and everything else is refused with a reason."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from sharekit import FIELDS, KEY, OTHER_FIELDS, REPOSITORY, RTX_FIELDS, TID, dumps, repacked, row, table

from tunelaunch.errors import ShareError
from tunelaunch.share import archive
from tunelaunch.share.bundle import make_bundle, read_bundle
from tunelaunch.share.signing import Trust

TABLES = [
    table(
        [row(2, [[128, 16], [1, 1], True, False, 4]), row(1)], quarantine=({"key": "k", "tactic": 3, "runner": "R"},)
    ),
    table([row(1, scope="9b0d4e2f61aa"), row(1)], OTHER_FIELDS, provenance={"generation": 3}),
    table([], RTX_FIELDS),
]
BUNDLE = make_bundle(TABLES)


def refused(raw: bytes, trust: Trust | None = None) -> str:
    with pytest.raises(ShareError) as caught:
        read_bundle(raw, trust)
    return str(caught.value)


def test_equal_tables_give_equal_bytes_in_any_order() -> None:
    turned = [
        table(tuple(reversed(t.rows)), t.fields, quarantine=t.quarantine, provenance=t.provenance) for t in TABLES
    ]
    assert make_bundle(list(reversed(turned))) == BUNDLE
    assert make_bundle(TABLES, Trust(KEY)) == make_bundle(turned, Trust(KEY)) != BUNDLE


def test_what_comes_back_is_what_went_in() -> None:
    back = {t.tid: t for t in read_bundle(BUNDLE).tables}
    for sent in TABLES:
        got = back.pop(sent.tid)
        assert (set(got.rows), dict(got.fields)) == (set(sent.rows), dict(sent.fields))
        assert (got.quarantine, got.provenance) == (sent.quarantine, sent.provenance)
    assert not back


def test_a_bundle_is_a_tar_file_that_other_programs_open() -> None:
    with tarfile.open(fileobj=io.BytesIO(BUNDLE)) as tar:
        infos = tar.getmembers()
        manifest = json.loads(tar.extractfile(infos[0]).read())  # type: ignore[union-attr]
    assert {(i.mtime, i.uid, i.gid, i.uname, i.mode, i.type) for i in infos} == {(0, 0, 0, "", 0o644, tarfile.REGTYPE)}
    assert [t["rows"] for t in manifest["tables"]] == [len(t.rows) for t in read_bundle(BUNDLE).tables]
    assert manifest["rows"] == 4


def test_a_compressed_bundle_is_read_whoever_compressed_it() -> None:
    for packed in (archive.compress(BUNDLE), gzip.compress(BUNDLE)):
        assert len(packed) < len(BUNDLE) // 2
        assert read_bundle(packed).tables == read_bundle(BUNDLE).tables
    assert archive.compress(BUNDLE) == archive.compress(BUNDLE)


@pytest.mark.parametrize("name", ["bundle", "share"])
def test_what_is_written_and_the_sample_hold_the_published_schema(name: str) -> None:
    folder = REPOSITORY / "cache_schema"
    schema = json.loads((folder / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    sample = json.loads((folder / f"{name}.sample.json").read_text())
    check.validate(sample)
    for broken in ([], {}, {**sample, "schema": f"tunelaunch/{name}/2"}, {**sample, "tables": 1, "rows": "x"}):
        with pytest.raises(jsonschema.ValidationError):
            check.validate(broken)
    members = archive.unpack(BUNDLE)
    for member in [members.pop("manifest.json")] if name == "bundle" else list(members.values())[1:]:
        check.validate(json.loads(member))
    assert f"`{name}.schema.json`" in (folder / "README.md").read_text()


# Signatures


def test_a_signed_bundle_needs_its_key_and_every_changed_byte_is_noticed() -> None:
    signed = make_bundle(TABLES, Trust(KEY))
    assert read_bundle(signed, Trust(KEY)).signed
    assert "another key" in refused(signed, Trust(KEY + b"x"))
    for offset in range(0, len(signed), 97):
        changed = bytearray(signed)
        changed[offset] ^= 1
        refused(bytes(changed), Trust(KEY))


def test_removing_the_signature_gains_nothing() -> None:
    assert "not signed" in refused(BUNDLE, Trust(KEY))
    assert "TUNELAUNCH_REQUIRE_SIGNED" in refused(BUNDLE, Trust(required=True))
    assert "no key" in refused(make_bundle(TABLES, Trust(KEY)), Trust(required=True))


def test_a_signature_that_nobody_could_check_is_said() -> None:
    read = read_bundle(make_bundle(TABLES, Trust(KEY)))
    assert not read.signed
    assert "not checked" in (read.note or "")


def test_exporting_unsigned_is_refused_where_signatures_are_required() -> None:
    with pytest.raises(ShareError, match="no key to sign with"):
        make_bundle(TABLES, Trust(required=True))


# Containers that no export writes


def foreign(add: Any) -> bytes:
    """A tar file made by the standard library: the sample bundle with ``add`` done to it first."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        add(tar)
    return out.getvalue()


def member(name: str, **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (member("../../etc/passwd"), "leads out"),
        (member("/etc/passwd"), "leads out"),
        (member("tables/../../x.json"), "leads out"),
        (member("..\\x"), "leads out"),
        (member("manifest.json", type=tarfile.SYMTYPE, linkname="/etc/shadow"), "a symbolic link"),
        (member("manifest.json", type=tarfile.LNKTYPE, linkname="x"), "a hard link"),
        (member("manifest.json", type=tarfile.CHRTYPE), "a device"),
        (member("manifest.json", type=tarfile.BLKTYPE), "a device"),
        (member("manifest.json", type=tarfile.FIFOTYPE), "a FIFO"),
        (member("tables", type=tarfile.DIRTYPE), "a directory"),
        (member("notes.txt"), "belongs to no bundle"),
        (member("manifest.json", mtime=5), "not written by tunelaunch"),
        (member("manifest.json", uid=1000), "not written by tunelaunch"),
    ],
)
def test_members_of_other_kinds_are_refused_by_name(info: tarfile.TarInfo, why: str) -> None:
    assert why in refused(foreign(lambda tar: tar.addfile(info)))


def test_long_names_and_extended_headers_are_refused() -> None:
    for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=kind) as tar:
            tar.addfile(tarfile.TarInfo("a" * 300))
        assert "header" in refused(out.getvalue())


def test_a_member_twice_is_refused() -> None:
    once = archive.pack({"manifest.json": b"{}"})[:-1024]
    assert "twice" in refused(once + archive.pack({"manifest.json": b"[]"}))


def test_sizes_that_lie_are_refused() -> None:
    def resized(digits: bytes) -> bytes:
        header = bytearray(BUNDLE[:512])
        header[124:136] = digits
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        return bytes(header) + BUNDLE[512:]

    assert "claims" in refused(resized(b"77777777777\0"))
    assert "cut off" in refused(resized(b"%011o\0" % (len(BUNDLE) + 1)))
    assert "not readable" in refused(resized(b"\x80" + b"\0" * 10 + b"\x07"))
    assert "not readable" in refused(resized(b"-0000000001\0"))


def test_bombs_are_refused_before_they_are_unpacked() -> None:
    zeros = gzip.compress(b"\0" * (64 << 20), mtime=0)
    assert len(zeros) < 100_000
    assert "times its size" in refused(zeros)
    assert "limit" in refused(b"x" * (archive.MAX_FILE_BYTES + 1))
    assert "more than" in refused(archive.pack({"manifest.json": b"[" + b"[]," * 2_500_000 + b"[]]"}))


@pytest.mark.parametrize("cut", [0, 1, 40, 511, 512, 700, len(BUNDLE) - 1024, len(BUNDLE) - 1])
def test_a_bundle_that_is_cut_off_is_refused(cut: int) -> None:
    assert refused(BUNDLE[:cut])
    packed = archive.compress(BUNDLE)
    assert refused(packed[: min(cut * len(packed) // len(BUNDLE) + 2, len(packed) - 1)])


def test_bytes_behind_the_end_or_between_members_are_refused() -> None:
    assert "behind it" in refused(BUNDLE + b"\0" * 512)
    assert "behind it" in refused(BUNDLE + b"hidden")
    assert "behind its end" in refused(archive.compress(BUNDLE) + b"hidden")
    size = int(BUNDLE[124:135], 8)
    changed = bytearray(BUNDLE)
    changed[512 + size] = 65
    assert "belong to nothing" in refused(bytes(changed))


# Documents that do not hold


def doc(change: Any) -> str:
    """The refusal of a bundle whose first document was changed."""

    def apply(manifest: dict[str, Any], documents: dict[str, Any]) -> None:
        name = next(iter(documents))
        documents[name] = change(documents[name]) or documents[name]

    return refused(repacked(BUNDLE, apply))


def test_an_environment_id_that_its_fields_do_not_have_is_refused() -> None:
    assert "its fields are those of" in doc(lambda d: d["fields"].update({"flashinfer.cudnn_version": "1"}))
    assert "its fields are those of" in doc(lambda d: d.update(environment="0123456789ab"))
    assert "its fields are those of" in doc(lambda d: d.update(device="../../etc"))
    assert "does not name the GPU" in doc(lambda d: d["fields"].pop("gpu_name") and None)
    assert "ordinary size" in doc(lambda d: d["fields"].update(info={"a": 1}))


def test_unknown_and_newer_schemas_are_refused() -> None:
    assert "update tunelaunch" in doc(lambda d: d.update(schema="tunelaunch/share/2"))
    assert "no schema" in doc(lambda d: d.update(schema="other/1"))
    assert "unknown part" in doc(lambda d: d.update(run="rm -rf /"))
    assert "update tunelaunch" in refused(repacked(BUNDLE, lambda m, d: m.update(schema="tunelaunch/bundle/2")))


def test_huge_numbers_deep_values_and_double_keys_are_refused() -> None:
    assert "too large" in doc(lambda d: dumps(d).replace(b'"sm_count": 188', b'"sm_count": ' + b"9" * 5000))
    assert "too large" in doc(lambda d: dumps(d).replace(b"12.5", b"1e999"))
    assert "no number of JSON" in doc(lambda d: dumps(d).replace(b"12.5", b"NaN"))
    assert "too deeply" in doc(lambda d: dumps(d).replace(b"12.5", b"[" * 100_000 + b"]" * 100_000))
    assert "too deeply" in doc(lambda d: dumps(d).replace(b"12.5", b"[" * 80 + b"]" * 80))
    assert "twice" in doc(lambda d: dumps(d).replace(b'"rows"', b'"rows": [], "rows"'))
    assert "UTF-8" in doc(lambda d: b"\xff" + dumps(d))


def test_rows_that_flashinfer_could_not_have_written_are_refused() -> None:
    for value in (5, [], ["R"], ["R", {"a": 1}], ["R", 1.5], [1, 1]):
        assert "row 0" in doc(lambda d, value=value: d["rows"][0].update(value=value))
    assert "occur twice" in doc(lambda d: d["rows"].append(d["rows"][0]))
    assert "ranks" in doc(lambda d: d["rows"][0].update(set={"id": "x", "size": 10**18, "index": 0}))
    assert "longer" in doc(lambda d: d["rows"][0].update(key="k" * 100_000))


def test_quarantine_entries_of_another_shape_are_refused() -> None:
    for entry in (5, {}, {"key": 1}, {"key": "k", "scope": []}, {"key": "k", "scope": {}}, {"key": "k", "runner": [1]}):
        assert "quarantined tactic" in doc(lambda d, entry=entry: d["quarantine"].append(entry))


def test_a_manifest_that_describes_something_else_is_refused() -> None:
    assert "otherwise" in refused(repacked(BUNDLE, lambda m, d: m["tables"][0].update(rows=7)))
    assert "counts" in refused(repacked(BUNDLE, lambda m, d: m.update(rows=7)))
    assert "differ" in refused(repacked(BUNDLE, lambda m, d: m["tables"].pop() and None))
    swapped = archive.unpack(BUNDLE)
    names = list(swapped)[1:]
    swapped[names[0]], swapped[names[1]] = swapped[names[1]], swapped[names[0]]
    assert "SHA-256" in refused(archive.pack(swapped))
    assert "begin" in refused(archive.pack({names[0]: swapped[names[0]]}))
    assert "begin" in refused(archive.pack({}))


def test_export_refuses_what_no_import_would_take(tmp_path: Path) -> None:
    from tunelaunch.share.stock import take
    from tunelaunch.store import Store, TableId

    tid = TableId(TID.device, "0123456789ab")
    Store.open(tmp_path).publish(tid, [row(1)], environment=FIELDS)
    with pytest.raises(ShareError, match="wrong place"):
        take(tmp_path, tid)

"""Device facts out of (a fake) NVML, and out of recorded files."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from fake_nvml import FakeNvml, Gpu, NVMLError_LibraryNotFound, NVMLError_Unknown, host

from tunelaunch.device.facts import DeviceFacts, split_mig_name
from tunelaunch.device.nvml import read_devices, read_devices_within
from tunelaunch.device.recorded import load_recorded, recorded
from tunelaunch.errors import IdentityError

DEVICES = Path(__file__).parents[2] / "data" / "devices.json"
ALL = load_recorded(DEVICES)


@pytest.mark.parametrize("facts", ALL, ids=lambda f: f.name)
def test_every_recorded_card_is_read_as_recorded(facts: DeviceFacts) -> None:
    nvml = host(facts)
    reading = read_devices(nvml)
    (device,) = reading.devices
    assert replace(device, uuid=None, index=None) == facts
    assert reading.problem is None
    assert nvml.shutdowns == 1


def test_a_query_that_is_not_supported_costs_only_its_fact() -> None:
    (device,) = read_devices(host(recorded(DEVICES, "NVIDIA GB10"))).devices
    assert (device.memory_mib, device.power_limit_w) == (None, None)
    assert (device.sm, device.sm_count) == ("sm121", 48)


@pytest.mark.parametrize(
    ("capability", "cores", "sms"),
    [((9, 0), 16896, 132), ((8, 6), 10752, 84), ((8, 0), 6912, None), ((7, 0), 5120, None), ((12, 0), 1000, None)],
)
def test_sm_count_from_cores_only_where_an_sm_has_128(capability: tuple[int, int], cores: int, sms: int | None) -> None:
    (device,) = read_devices(FakeNvml([Gpu(DeviceFacts("X", capability, uuid="GPU-1"), cores=cores)])).devices
    assert device.sm_count == sms


def test_an_old_binding_that_answers_bytes() -> None:
    (device,) = read_devices(host(ALL[0], bytes_names=True)).devices
    assert device.name == "NVIDIA H200"
    assert device.driver == "580.159.04"


def test_mig_slices_take_the_place_of_their_card() -> None:
    card = recorded(DEVICES, "NVIDIA RTX PRO 6000 Blackwell Server Edition")
    part = replace(card, mig_profile="1g.24gb", sm_count=46, memory_mib=24000, uuid="MIG-1")
    reading = read_devices(FakeNvml([Gpu(card, slices=[part, replace(part, uuid="MIG-2")]), Gpu(ALL[0])]))
    assert [d.uuid for d in reading.devices][:2] == ["MIG-1", "MIG-2"]
    assert [d.index for d in reading.devices] == [0, 0, 1]
    assert reading.devices[0].slug == "nvidia-rtx-pro-6000-blackwell-server-edition.sm120.46sm.mig-1g.24gb"


def test_no_driver_is_a_host_without_gpu_and_not_a_fault() -> None:
    reading = read_devices(FakeNvml([], init_error=NVMLError_LibraryNotFound("NVML Shared Library Not Found")))
    assert (reading.devices, reading.problem, reading.broken) == ((), "NVML Shared Library Not Found", False)


def test_a_driver_that_fails_is_broken_and_still_shut_down() -> None:
    assert read_devices(FakeNvml([], init_error=NVMLError_Unknown("Unknown Error"))).broken
    nvml = host(ALL[0], count_error=NVMLError_Unknown("Unknown Error"))
    reading = read_devices(nvml)
    assert (reading.problem, reading.broken, nvml.shutdowns) == ("Unknown Error", True, 1)


def test_a_lost_gpu_is_named_and_the_others_are_read() -> None:
    reading = read_devices(FakeNvml([Gpu(ALL[0]), Gpu(ALL[1], lost=True), Gpu(ALL[2])]))
    assert [d.index for d in reading.devices] == [0, 2]
    assert reading.problem == "GPU 1: GPU is lost"


def test_a_driver_that_never_answers_is_given_up() -> None:
    never = threading.Event()

    class Hanging(FakeNvml):
        def nvmlInit(self) -> None:
            never.wait()

    reading = read_devices_within(0.05, Hanging([]))
    never.set()
    assert reading.broken
    assert reading.problem == "no answer within 0.05 s"


def test_the_real_binding_never_raises_on_this_host() -> None:
    reading = read_devices()
    assert reading.devices or reading.problem


def test_slug_and_family_of_the_cards_that_share_sm120() -> None:
    slugs = {facts.slug for facts in ALL}
    assert len(slugs) == len(ALL)
    pro = recorded(DEVICES, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition")
    assert pro.slug == "nvidia-rtx-pro-6000-blackwell-workstation-edition.sm120.188sm"
    assert pro.family == "SM120 (Blackwell RTX)"
    assert recorded(DEVICES, "NVIDIA GB10").family == "SM121 (Blackwell GB10)"


@pytest.mark.parametrize("name", ["../../etc", "", "...", "a/b\0c", "驱动", "x" * 500, "-rf"])
def test_the_slug_is_a_safe_directory_name_whatever_the_name_is(name: str) -> None:
    slug = DeviceFacts(name, (12, 0), 1, mig_profile="../1g+me").slug
    assert "/" not in slug
    assert slug[0].isalnum()
    assert ".." not in slug
    assert len(slug) < 200


def test_facts_survive_json_and_odd_json() -> None:
    facts = replace(ALL[0], uuid="GPU-1", index=3, persistence=True, mig_profile="1g.18gb")
    assert DeviceFacts.from_json(facts.to_json()) == facts
    odd = {"name": 7, "compute_capability": 12.0, "sm_count": True, "memory_mib": "x", "persistence": 1, "extra": []}
    assert DeviceFacts.from_json(odd) == DeviceFacts("unknown")


def test_torch_and_nvml_names_of_a_mig_slice_are_split_alike() -> None:
    assert split_mig_name("NVIDIA H200 MIG 1g.18gb") == ("NVIDIA H200", "1g.18gb")
    assert split_mig_name("NVIDIA MIG") == ("NVIDIA MIG", None)


@pytest.mark.parametrize("content", ["", "[]", '{"devices": 1}', '{"devices": [1]}', "\xff"])
def test_a_recorded_file_that_is_none_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(IdentityError, match=r"d\.json"):
        load_recorded(path)


def test_a_card_that_was_not_recorded_is_named_with_those_that_were() -> None:
    with pytest.raises(IdentityError, match="NVIDIA GB10"):
        recorded(DEVICES, "NVIDIA Z1")

"""For all tests: those marked ``gpu`` are deselected, not skipped, where there is no GPU to run them on."""

from __future__ import annotations

import pytest
from hypothesis import settings


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked and not _gpu():
        config.hook.pytest_deselected(items=marked)
        items[:] = [item for item in items if item not in marked]


def _gpu() -> bool:
    from tunelaunch.device.nvml import read_devices

    return bool(read_devices().devices)


# A property is not wrong because the machine was busy.
settings.register_profile("tunelaunch", deadline=None)
settings.load_profile("tunelaunch")

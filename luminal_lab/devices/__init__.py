"""Where programs run: one file a device, and what compiles, keeps and loads their code."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from luminal_lab.devices.conformance_kit import Device, conformance
    from luminal_lab.devices.conformance_result import Conformance
    from luminal_lab.devices.probe import peak_rates
    from luminal_lab.devices.rates import PeakRates
    from luminal_lab.devices.timings import Timings
    from luminal_lab.devices.user_check import check_kernel

__all__ = [
    "Conformance",
    "Device",
    "PeakRates",
    "Timings",
    "check_kernel",
    "conformance",
    "peak_rates",
]

LATE = {
    "Conformance": "conformance_result",
    "Device": "conformance_kit",
    "PeakRates": "rates",
    "Timings": "timings",
    "check_kernel": "user_check",
    "conformance": "conformance_kit",
    "peak_rates": "probe",
}
"""What is loaded when it is first used, and the module that it is in."""


def __getattr__(name: str) -> object:
    """Load what is not needed at once when it is first used."""
    if name not in LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{LATE[name]}"), name)
    return value

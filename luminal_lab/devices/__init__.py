"""Where programs run: one file a device, and what compiles, keeps and loads their code."""

from importlib import import_module
from typing import TYPE_CHECKING

from luminal_lab.errors import UnknownNameError, nearest

if TYPE_CHECKING:
    from luminal_lab.devices.conformance_kit import Device, conformance
    from luminal_lab.devices.conformance_result import Conformance
    from luminal_lab.devices.figures import Specification
    from luminal_lab.devices.probe import peak_rates
    from luminal_lab.devices.rates import PeakRates
    from luminal_lab.devices.recording import Recording
    from luminal_lab.devices.roofline import modelled
    from luminal_lab.devices.specifications import known_devices, specification
    from luminal_lab.devices.timings import Timings
    from luminal_lab.devices.user_check import check_kernel

__all__ = [
    "Conformance",
    "Device",
    "PeakRates",
    "Recording",
    "Specification",
    "Timings",
    "check_kernel",
    "conformance",
    "known_devices",
    "modelled",
    "peak_rates",
    "specification",
]

LATE = {
    "Conformance": "conformance_result",
    "Device": "conformance_kit",
    "PeakRates": "rates",
    "Recording": "recording",
    "Specification": "figures",
    "Timings": "timings",
    "check_kernel": "user_check",
    "conformance": "conformance_kit",
    "modelled": "roofline",
    "peak_rates": "probe",
    "specification": "specifications",
    "known_devices": "specifications",
}
"""What is loaded when it is first used, and the module that it is in."""


def __getattr__(name: str) -> object:
    """Load what is not needed at once when it is first used."""
    if name[:2] == "__":
        raise AttributeError(name)
    if name not in LATE:
        raise UnknownNameError(
            f"devices has no {name!r}",
            hint=nearest(name, __all__) or f"it has {', '.join(__all__)}",
        )
    value = globals()[name] = getattr(import_module(f"{__name__}.{LATE[name]}"), name)
    return value


def __dir__() -> list[str]:
    """Return what completion shows: what is for users, loaded or not."""
    own = (name for name in globals() if name[:2] == "__")
    return sorted({*own, *__all__})

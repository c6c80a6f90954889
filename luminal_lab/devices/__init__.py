"""Where programs run: a room for each device, and what compiles, keeps and loads their code."""

from importlib import import_module
from typing import TYPE_CHECKING

from luminal_lab.errors import UnknownNameError, nearest
from luminal_lab.tensor.arguments import told_public

if TYPE_CHECKING:
    from luminal_lab.devices.cpu.user_check import check_kernel
    from luminal_lab.devices.facts.cached import cached
    from luminal_lab.devices.facts.probe import peak_rates
    from luminal_lab.devices.facts.specifications import known_devices, specification
    from luminal_lab.machines.figures import Specification
    from luminal_lab.machines.rates import PeakRates
    from luminal_lab.testing.conformance import Device, conformance
    from luminal_lab.testing.result import Conformance
    from luminal_lab.timing.recording import Recording
    from luminal_lab.timing.roofline import modelled
    from luminal_lab.timing.timings import Timings

__all__ = [
    "Conformance",
    "Device",
    "PeakRates",
    "Recording",
    "Specification",
    "Timings",
    "cached",
    "check_kernel",
    "conformance",
    "known_devices",
    "modelled",
    "peak_rates",
    "specification",
]

LATE = {
    "Conformance": "testing.result",
    "Device": "testing.conformance",
    "PeakRates": "machines.rates",
    "Recording": "timing.recording",
    "Specification": "machines.figures",
    "Timings": "timing.timings",
    "cached": "devices.facts.cached",
    "check_kernel": "devices.cpu.user_check",
    "conformance": "testing.conformance",
    "modelled": "timing.roofline",
    "peak_rates": "devices.facts.probe",
    "specification": "devices.facts.specifications",
    "known_devices": "devices.facts.specifications",
}
"""What is loaded on first use, and the module that has it."""


def __getattr__(name: str) -> object:
    """Load a name on first use."""
    if name[:2] == "__":
        raise AttributeError(name)
    if name not in LATE:
        fault = f"devices has no {name!r}"
        raise UnknownNameError(fault, hint=nearest(name, __all__) or f"it has {', '.join(__all__)}")
    late = getattr(import_module(f"luminal_lab.{LATE[name]}"), name)
    value = globals()[name] = told_public(late, "ll.devices.")
    return value


def __dir__() -> list[str]:
    """Return what completion shows: what is for users, loaded or not."""
    own = (name for name in globals() if name[:2] == "__")
    return sorted({*own, *__all__})

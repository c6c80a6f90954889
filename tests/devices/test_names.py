"""What completion shows of the package and of `ll.devices`, and what an unknown name says."""

import luminal_lab as ll
from luminal_lab.errors import UnknownNameError
from tests.expect import error_of


def test_completion_shows_what_is_for_users():
    # `from luminal_lab import *` leaves Python's own `open` as it is.
    for module, more in ((ll, {"open"}), (ll.devices, set[str]())):
        known = sorted({*module.__all__, *more})
        assert [name for name in dir(module) if name[:2] != "__"] == known
    assert {"peak_rates", "conformance", "check_kernel"} <= set(dir(ll.devices))


def test_an_unknown_name_has_the_nearest_one():
    error = error_of(lambda: ll.devices.peak_rate, UnknownNameError)
    assert str(error) == "devices has no 'peak_rate'\nhint: did you mean 'peak_rates'?"
    error = error_of(lambda: ll.devices.zzz, UnknownNameError)
    assert error.hint is not None
    assert error.hint.startswith("it has Conformance, Device, ")

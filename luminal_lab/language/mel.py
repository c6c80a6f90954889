"""Log-mel features: the loudness of bands of frequency, frame by frame, as Whisper hears a sound.

    samples ─ windows of 25 ms, each 10 ms ─ |FFT|² ─ mel bands ─ log10 ─ the top 80 dB

Bands are those of Slaney's Auditory Toolbox: even up to 1,000 Hz, and above it each wider than the
one below by the same factor; each has the same area.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from luminal_lab.core.binding import as_array
from luminal_lab.errors import ArgumentError, InputError, counted
from luminal_lab.tensor.arguments import told

if TYPE_CHECKING:
    from numpy.typing import NDArray

Floats: TypeAlias = "NDArray[np.floating[Any]]"
RATE: Final = 16_000
"""The samples of a second."""
WINDOW: Final = 400
"""The samples that a frame looks at."""
HOP: Final = 160
"""The samples from one frame to the next."""
LONGEST: Final = 3600
"""The most seconds of a sound."""


@told
def log_mel(samples: object, *, bins: int = 80, seconds: float | None = 30) -> Floats:
    """Return features [..., bins, frames] of samples [..., count], 16,000 of a second.

    What is shorter than `seconds` is filled up with silence, and what is longer is cut off; None
    takes the sound as it is. `bins` is 80, and 128 for Whisper's third large version.

    >>> from luminal_lab.language.mel import log_mel
    >>> second = np.sin(2 * np.pi * 440 / 16_000 * np.arange(16_000))
    >>> features = log_mel(second)
    >>> features.shape, int(features[:, :100].mean(1).argmax())
    ((80, 3000), 11)
    """
    array = as_array(samples, "log_mel")
    if array.dtype.kind != "f" or not array.ndim or not np.isfinite(array).all():
        raise InputError(
            f"log_mel: the samples are {array.dtype} {array.shape}, and must be finite floats",
            hint="from -1 to 1, along the last axis; whole numbers of 16 bits are / 32768",
        )
    given = array.astype("float64")
    if seconds is not None and not 0 < seconds <= LONGEST:
        raise ArgumentError(f"log_mel: {seconds} seconds", hint=f"give up to {LONGEST}, or None")
    sound, count = given, given.shape[-1]
    if seconds is not None:
        count = round(seconds * RATE)
        margin = max(0, count - given.shape[-1])
        sound = np.pad(given[..., :count], [(0, 0)] * (given.ndim - 1) + [(0, margin)])
    if count <= WINDOW // 2:
        raise InputError(f"log_mel: {counted(count, 'sample')} are less than a window of {WINDOW}")
    half = WINDOW // 2  # the middle of frame k is sample k · HOP
    sound = np.pad(sound, [(0, 0)] * (given.ndim - 1) + [(half, half)], mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(sound, WINDOW, -1)[..., ::HOP, :]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    spectrum = np.fft.rfft(windows[..., : count // HOP, :] * hann)
    power = spectrum.real**2 + spectrum.imag**2  # [..., frames, frequencies]
    loud = np.log10(np.maximum(bands(bins) @ power.swapaxes(-2, -1), 1e-10))
    top = loud.max((-2, -1), keepdims=True)
    return ((np.maximum(loud, top - 8) + 4) / 4).astype("float32")


@cache
def bands(bins: int) -> Floats:
    """Return what each band takes of each frequency of a window: [bins, frequencies].

    >>> from luminal_lab.language.mel import bands
    >>> bands(80).shape
    (80, 201)
    """
    if not 1 <= bins <= WINDOW // 2:
        raise ArgumentError(f"log_mel: bins is {bins}", hint="Whisper's models have 80 or 128")
    places = np.linspace(0, _mel(np.array(RATE / 2)), bins + 2)
    edges = _hertz(places)  # band k goes up from edge k to k + 1, and down to k + 2
    frequencies = np.linspace(0, RATE / 2, WINDOW // 2 + 1)
    slopes = (frequencies - edges[:, None]) / np.diff(edges, append=np.inf)[:, None]
    rising, falling = slopes[:-2], 1 - slopes[1:-1]
    area = 2 / (edges[2:] - edges[:-2])
    return np.maximum(0, np.minimum(rising, falling)) * area[:, None]


STEP: Final = np.log(6.4) / 27
"""The logarithm of the factor from one mel to the next, from 1,000 Hz = 15 mel on."""


def _mel(hertz: Floats) -> Floats:
    return np.where(hertz < 1000, hertz * 3 / 200, 15 + np.log(np.maximum(hertz, 1) / 1000) / STEP)


def _hertz(mel: Floats) -> Floats:
    return np.where(mel < 15, mel * 200 / 3, 1000 * np.exp(STEP * (np.maximum(mel, 15) - 15)))

"""Sounds from WAV files: samples from -1 to 1, of one channel, 16,000 of a second.

RIFF … WAVE ─ fmt: channels, rate, bits ─ data: whole numbers ─ / 2^(bits - 1) ─ mean of channels
any rate ─ FFT ─ what is above half the lower rate falls away ─ FFT back ─ 16,000 of a second
"""

from __future__ import annotations

import wave
from pathlib import Path
from typing import Final

import numpy as np

from luminal_lab.errors import InputError, counted
from luminal_lab.language.mel import RATE, Floats
from luminal_lab.reading import plain_size
from luminal_lab.tensor.arguments import told
from luminal_lab.writing import as_path

SUBJECT: Final = "sound"
WAY: Final = (
    "ffmpeg makes one that is read: ffmpeg -i FILE -ar 16000 -ac 1 -c:a pcm_s16le sound.wav"
)
RATES: Final = (100, 1 << 20)
"""The fewest and the most samples of a second."""


@told
def read_wav(path: str | Path) -> Floats:
    """Return the samples of a WAV file, from -1 to 1 and 16,000 of a second, whatever it has.

    >>> import wave
    >>> with wave.open(str(folder / "beep.wav"), "wb") as file:
    ...     file.setparams((2, 2, 48_000, 0, "NONE", ""))
    ...     file.writeframes(np.zeros((48_000, 2), "<i2").tobytes())
    >>> from luminal_lab.language.sound import read_wav
    >>> read_wav(folder / "beep.wav").shape
    (16000,)
    """
    path = as_path(SUBJECT, path)
    try:
        plain_size(path)
        with wave.open(str(path), "rb") as file:
            channels, width = file.getnchannels(), file.getsampwidth()
            rate, data = file.getframerate(), file.readframes(file.getnframes())
    except FileNotFoundError:
        raise InputError(
            f"{SUBJECT}: there is no {path}", hint=f"the current folder is {Path.cwd()}"
        ) from None
    except OSError as error:
        raise InputError(
            f"{SUBJECT}: {path} cannot be read: {error.strerror or error}", hint="name a WAV file"
        ) from None
    except (wave.Error, EOFError) as error:
        why = str(error) or "it ends within its header"
        raise InputError(
            f"{SUBJECT}: {path} is no WAV file of whole numbers: {why}", hint=WAY
        ) from None
    if width not in (1, 2, 3, 4) or not RATES[0] <= rate <= RATES[1]:
        raise InputError(
            f"{SUBJECT}: {path} has {counted(rate, 'sample')} a second of {counted(width, 'byte')}",
            hint=WAY,
        )
    raw = np.frombuffer(data, np.uint8)
    raw = raw[: len(raw) // (width * channels) * width * channels].reshape(-1, width)
    whole = np.zeros((len(raw), 4), np.uint8)
    whole[:, 4 - width :] = raw if width > 1 else raw ^ 128  # of one byte, 128 is silence
    samples = whole.view("<i4")[:, 0].reshape(-1, channels).mean(1) / 2**31
    return resampled(samples, rate)


def resampled(samples: Floats, rate: int) -> Floats:
    """Return samples with 16,000 of a second, without what is too high for these.

    >>> from luminal_lab.language.sound import resampled
    >>> time = np.arange(44_100) / 44_100
    >>> sound = resampled(np.sin(2 * np.pi * 440 * time), 44_100)
    >>> wanted = np.sin(2 * np.pi * 440 * np.arange(16_000) / 16_000)
    >>> bool(np.abs(sound - wanted).max() < 1e-5)
    True
    """
    count = round(len(samples) * RATE / rate)
    if rate == RATE or not count:
        return samples.astype("float32")
    spectrum = np.fft.rfft(samples)
    kept = np.zeros(count // 2 + 1, spectrum.dtype)
    both = min(len(kept), len(spectrum))
    kept[:both] = spectrum[:both]
    return (np.fft.irfft(kept, count) * (count / len(samples))).astype("float32")

"""Samples of WAV files of any width, rate and number of channels, and what is no such file."""

import wave

import numpy as np
import pytest

from luminal_lab.errors import InputError, LabError
from luminal_lab.language.sound import read_wav, resampled
from tests.expect import error_of


def written(path, values, width=2, rate=16_000):
    """Write samples [count, channels] from -1 to 1 as whole numbers of some bytes."""
    top = 2 ** (8 * width - 1)
    whole = np.clip(np.round(values * top), -top, top - 1).astype("<i8")
    raw = (whole + 128 * (width == 1)).astype("<i8").view(np.uint8).reshape(*whole.shape, 8)
    with wave.open(str(path), "wb") as file:
        file.setparams((values.shape[1], width, rate, 0, "NONE", ""))
        file.writeframes(raw[..., :width].tobytes())
    return path


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_samples_of_any_width_are_from_minus_1_to_1(tmp_path, width):
    values = np.random.default_rng(0).uniform(-1, 1, (1000, 1))
    sound = read_wav(written(tmp_path / "w.wav", values, width))
    assert (sound.shape, sound.dtype) == ((1000,), np.float32)
    assert np.abs(sound - values[:, 0]).max() <= max(2.0 ** (1 - 8 * width), 1e-6)


def test_channels_become_one(tmp_path):
    values = np.random.default_rng(0).uniform(-1, 1, (100, 3))
    sound = read_wav(written(tmp_path / "w.wav", values))
    assert np.abs(sound - values.mean(1)).max() <= 2**-15


@pytest.mark.parametrize("rate", [8_000, 11_025, 22_050, 44_100, 48_000])
def test_any_rate_becomes_16_000_a_second(tmp_path, rate):
    tone = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(rate) / rate)
    sound = read_wav(written(tmp_path / "w.wav", tone[:, None], rate=rate))
    wanted = 0.5 * np.sin(2 * np.pi * 1000 * np.arange(16_000) / 16_000)
    assert sound.shape == (16_000,)
    assert np.abs(sound - wanted).max() <= 1e-4


def test_what_is_too_high_falls_away():
    high = np.sin(2 * np.pi * 12_000 * np.arange(48_000) / 48_000)
    assert np.abs(resampled(high, 48_000)).max() <= 1e-6


def test_a_cut_file_has_the_samples_that_are_there(tmp_path):
    path = written(tmp_path / "w.wav", np.ones((100, 2)) / 2)
    path.write_bytes(path.read_bytes()[:-7])
    assert read_wav(path).shape == (98,)


WRONG = {
    "empty": (b"", "is no WAV file of whole numbers: it ends within its header"),
    "another format": (b"ID3\x04" + bytes(60), "file does not start with RIFF id"),
    "no sound": (b"RIFF\x04\0\0\0WAVE", "fmt chunk and/or data chunk missing"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_such_file_is_told(tmp_path, case):
    data, why = WRONG[case]
    (tmp_path / "x.wav").write_bytes(data)
    error = error_of(lambda: read_wav(tmp_path / "x.wav"), InputError)
    assert error.message.startswith(f"sound: {tmp_path / 'x.wav'} is no WAV file")
    assert why in error.message
    assert error.hint.startswith("ffmpeg makes one that is read")


def test_floats_are_told(tmp_path):
    path = written(tmp_path / "w.wav", np.ones((4, 1)), 4)
    data = path.read_bytes()
    path.write_bytes(data[:20] + b"\x03\0" + data[22:])
    assert "unknown format: 3" in error_of(lambda: read_wav(path), InputError).message


def test_files_that_are_not_there(tmp_path):
    error = error_of(lambda: read_wav(tmp_path / "x.wav"), InputError)
    assert error.message == f"sound: there is no {tmp_path / 'x.wav'}"
    assert "cannot be read" in error_of(lambda: read_wav(tmp_path), LabError).message

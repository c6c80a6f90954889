"""Log-mel features beside those of transformers, and what is refused."""

import numpy as np
import pytest

from luminal_lab.errors import ArgumentError, InputError
from luminal_lab.language.mel import RATE, bands, log_mel
from tests.expect import error_of
from tests.needs import need

RNG = np.random.default_rng(0)
TIME = np.arange(5 * RATE) / RATE
SOUNDS = {
    "noise": RNG.standard_normal(3 * RATE).astype("float32") * 0.1,
    "a rising tone": np.sin(2 * np.pi * (100 + 500 * TIME) * TIME).astype("float32"),
    "words": (np.sin(2 * np.pi * 180 * TIME) * (np.sin(7 * TIME) > 0)).astype("float32") / 2,
    "longer than 30 seconds": RNG.uniform(-1, 1, 31 * RATE).astype("float32"),
    "silence": np.zeros(RATE, "float32"),
}


@pytest.mark.needs("transformers")
@pytest.mark.parametrize("bins", [80, 128])
@pytest.mark.parametrize("name", SOUNDS)
def test_features_are_those_of_transformers(name, bins):
    extract = need("transformers").WhisperFeatureExtractor(feature_size=bins)
    whole = np.zeros(30 * RATE, "float32")
    whole[: len(SOUNDS[name])] = SOUNDS[name][: len(whole)]
    wanted = extract._np_extract_fbank_features(whole[None], "cpu")[0]  # in float64
    features = log_mel(SOUNDS[name], bins=bins)
    assert features.shape == wanted.shape == (bins, 3000)
    assert features.dtype == np.float32
    assert np.abs(features - wanted).max() <= 1e-5
    # Where there is PyTorch, it computes in float32, and the faint bands beside a tone are rough.
    usual = extract(SOUNDS[name], sampling_rate=RATE, return_tensors="np").input_features[0]
    assert np.abs(features - usual).max() <= 1e-4
    assert np.abs(features - usual).mean() <= 1e-5


@pytest.mark.needs("transformers")
@pytest.mark.parametrize("bins", [80, 128])
def test_bands_are_those_of_slaney(bins):
    transformers = need("transformers")
    wanted = transformers.audio_utils.mel_filter_bank(
        201, bins, 0.0, 8000.0, RATE, norm="slaney", mel_scale="slaney"
    )
    assert np.abs(bands(bins) - wanted.T).max() <= 1e-12


def test_a_batch_is_each_sound_by_itself():
    both = np.stack([SOUNDS["a rising tone"], SOUNDS["words"]])
    features = log_mel(both, seconds=6)
    assert features.shape == (2, 80, 600)
    for sound, own in zip(both, features, strict=True):
        np.testing.assert_array_equal(log_mel(sound, seconds=6), own)


def test_a_sound_as_it_is():
    assert log_mel(SOUNDS["noise"][:1700], seconds=None).shape == (80, 10)


def test_whole_numbers_are_refused_with_the_way_to_floats():
    error = error_of(lambda: log_mel(np.ones(RATE, "int16")), InputError)
    assert str(error).startswith(
        "log_mel: the samples are int16 (16000,), and must be finite floats"
    )
    assert "/ 32768" in str(error)
    assert "must be finite" in str(error_of(lambda: log_mel([0.0, np.nan]), InputError))


def test_lengths_and_bins_that_cannot_be_are_refused():
    error = error_of(lambda: log_mel(np.zeros(200), seconds=None), InputError)
    assert str(error).startswith("log_mel: 200 samples are less than a window of 400")
    error = error_of(lambda: log_mel(np.zeros(800), seconds=-1), ArgumentError)
    assert str(error).startswith("log_mel: -1 seconds")
    error = error_of(lambda: log_mel(np.zeros(800), bins=0), ArgumentError)
    assert str(error).startswith("log_mel: bins is 0")

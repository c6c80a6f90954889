"""The digits of scikit-learn: 1,797 images of 8x8, of which the last 297 are to be held out."""

from functools import cache

import numpy as np

from tests.needs import need


@cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images [1797, 64] from 0 to 1 and what they show, shuffled with a fixed seed."""
    load_digits = need("sklearn.datasets").load_digits  # slow to load
    images, labels = map(np.asarray, load_digits(return_X_y=True))
    order = np.random.default_rng(0).permutation(len(labels))
    return (images[order] / 16).astype(np.float32), labels[order]

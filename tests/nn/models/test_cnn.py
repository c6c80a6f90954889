"""The small convolutional network beside PyTorch; values and gradients; what images may be."""

import numpy as np
import pytest

from luminal_lab.errors import ShapeError
from luminal_lab.nn.models.cnn import CNN
from luminal_lab.session import Graph
from tests.expect import error_of
from tests.nn.beside import beside, value_of
from tests.tensor.against import draw


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({}, (3, 8, 8)),
        ({"classes": 4, "channels": (6,), "inputs": 3, "size": 9, "kernel": 5}, (2, 3, 9, 9)),
        ({"channels": (), "size": 4}, (2, 16)),
    ],
    ids=["digits", "colours", "linear"],
)
def test_values_and_gradients(torch, options, shape):
    model = CNN(**options)
    inputs, size = options.get("inputs", 1), options.get("size", 8)
    channels, kernel = options.get("channels", (16, 32)), options.get("kernel", 3)

    class Witness(torch.nn.Module):
        def __init__(self):
            super().__init__()
            pairs = zip((inputs, *channels), channels, strict=False)
            self.convolutions = torch.nn.ModuleList(
                [torch.nn.Conv2d(a, b, kernel, padding=kernel // 2) for a, b in pairs]
            )
            features = (inputs, *channels)[-1] * (size >> len(channels)) ** 2
            self.head = torch.nn.Linear(features, options.get("classes", 10))

        def forward(self, x):
            x = x.reshape(-1, inputs, size, size)
            for convolution in self.convolutions:
                x = torch.nn.functional.max_pool2d(torch.relu(convolution(x)), 2)
            return self.head(x.flatten(1))

    torch.manual_seed(0)
    beside(torch, model, Witness(), draw(shape))


def test_images_of_any_shape_and_any_number():
    model, images = CNN().initialise(0), draw((3, 1, 8, 8))
    wanted = value_of(model, images)
    for shape in ((3, 8, 8), (3, 64), (3, 4, 16)):
        np.testing.assert_array_equal(value_of(model, images.reshape(shape)), wanted)
    cx = Graph()
    x = cx.tensor(("batch", 8, 8)).set(images[:2, 0])
    logits = model(x).retrieve()
    cx.execute()
    np.testing.assert_allclose(logits.numpy(), wanted[:2], rtol=1e-5, atol=1e-6)


def test_errors():
    error = error_of(lambda: CNN(channels=(4, 4, 4, 4)), ShapeError)
    assert error.message == "cnn: 4 convolutions of kernel 3 on images of 8x8"
    assert error.hint == "each halves the image, of which a pixel must be left; the kernel is odd"
    assert "CNN(channels" in str(error.where)
    assert error_of(lambda: CNN(kernel=2), ShapeError).message.startswith("cnn: 2 convolutions of")
    error = error_of(lambda: CNN()(Graph().tensor((2, 28, 28), name="x")), ShapeError)
    assert error.message == (
        "cnn: images are (1, 8, 8), and %x (2, 28, 28) does not hold as many elements a sample"
    )
    assert error.hint == "make the network for its images, as in CNN(size=28)"
    assert error_of(lambda: CNN()(Graph().tensor((), name="x")), ShapeError)

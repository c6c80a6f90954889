"""YOLOv8n's shape: as it is published, and by both ways in as PyTorch computes it."""

import warnings

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.bench.studies.yolo import yolov8n
from tests.needs import need

pytestmark = [pytest.mark.needs("torch", "cc")]


def test_it_has_the_weights_that_are_published():
    module = yolov8n(need("torch"))
    # 3,157,200, of which 16 are the numbers from 0 to 15
    assert sum(p.numel() for p in module.parameters()) == 3_157_184


@pytest.mark.share("way", ["from_torch", "from_onnx"], 1)
def test_boxes_are_those_of_pytorch(way, tmp_path):
    torch = need("torch")
    torch.manual_seed(0)
    module, image = yolov8n(torch), torch.randn(1, 3, 64, 96)
    if way == "from_torch":
        model = ll.from_torch(module, (image,))
    else:
        need("onnx")
        file = str(tmp_path / "yolov8n.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, (image,), file, opset_version=17, dynamo=False)
        model = ll.from_onnx(file)
    with torch.no_grad():
        wanted = module(image).numpy()
    assert wanted.shape == (1, 84, 8 * 12 + 4 * 6 + 2 * 3)
    cx = ll.Graph()
    boxes = model(cx.tensor(image.shape, name="image").set(image.numpy())).retrieve()
    cx.compile(ll.GenericCompiler(), ll.CPUCompiler())
    cx.execute()
    assert np.abs(boxes.numpy() - wanted).max() <= 1e-5 * np.abs(wanted).max()

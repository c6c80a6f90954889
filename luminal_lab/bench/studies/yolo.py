"""YOLOv8n's shape in PyTorch's own layers, with drawn weights: 640×640 pixels to 8,400 boxes.

    image ─ backbone ─ three maps, 80², 40², 20² ─ up, and down again ─ boxes and classes of each

PyTorch is no dependency, so each function gets it as its argument.
"""
# pyright: basic

from __future__ import annotations

from typing import Any, Final

from luminal_lab.bench.studies.torch_models import wrapped

CLASSES: Final = 80
STEPS: Final = 16
"""A box's distance to each of its sides is the mean of as many steps, each with a probability."""
STRIDES: Final = 8, 16, 32
"""The pixels of a place, in each map."""
WIDTHS: Final = 64, 128, 256


def yolov8n(torch: Any) -> Any:
    """Return the module: [batch, 3, height, width] becomes [batch, 4 + 80, places]."""
    nn = torch.nn

    def forward(self: Any, image: Any) -> Any:
        small = self.small(image)
        middle = self.middle(small)
        large = self.large(middle)
        middle = self.up[0](torch.cat([self.twice(large), middle], 1))
        small = self.up[1](torch.cat([self.twice(middle), small], 1))
        middle = self.down[0](torch.cat([self.smaller[0](small), middle], 1))
        large = self.down[1](torch.cat([self.smaller[1](middle), large], 1))
        parts = zip(self.boxes, self.kinds, (small, middle, large), STRIDES, strict=True)
        return torch.cat([found(torch, *part) for part in parts], 2)

    stem = conv(torch, 3, 16, 3, 2), conv(torch, 16, 32, 3, 2), split(torch, 32, 32, 1, True)
    small = conv(torch, 32, 64, 3, 2), split(torch, 64, 64, 2, True)
    middle = conv(torch, 64, 128, 3, 2), split(torch, 128, 128, 2, True)
    large = conv(torch, 128, 256, 3, 2), split(torch, 256, 256, 1, True), pools(torch, 256)
    module = wrapped(
        torch,
        forward,
        small=nn.Sequential(*stem, *small),
        middle=nn.Sequential(*middle),
        large=nn.Sequential(*large),
        twice=nn.Upsample(scale_factor=2),
        up=nn.ModuleList([split(torch, 384, 128, 1, False), split(torch, 192, 64, 1, False)]),
        smaller=nn.ModuleList([conv(torch, 64, 64, 3, 2), conv(torch, 128, 128, 3, 2)]),
        down=nn.ModuleList([split(torch, 192, 128, 1, False), split(torch, 384, 256, 1, False)]),
        boxes=nn.ModuleList(branch(torch, width, 64, 4 * STEPS) for width in WIDTHS),
        kinds=nn.ModuleList(branch(torch, width, 80, CLASSES) for width in WIDTHS),
    )
    with torch.no_grad():
        for name, value in module.named_buffers():
            if name.endswith("running_var"):
                value.uniform_(0.5, 1.5)
            elif name.endswith("running_mean"):
                value.normal_(std=0.1)
    return module.eval()


def conv(torch: Any, before: int, after: int, kernel: int = 1, stride: int = 1) -> Any:
    """Return a convolution, a norm and SiLU."""
    nn = torch.nn
    layer = nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(after, eps=1e-3), nn.SiLU())


def split(torch: Any, before: int, after: int, number: int, adds: bool) -> Any:
    """Return two halves, of which one goes through pairs of convolutions, each result kept."""

    def forward(self: Any, x: Any) -> Any:
        parts = [*self.begin(x).chunk(2, 1)]
        for pair in self.pairs:
            y = pair(parts[-1])
            parts.append(parts[-1] + y if adds else y)
        return self.end(torch.cat(parts, 1))

    half = after // 2
    pairs = [[conv(torch, half, half, 3) for _ in range(2)] for _ in range(number)]
    return wrapped(
        torch,
        forward,
        begin=conv(torch, before, after),
        pairs=torch.nn.ModuleList(torch.nn.Sequential(*pair) for pair in pairs),
        end=conv(torch, (2 + number) * half, after),
    )


def pools(torch: Any, width: int) -> Any:
    """Return the largest values of ever larger squares, beside x."""

    def forward(self: Any, x: Any) -> Any:
        first = self.begin(x)
        second = self.pool(first)
        third = self.pool(second)
        return self.end(torch.cat([first, second, third, self.pool(third)], 1))

    begin, end = conv(torch, width, width // 2), conv(torch, 2 * width, width)
    return wrapped(torch, forward, begin=begin, end=end, pool=torch.nn.MaxPool2d(5, 1, 2))


def branch(torch: Any, before: int, width: int, after: int) -> Any:
    """Return what makes boxes, or classes, of a map."""
    last = torch.nn.Conv2d(width, after, 1)
    return torch.nn.Sequential(conv(torch, before, width, 3), conv(torch, width, width, 3), last)


def found(torch: Any, boxes: Any, kinds: Any, x: Any, stride: int) -> Any:
    """Return a map's boxes, as middle and size in pixels, and their classes."""
    height, width = x.shape[2:]
    shares = boxes(x).flatten(2).unflatten(1, (4, STEPS)).softmax(2)
    steps = torch.arange(STEPS, dtype=x.dtype).view(1, 1, -1, 1)
    left, top, right, bottom = (shares * steps).sum(2).unbind(1)
    across, along = (torch.arange(size, dtype=x.dtype) + 0.5 for size in (width, height))
    across = across.expand(height, width).flatten()
    along = along.unsqueeze(1).expand(height, width).flatten()
    middle = across + (right - left) / 2, along + (bottom - top) / 2
    box = torch.stack([*middle, left + right, top + bottom], 1) * stride
    return torch.cat([box, kinds(x).flatten(2).sigmoid()], 1)

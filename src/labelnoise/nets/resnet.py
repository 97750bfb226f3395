"""Residual networks (He et al., CVPR 2016, arXiv 1512.03385) with 18, 34 and 50 layers.

Parameters have the names and shapes of torchvision's, which timm shares, so that their weights fit
(`labelnoise.nets.weights`). The 50 layers are "v1.5": a block halves the image in its 3x3
convolution, not in the 1x1 before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from labelnoise.nets.images import image_shape

SMALLEST = 8  # the first two layers leave two pixels of it, and the stages one
WIDTHS = (64, 128, 256, 512)  # of the four stages


def resnet18(shape: Sequence[int], num_classes: int) -> nn.Module:
    """Eight blocks of two 3x3 convolutions; 11,689,512 parameters with 1,000 classes."""
    return _built(shape, num_classes, "resnet18", Basic, (2, 2, 2, 2))


def resnet34(shape: Sequence[int], num_classes: int) -> nn.Module:
    """Sixteen blocks of two 3x3 convolutions; 21,797,672 parameters with 1,000 classes."""
    return _built(shape, num_classes, "resnet34", Basic, (3, 4, 6, 3))


def resnet50(shape: Sequence[int], num_classes: int) -> nn.Module:
    """Sixteen blocks of three convolutions; 25,557,032 parameters with 1,000 classes."""
    return _built(shape, num_classes, "resnet50", Bottleneck, (3, 4, 6, 3))


class Basic(nn.Module):
    """Two 3x3 convolutions beside a short cut."""

    expansion = 1

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _convolution(before, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _convolution(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _short_cut(before, width, stride)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, before, height, width) -> (batch, width, height / stride, width / stride)."""
        out = self.relu(self.bn1(self.conv1(inputs)))
        out = self.bn2(self.conv2(out))
        return _joined(self, out, inputs)


class Bottleneck(nn.Module):
    """A 3x3 convolution between two of 1x1, beside a short cut."""

    expansion = 4

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = width * self.expansion
        self.conv1 = _convolution(before, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _convolution(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = _convolution(width, after, 1)
        self.bn3 = nn.BatchNorm2d(after)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _short_cut(before, after, stride)

    def forward(self, inputs: Tensor) -> Tensor:
        """(batch, before, height, width) -> (batch, 4 width, height / stride, width / stride)."""
        out = self.relu(self.bn1(self.conv1(inputs)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return _joined(self, out, inputs)


class ResNet(nn.Module):
    """A 7x7 convolution, four stages of blocks, the mean over the image, one dense layer."""

    def __init__(
        self,
        channels: int,
        num_classes: int,
        block: type[Basic] | type[Bottleneck],
        counts: Sequence[int],
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1, self.layer2, self.layer3, self.layer4 = _stages(block, counts)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(WIDTHS[-1] * block.expansion, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, classes)."""
        out = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            out = stage(out)
        logits: Tensor = self.fc(self.avgpool(out).flatten(1))
        return logits


def _built(
    shape: Sequence[int],
    num_classes: int,
    name: str,
    block: type[Basic] | type[Bottleneck],
    counts: Sequence[int],
) -> nn.Module:
    channels, _, _ = image_shape(shape, name, SMALLEST)
    net = ResNet(channels, num_classes, block, counts)
    # The same numbers in another order in memory, as in the CNN.
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def _stages(
    block: type[Basic] | type[Bottleneck], counts: Sequence[int]
) -> Iterator[nn.Sequential]:
    """The four of them; all but the first halve the image in their first block."""
    before = WIDTHS[0]
    for width, count in zip(WIDTHS, counts, strict=True):
        strides = [1 if width == WIDTHS[0] else 2, *[1] * (count - 1)]
        after = width * block.expansion
        inputs = [before, *[after] * (count - 1)]
        yield nn.Sequential(*(block(b, width, s) for b, s in zip(inputs, strides, strict=True)))
        before = after


def _convolution(before: int, after: int, side: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, side, stride=stride, padding=side // 2, bias=False)


def _short_cut(before: int, after: int, stride: int) -> nn.Sequential | None:
    """What makes a block's input fit its output, where it does not."""
    if stride == 1 and before == after:
        return None
    return nn.Sequential(_convolution(before, after, 1, stride), nn.BatchNorm2d(after))


def _joined(block: Basic | Bottleneck, out: Tensor, inputs: Tensor) -> Tensor:
    """A block's output and its short cut, together."""
    beside = inputs if block.downsample is None else block.downsample(inputs)
    joined: Tensor = block.relu(out + beside)
    return joined

"""The programs of benches/resnet.rs in torch, with its parameters, which it has written to target/compare/resnet18.safetensors.

Usage: python torch_resnet.py eager|compile [forward train]; needs the packages of benches/comparison/requirements-torch.txt. The
modules have the names of torchvision, and the memory format `channels_last`, which is faster than the default on CPUs.
"""

import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

import measure

FILE = pathlib.Path(__file__).resolve().parent.parent / "target" / "compare" / "resnet18.safetensors"


def conv(inputs, outputs, size, stride=1):
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)) if stride > 1 else nn.Identity()

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = conv(3, 64, 7, 2), nn.BatchNorm2d(64)
        for stage, (outputs, stride) in enumerate(((64, 1), (128, 2), (256, 2), (512, 2)), 1):
            blocks = Block(outputs // stride, outputs, stride), Block(outputs, outputs, 1)
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def main(mode, *cases):
    images = torch.from_numpy(measure.uniform(10, (32, 32, 32, 3), 1.0)).permute(0, 3, 1, 2)
    labels = torch.from_numpy(measure.labels(20, 32, 10)).long()
    for case in cases or ("forward", "train"):
        model = ResNet18()
        model.load_state_dict(load_file(FILE))
        model = model.to(memory_format=torch.channels_last).train(case == "train")
        run = torch.compile(model) if mode == "compile" else model
        optimizer = torch.optim.Adam(model.parameters(), 1e-4, fused=True)

        @torch.inference_mode()
        def forward():
            return run(images).max()

        def train():
            optimizer.zero_grad()
            loss = F.cross_entropy(run(images), labels)
            loss.backward()
            optimizer.step()
            return loss.detach()

        advance = train if case == "train" else forward
        measure.measure_steps("K", f"resnet-{case}", f"torch-{mode}", advance, lambda loss: loss.item())


if __name__ == "__main__":
    main(*sys.argv[1:])

"""`digits --workload-d` in torch, from the start of the process to the test accuracy: `python benches/torch_digits.py`."""

import torch
import torch.nn.functional as F
from torch import nn

import measure

images, digits, count = measure.digits()
images, digits = torch.from_numpy(images), torch.from_numpy(digits).long()
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
with torch.no_grad():
    for layer, (weight, bias) in zip(model[::2], measure.linears("C1").values()):
        layer.weight.copy_(torch.from_numpy(weight.T.copy()))
        layer.bias.copy_(torch.from_numpy(bias))
optimizer = torch.optim.Adam(model.parameters(), lr=measure.LEARNING_RATE)
for part in measure.digits_batches(count):
    part = torch.from_numpy(part)
    optimizer.zero_grad()
    F.cross_entropy(model(images[part]), digits[part]).backward()
    optimizer.step()
with torch.no_grad():
    found = model(images[count:]).argmax(1)
print(f"test accuracy: {(found == digits[count:]).double().mean():.4f}")

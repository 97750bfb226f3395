"""A plain PyTorch loop, whatever its loss: one more line, and it tells which labels are wrong."""

import torch
from sklearn.datasets import load_digits
from torch import nn

import labelnoise

digits = load_digits()
inputs = torch.tensor(digits.data / 16, dtype=torch.float32)
truth = torch.tensor(digits.target)
chance = torch.Generator().manual_seed(0)
wrong = torch.rand(len(truth), generator=chance) < 0.2  # on purpose
other = (truth + torch.randint(1, 10, truth.shape, generator=chance)) % 10
labels = torch.where(wrong, other, truth)

torch.manual_seed(0)
network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
criterion = labelnoise.BARELoss()  # any loss will do; this one does not learn wrong labels
recorder = labelnoise.Recorder()

for _epoch in range(30):
    for rows in torch.split(torch.randperm(len(labels)), 64):
        logits = network(inputs[rows])
        loss = criterion(logits, labels[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        recorder.update(logits, labels[rows], rows)  # the one more line

found = recorder.issues()
for row in list(found.rows())[:3]:
    print(row)
flagged = torch.zeros(len(labels), dtype=torch.bool)
flagged[[int(name) for name, issue in zip(found.ids, found.issue, strict=True) if issue]] = True
hits = int((flagged & wrong).sum())
print(f"precision {hits / int(flagged.sum()):.2f}, recall {hits / int(wrong.sum()):.2f}")

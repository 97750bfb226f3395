"""skorch: a robust criterion, a callback that finds wrong labels."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from skorch import NeuralNetClassifier
from torch import nn

from labelnoise import BARELoss
from labelnoise.adapters.skorch import LabelAudit, NumberedLoader

digits = load_digits()
inputs, truth = (digits.data / 16).astype(np.float32), digits.target
wrong = np.arange(len(truth)) % 5 == 0  # on purpose
labels = np.where(wrong, (truth + 1 + np.arange(len(truth)) % 9) % 10, truth)

torch.manual_seed(0)
audit = LabelAudit()
net = NeuralNetClassifier(
    nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)),
    criterion=BARELoss,
    predict_nonlinearity=nn.Softmax(dim=-1),  # skorch does not know what this criterion takes
    optimizer=torch.optim.Adam,
    lr=1e-3,
    batch_size=64,
    max_epochs=20,
    train_split=None,  # what is held out is not trained on, and so not judged
    iterator_train=NumberedLoader,
    iterator_train__shuffle=True,
    callbacks=[audit],
)
net.fit(inputs, labels)
flagged = {int(row["sample_id"]) for row in audit.issues().rows() if row["is_label_issue"]}
hits = len(flagged & set(np.flatnonzero(wrong).tolist()))
print(f"accuracy on true labels {net.score(inputs, truth):.2f}")
print(f"precision {hits / len(flagged):.2f}, recall {hits / int(wrong.sum()):.2f}")

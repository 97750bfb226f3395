"""Lightning: a robust loss in training_step, a callback that finds wrong labels."""

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import labelnoise
from labelnoise.adapters.lightning import LabelAudit

digits = load_digits()
inputs, truth = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
wrong = torch.arange(len(truth)) % 5 == 0  # on purpose
labels = torch.where(wrong, (truth + 1 + torch.arange(len(truth)) % 9) % 10, truth)


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        self.criterion = labelnoise.BARELoss()

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> dict[str, torch.Tensor]:
        inputs, labels, rows = batch
        logits = self.network(inputs)
        loss = self.criterion(logits, labels)
        return {"loss": loss, "logits": logits, "labels": labels, "sample_ids": rows}

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


lightning.seed_everything(0)
audit = LabelAudit("issues.csv")
loader = DataLoader(TensorDataset(inputs, labels, torch.arange(len(labels))), 64, shuffle=True)
lightning.Trainer(max_epochs=20, callbacks=[audit], logger=False).fit(Classifier(), loader)
flagged = {int(row["sample_id"]) for row in audit.issues().rows() if row["is_label_issue"]}
hits = len(flagged & set(wrong.nonzero().squeeze(1).tolist()))
print(f"precision {hits / len(flagged):.2f}, recall {hits / int(wrong.sum()):.2f}")

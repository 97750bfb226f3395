"""Two processes that train one model under the Trainer: the gradient of all their samples."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as functional
from torch.func import functional_call

pytest.importorskip("transformers")

SCRIPT = """
import sys
import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments
from labelnoise import BARELoss
from labelnoise.adapters.hf import IdCollator, LabelAudit

folder, average, record = sys.argv[1], sys.argv[2] == "average", sys.argv[3] == "record"
chance = torch.Generator().manual_seed(0)
inputs, labels = torch.randn(96, 6, generator=chance), torch.randint(3, (96,), generator=chance)
kept = {"inputs": [], "labels": [], "weight": [], "before": [], "after": []}

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(6, 3)

    def forward(self, inputs, labels=None):
        kept["inputs"].append(inputs)
        return {"logits": self.layer(inputs)}

class Keeping(BARELoss):
    def forward(self, logits, labels):
        losses = super().forward(logits, labels)
        kept["labels"].append(labels)
        kept["weight"].append(self.weight)
        return losses

class Gradients(TrainerCallback):
    def on_step_begin(self, *_, model, **rest):
        kept["before"].append({n: p.detach().clone() for n, p in model.named_parameters()})

    def on_pre_optimizer_step(self, *_, model, **rest):
        kept["after"].append({n: p.grad.clone() for n, p in model.named_parameters()})

audit = LabelAudit(Keeping(threshold="batch", kappa=0.0, reduction="none"), record=record)
rows = [{"inputs": inputs[n], "label": int(labels[n]), "idx": n} for n in range(96)]
arguments = TrainingArguments(
    folder, use_cpu=True, ddp_backend="gloo", per_device_train_batch_size=8, max_grad_norm=0,
    gradient_accumulation_steps=3, num_train_epochs=2, remove_unused_columns=False,
    average_tokens_across_devices=average, save_strategy="no", report_to="none", disable_tqdm=True,
    learning_rate=0.1, dataloader_pin_memory=False,
)
trainer = Trainer(Model(), arguments, train_dataset=rows, data_collator=IdCollator(),
                  compute_loss_func=audit, callbacks=[audit, Gradients()])
assert arguments.world_size == 2
trainer.train()
torch.save(kept, f"{folder}/kept-{arguments.process_index}.pt")
"""


def run(folder: Path, *words: str) -> list[subprocess.CompletedProcess[str]]:
    """Both processes, which meet at a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    command = [sys.executable, "-c", SCRIPT, str(folder), *words]
    started = [
        subprocess.Popen(
            command,
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank),
                 "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    said = [process.communicate(timeout=240)[1] for process in started]
    return [
        subprocess.CompletedProcess(command, process.returncode, stderr=text)
        for process, text in zip(started, said, strict=True)
    ]


@pytest.mark.long
@pytest.mark.parametrize("average", ["average", "apart"])
def test_the_gradient_is_that_of_the_joined_batch_of_all(average: str, tmp_path: Path) -> None:
    for done in run(tmp_path, average, "alone"):
        assert done.returncode == 0, done.stderr
    both = [torch.load(tmp_path / f"kept-{rank}.pt") for rank in range(2)]
    assert len(both[0]["after"]) == 4
    for step, (before, after) in enumerate(zip(both[0]["before"], both[0]["after"], strict=True)):
        part = slice(3 * step, 3 * step + 3)
        inputs, labels, weight = (
            torch.cat([each for kept in both for each in kept[name][part]])
            for name in ("inputs", "labels", "weight")
        )
        assert len(labels) == 48
        layer = torch.nn.Linear(6, 3)
        weighed = {n.removeprefix("layer."): p.requires_grad_() for n, p in before.items()}
        losses = functional.cross_entropy(
            functional_call(layer, weighed, (inputs,)), labels, reduction="none"
        )
        expected = torch.autograd.grad((losses * weight).sum() / weight.sum(), [*weighed.values()])
        for grad, wanted in zip(after.values(), expected, strict=True):
            assert torch.allclose(grad, wanted, rtol=1e-4, atol=1e-6), step
        for name, value in both[1]["after"][step].items():
            assert torch.allclose(value, after[name])
    shares = [float(each.sum()) for kept in both for each in kept["weight"]]
    assert len(set(shares)) > 3  # or there would be nothing to get wrong


@pytest.mark.long
def test_a_record_of_several_processes_is_refused(tmp_path: Path) -> None:
    for done in run(tmp_path, "average", "record"):
        assert done.returncode != 0
        assert "LabelAudit records one process, and 2 would train" in done.stderr

"""Hugging Face Trainer: wrong labels among passages of Python's manual (labelnoise[hf])."""

import re
import tempfile
from pydoc_data.topics import topics

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from labelnoise.adapters.hf import IdCollator, LabelAudit

NAMES = ["compound", "debugger", "formatstrings", "specialnames", "string-methods"]
LENGTH = 32
words = [re.findall(r"[a-z_]+", topics[name].lower()) for name in NAMES]
number = {word: n for n, word in enumerate(sorted({word for text in words for word in text}))}
passages = [
    ([number[word] for word in text[begin : begin + LENGTH]], label)
    for label, text in enumerate(words)
    for begin in range(0, len(text) - LENGTH, 8)
]
wrong = set(range(0, len(passages), 6))
rows = [
    {"idx": n, "input_ids": ids, "label": (label + 1 + n % 4) % 5 if n in wrong else label}
    for n, (ids, label) in enumerate(passages)  # wrong on purpose
]

torch.manual_seed(0)
size = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
config = BertConfig(vocab_size=len(number), num_labels=5, num_attention_heads=2, **size)
steps = {"per_device_train_batch_size": 32, "gradient_accumulation_steps": 2}
arguments = TrainingArguments(
    tempfile.mkdtemp(), num_train_epochs=8, learning_rate=2e-3, remove_unused_columns=False, **steps
)
audit = LabelAudit(classes=NAMES)
loss = {"compute_loss_func": audit, "callbacks": [audit], "data_collator": IdCollator()}
Trainer(BertForSequenceClassification(config), arguments, train_dataset=rows, **loss).train()
flagged = {int(row["sample_id"]) for row in audit.issues().rows() if row["is_label_issue"]}
hits = len(flagged & wrong)
print(f"{len(rows)} passages, precision {hits / len(flagged):.2f}, recall {hits / len(wrong):.2f}")

"""Learn from data whose labels are partly wrong.

Public names are imported when they are first used, so that `import labelnoise` and the command
line's `--help` do not wait for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from labelnoise.adapters.sklearn import RobustClassifier as RobustClassifier
    from labelnoise.adapters.torch_loss import BARELoss as BARELoss
    from labelnoise.audit.audit import Audit as Audit
    from labelnoise.audit.audit import audit_labels as audit_labels
    from labelnoise.audit.findings import Findings as Findings
    from labelnoise.audit.recorder import Recorder as Recorder
    from labelnoise.batch import Batch as Batch
    from labelnoise.batch import Step as Step
    from labelnoise.data import read as read
    from labelnoise.data.columns import Columns as Columns
    from labelnoise.engine import fit as fit
    from labelnoise.errors import LabelNoiseError as LabelNoiseError
    from labelnoise.experiment.predict import Predictor as Predictor
    from labelnoise.experiment.run import train as train
    from labelnoise.learner import Learner as Learner
    from labelnoise.method import LossMethod as LossMethod
    from labelnoise.method import Method as Method
    from labelnoise.methods.bare import BARE as BARE
    from labelnoise.methods.bare import bare_select as bare_select
    from labelnoise.methods.cce import CCE as CCE
    from labelnoise.noise import corrupt as corrupt
    from labelnoise.problem import Problem as Problem
    from labelnoise.record.run import Run as Run
    from labelnoise.rules.evidence import Evidence as Evidence

_HOME = {
    "Audit": "audit.audit",
    "BARE": "methods.bare",
    "BARELoss": "adapters.torch_loss",
    "Batch": "batch",
    "CCE": "methods.cce",
    "Columns": "data.columns",
    "Evidence": "rules.evidence",
    "Findings": "audit.findings",
    "LabelNoiseError": "errors",
    "Learner": "learner",
    "LossMethod": "method",
    "Method": "method",
    "Predictor": "experiment.predict",
    "Problem": "problem",
    "Recorder": "audit.recorder",
    "RobustClassifier": "adapters.sklearn",
    "Run": "record.run",
    "Step": "batch",
    "audit_labels": "audit.audit",
    "bare_select": "methods.bare",
    "corrupt": "noise",
    "fit": "engine",
    "read": "data",
    "train": "experiment.run",
}

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'labelnoise' has no attribute {name!r}")
    return getattr(importlib.import_module(f"labelnoise.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)

"""Half of the labels are wrong: a scikit-learn pipeline learns from them and finds which ones."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import precision_score, recall_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labelnoise import RobustClassifier

images, truth = load_digits(return_X_y=True)
train, test, right, answers = train_test_split(images, truth, random_state=0, stratify=truth)

chance = np.random.default_rng(0)
wrong = chance.random(len(right)) < 0.5
given = np.where(wrong, (right + chance.integers(1, 10, len(right))) % 10, right)


def trained(method: str) -> RobustClassifier:
    classifier = RobustClassifier(method, random_state=0)
    pipeline = make_pipeline(StandardScaler(), classifier).fit(train, given)
    print(f"{method}: {pipeline.score(test, answers):.3f} of the test images right")
    return classifier


trained("cce")  # cross-entropy, the same net
robust = trained("bare")
precision = precision_score(wrong, robust.label_issues_)
recall = recall_score(wrong, robust.label_issues_)
print(f"{robust.noise_rate_:.3f} of the labels wrong, by its estimate; {wrong.mean():.3f} are")
print(f"wrong labels found: precision {precision:.3f}, recall {recall:.3f}")
print(robust.find_label_issues().sort_values("label_quality").head())

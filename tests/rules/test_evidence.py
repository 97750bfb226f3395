"""Evidence against a slow reference, its closed forms, its edge cases and its properties."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from labelnoise import Evidence
from labelnoise.rules.evidence import odds as odds_of
from labelnoise.rules.statistics import most_probable
from labelnoise.rules.verdict import Verdict

Batches = list[tuple[Tensor, Tensor]]
Table = np.ndarray[Any, np.dtype[np.float64]]


def random_batches(count: int, rows: int, classes: int, seed: int = 0) -> Batches:
    chance = torch.Generator().manual_seed(seed)
    found = []
    for number in range(count):
        logits = (1 + min(0.3 * number, 6)) * torch.randn(rows, classes, generator=chance)
        found.append((logits.softmax(dim=1), torch.randint(classes, (rows,), generator=chance)))
    return found


def see(evidence: Evidence, probs: Tensor, labels: Tensor) -> Verdict:
    verdict = evidence.judge(probs, labels)
    evidence.remember(probs, labels, verdict)
    return verdict


def after(batches: Batches, classes: int, samples: int = 0) -> Evidence:
    evidence = Evidence(classes, samples)
    for each in batches:
        see(evidence, *each)
    return evidence


# --- the slow reference: float64, one sample after the other, from a list of all that was seen ----


class Slow:
    """Remembers every sample, and the step in which it came."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.step = 0
        self.sure: list[tuple[int, int, int, list[float]]] = []  # step, predicted, given, probs
        self.taken: list[tuple[int, int, float]] = []  # step, predicted, largest probability
        self.rights: list[tuple[int, int, float, bool]] = []  # step, given, right, high
        # step, given, squared differences from the mean in its mini-batch, how many are free
        self.spread: list[tuple[int, int, float, int]] = []
        self.batches = 0
        self.waiting: list[tuple[Tensor, Tensor, list[float]]] = []

    def weight(self, step: int) -> float:
        return step * (step + 1) / (self.step * (self.step + 1))

    def transition(self) -> Table:
        votes = np.zeros((self.classes, self.classes))
        for step, predicted, label, _ in self.sure:
            votes[predicted, label] += self.weight(step)
        found = np.zeros_like(votes)
        for j in range(self.classes):
            stays = (votes[j, j] + self.classes) / (votes[j].sum() + self.classes)
            others = sum(votes[j, c] + 1 for c in range(self.classes) if c != j)
            for c in range(self.classes):
                found[j, c] = stays if c == j else (1 - stays) * (votes[j, c] + 1) / others
        return found

    def habits(self) -> Table:
        """Row j: mean probabilities where j is predicted, after so many perfect predictions."""
        total = self.classes * np.eye(self.classes)
        count = np.full((self.classes, 1), float(self.classes))
        for step, predicted, _, p in self.sure:
            total[predicted] += self.weight(step) * np.array(p)
            count[predicted] += self.weight(step)
        found: Table = total / count
        return found

    def believed(self) -> list[int]:
        """1 for a class that keeps more of its labels than it loses to any other one."""
        rows = enumerate(self.transition().tolist())
        return [int(row[j] > max(row[:j] + row[j + 1 :])) for j, row in rows]

    def standing(self, c: int) -> tuple[float, float, float]:
        own = [(self.weight(s), r, high) for s, label, r, high in self.rights if label == c]
        mean, resolved = 1.0, 0.0
        if own:
            mean = average([(w, r) for w, r, _ in own])
            groups = [(self.weight(s), each, n) for s, label, each, n in self.spread if label == c]
            free = sum(w * n for w, _, n in groups)
            most = mean * (1 - mean)
            if free > 0 and most > 1e-7:
                resolved = min(1, sum(w * each for w, each, _ in groups) / free / most)
        above = [(w, r) for w, r, high in own if high] or [(1.0, 1.0)]
        below = [(w, r) for w, r, high in own if not high] or [(1.0, 0.0)]
        return mean, resolved, (average(above) + average(below)) / 2

    def see(self, probs: Tensor, labels: Tensor) -> tuple[list[float], list[float]]:
        transition, habits = self.transition(), self.habits()
        standings = [self.standing(c) for c in range(self.classes)]
        believed = self.believed()
        rights, weights = [], []
        for q, y in zip(probs.double().tolist(), labels.tolist(), strict=True):
            resolved = standings[y][1] * believed[y]
            others = [(q[j], j) for j in range(self.classes) if j != y]
            leak = resolved * average([(s, habits[j, y] * believed[j]) for s, j in others])
            strays = average([(s, transition[j, y] * believed[j]) for s, j in others])
            own = 1 - resolved + resolved * habits[y, y]
            p = min(max((q[y] - leak) / (own - leak), 0), 1) if own > leak else q[y]
            right = p * transition[y, y] / (p * transition[y, y] + (1 - p) * strays)
            rights.append(right)
        for right, y in zip(rights, labels.tolist(), strict=True):
            mean, resolved, cut = standings[y]
            resolved *= believed[y]
            alike = [r for r, c in zip(rights, labels.tolist(), strict=True) if c == y]
            now = (sum(alike) + mean) / (len(alike) + 1)
            hard = 1.0 if right >= cut else 0.0
            weights.append(resolved * hard + (1 - resolved) * right / now ** (1 - resolved))
        self.waiting.append((probs, labels, rights))
        self.batches += 1
        if len(self.waiting) >= min(math.ceil(self.batches / 32), 32):
            self.add_up(standings)
        return rights, weights

    def add_up(self, standings: list[tuple[float, float, float]]) -> None:
        bars = [self.bar(c) for c in range(self.classes)]
        step = self.step + len(self.waiting)  # all of them count like the last
        for probs, labels, rights in self.waiting:
            for q, y, right in zip(probs.double().tolist(), labels.tolist(), rights, strict=True):
                predicted = int(np.argmax(q))
                if q[predicted] >= bars[predicted]:
                    self.sure.append((step, predicted, y, q))
                self.taken.append((step, predicted, q[predicted]))
                self.rights.append((step, y, right, right >= standings[y][0]))
        for _, labels, rights in self.waiting:
            for c in range(self.classes):
                alike = [r for r, y in zip(rights, labels.tolist(), strict=True) if y == c]
                if alike:
                    squares = [(r - sum(alike) / len(alike)) ** 2 for r in alike]
                    self.spread.append((step, c, sum(squares), len(alike) - 1))
        self.step, self.waiting = step, []

    def bar(self, c: int) -> float:
        own = [(self.weight(s), largest) for s, predicted, largest in self.taken if predicted == c]
        return average(own) if own else 0.0


def average(pairs: list[tuple[float, float]]) -> float:
    """The mean of values under weights."""
    return sum(w * value for w, value in pairs) / sum(w for w, _ in pairs)


@pytest.mark.parametrize(("rows", "classes"), [(1, 2), (16, 2), (16, 3), (40, 10), (8, 30)])
def test_weights_equal_those_of_the_slow_reference(rows: int, classes: int) -> None:
    evidence, slow = Evidence(classes), Slow(classes)
    for probs, labels in random_batches(70, rows, classes, seed=rows + classes):
        rights, weights = slow.see(probs, labels)
        verdict = see(evidence, probs, labels)
        assert verdict.score.tolist() == pytest.approx(rights, rel=1e-3, abs=1e-6)
        assert verdict.weight.tolist() == pytest.approx(weights, rel=1e-3, abs=1e-4)
        assert np.allclose(evidence.transition().numpy(), slow.transition(), atol=1e-5)


# --- closed forms ---------------------------------------------------------------------------------


def confident(truth: Tensor, classes: int) -> Tensor:
    return functional.one_hot(truth, classes).float()


def flipped(truth: Tensor, rate: float, classes: int, seed: int = 0) -> Tensor:
    chance = torch.Generator().manual_seed(seed)
    wrong = torch.rand(len(truth), generator=chance) < rate
    step = torch.randint(1, classes, truth.shape, generator=chance)
    return torch.where(wrong, (truth + step) % classes, truth)


def test_without_evidence_all_labels_count_alike() -> None:
    probs, labels = random_batches(1, 50, 4)[0]
    verdict = Evidence(4).judge(probs, labels)
    assert verdict.weight.tolist() == pytest.approx(verdict.score.tolist())  # mean 1, no resolution
    assert verdict.score.min() > 0.9  # a label is trusted until something speaks against it


def test_a_network_that_knows_nothing_trains_on_all_labels() -> None:
    """Equal probabilities: nothing to resolve, and every weight is 1."""
    probs = torch.full((40, 4), 0.25)
    evidence = after([(probs, torch.arange(40) % 4)] * 20, 4)
    assert evidence.standing().resolution.tolist() == pytest.approx([0.0] * 4, abs=0.02)
    weight = evidence.judge(probs, torch.arange(40) % 4).weight
    assert weight.tolist() == pytest.approx([1.0] * 40, abs=0.05)


@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_a_network_that_is_sure_trains_on_right_labels_alone(classes: int, rate: float) -> None:
    """Two classes too, where mean plus deviation tends to 1 and keeps nothing."""
    truth = torch.arange(4000) % classes
    labels = flipped(truth, rate, classes)
    batches = [(confident(truth, classes), labels)] * 30  # in the first one nothing is known
    evidence = after(batches, classes)
    verdict = evidence.judge(*batches[0])
    assert verdict.weight.tolist() == pytest.approx((truth == labels).double().tolist(), abs=1e-3)
    assert float(evidence.noise_rate()) == pytest.approx(
        float((truth != labels).double().mean()), abs=1e-3
    )


def test_a_class_that_dominates_the_batch_is_kept() -> None:
    truth = (torch.arange(1000) % 10 == 0).long()
    labels = flipped(truth, 0.2, 2)
    evidence = after([(confident(truth, 2), labels)] * 10, 2)
    assert evidence.judge(confident(truth, 2), labels).keep.equal(truth == labels)


def test_the_votes_of_a_sure_network_are_the_transition_matrix() -> None:
    transition = torch.tensor([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.1, 0.2, 0.7]])
    truth = torch.arange(3000) % 3
    chance = torch.Generator().manual_seed(0)
    batches = [
        (confident(truth, 3), torch.multinomial(transition[truth], 1, generator=chance).squeeze(1))
        for _ in range(10)
    ]
    found = after(batches, 3).transition()
    assert torch.allclose(found, transition, atol=0.02)
    assert torch.allclose(found.sum(dim=1), torch.ones(3), atol=1e-5)


def test_the_right_label_of_a_known_confusion_is_doubted_the_wrong_one_is_not() -> None:
    """Label 1 is often given to class 0: where the network wavers, it speaks for 0, label 0 too."""
    truth = torch.arange(2000) % 2
    labels = torch.where((truth == 0) & (torch.arange(2000) % 5 < 2), torch.ones_like(truth), truth)
    evidence = after([(confident(truth, 2), labels)] * 10, 2)
    wavering = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    zero, one = evidence.right(wavering, torch.tensor([0, 1])).tolist()
    assert zero > 0.95
    assert one == pytest.approx(0.5 / (0.5 + 0.5 * 0.4), abs=0.02)


def test_a_class_that_would_lose_more_labels_than_it_keeps_is_not_believed() -> None:
    """The network takes every fifth sample for a 1; hardly one of them is labelled so."""
    seen = (torch.arange(1000) % 5 == 0).long()
    labels = torch.where(torch.arange(1000) % 15 == 0, seen, 1 - seen)
    labels[seen == 0] = 0
    evidence = after([(confident(seen, 2), labels)] * 20, 2)
    assert evidence.transition()[1].tolist() == pytest.approx([2 / 3, 1 / 3], abs=0.01)
    verdict = evidence.judge(confident(seen, 2), labels)
    assert verdict.weight[labels == 0].tolist() == pytest.approx([1.0] * 933, abs=0.01)
    assert float(evidence.standing().resolution[1]) == 0
    assert float(verdict.weight[labels == 1].sum()) == pytest.approx(67, rel=0.05)  # none was cut


def test_a_network_that_takes_to_a_class_for_a_while_moves_no_class_as_a_whole() -> None:
    """Classes 0 and 1 share half of their labels, and for one mini-batch all looks like 0."""
    truth = torch.arange(400) % 2
    labels = torch.arange(400) // 2 % 2
    tied = 0.4 + 0.2 * confident(truth, 2)
    evidence = after([(tied, labels)] * 100, 2)
    swung = tied + torch.tensor([0.2, -0.2])
    verdict = evidence.judge(swung, labels)
    of_zero, of_one = (verdict.weight[labels == c].mean() for c in (0, 1))
    scores = [float(verdict.score[labels == c].mean()) for c in (0, 1)]
    assert scores[0] - scores[1] > 0.3  # labels 0 look much better than labels 1
    assert (
        abs(float(of_zero - of_one)) < 0.1
    )  # and count hardly more: against the running mean by 0.8


def test_a_class_that_moves_as_a_whole_resolves_nothing() -> None:
    """Ten mini-batches for it, ten against it, also where many of them are added together."""
    labels = torch.arange(64) % 2
    evidence = Evidence(2)
    for step in range(1500):
        swing = 0.3 if step // 10 % 2 else -0.3
        verdict = see(evidence, torch.tensor([0.5 + swing, 0.5 - swing]).expand(64, 2), labels)
    assert evidence.standing().resolution.max() < 1e-3
    assert verdict.weight.tolist() == pytest.approx([1.0] * 64, abs=0.05)


def test_of_a_nearly_clean_class_nearly_all_is_kept() -> None:
    """What is missing to 1 is small, and must not drown in the sums."""
    labels = torch.zeros(512, dtype=torch.long)
    rights = torch.where(torch.arange(512) == 0, 1 - 1e-3, 1 - 1e-6)
    evidence = Evidence(2)
    for _ in range(2000):
        evidence.remember(
            torch.full((512, 2), 0.5), labels, Verdict(rights, rights > 0, rights, {})
        )
    missing = float((1 - rights.double()).mean())
    assert float(evidence.noise_rate()) == pytest.approx(missing, rel=0.01)
    assert 1 - 1e-3 < float(evidence.standing().cut[0]) < 1 - 1e-6


def test_what_the_network_gives_every_label_speaks_for_none() -> None:
    """Each class has 0.9 where it is seen, 0.1 elsewhere: to a sure rule that is 1 and 0."""
    truth = torch.arange(1000) % 2
    labels = flipped(truth, 0.3, 2)
    probs = 0.1 + 0.8 * confident(truth, 2)
    evidence = after([(probs, labels)] * 300, 2)
    assert evidence.standing().resolution.min() > 0.9
    right = evidence.right(probs, labels)
    assert right[truth == labels].min() > 0.99
    assert right[truth != labels].max() < 0.1  # by Bayes' rule alone 0.1 * 0.7 / (0.1 * 0.7 + 0.27)


def test_the_cut_lies_halfway_between_what_looks_right_and_what_looks_wrong() -> None:
    """Where the network has learned wrong labels by half, they still look worse than right ones."""
    labels = torch.zeros(100, dtype=torch.long)
    rights = torch.where(torch.arange(100) < 60, 0.95, 0.65)
    evidence = Evidence(2)
    for _ in range(200):
        evidence.remember(
            torch.full((100, 2), 0.5), labels, Verdict(rights, rights > 0, rights, {})
        )
    assert float(evidence.standing().cut[0]) == pytest.approx(0.8, abs=1e-3)
    assert float(evidence.standing().cut[1]) == 0.5


def test_what_was_long_ago_counts_less() -> None:
    truth = torch.arange(300) % 3
    wrong, right = (confident(truth, 3), (truth + 1) % 3), (confident(truth, 3), truth)
    assert after([wrong] * 16 + [right] * 16, 3).transition().diagonal().min() > 0.8
    assert after([right] * 16 + [wrong] * 16, 3).transition().diagonal().max() < 0.2


def test_the_first_pass_counts_all_and_teaches() -> None:
    batches = random_batches(6, 20, 3)
    patient, eager = Evidence(3, samples=80), Evidence(3)
    for number, each in enumerate(batches):
        weight = see(patient, *each).weight
        expected = see(eager, *each).weight
        assert weight.tolist() == ([1.0] * 20 if number < 4 else expected.tolist())


# --- edge cases -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_probabilities_of_exactly_0_and_1(dtype: torch.dtype) -> None:
    truth = torch.arange(40) % 4
    evidence = Evidence(4)
    for _ in range(5):
        verdict = see(evidence, confident(truth, 4).to(dtype), (truth + (truth == 0)) % 4)
        for values in (verdict.score, verdict.weight, evidence.transition()):
            assert values.isfinite().all()
            assert values.min() >= 0
        assert verdict.score.dtype == torch.float32


def test_a_class_that_was_never_given_or_predicted() -> None:
    probs, labels = random_batches(1, 30, 3)[0]
    wide = functional.pad(probs, (0, 2))
    evidence = after([(wide, labels)] * 5, 5)
    mean, resolved, cut = evidence.standing()
    assert mean[3:].tolist() == [1.0, 1.0]
    assert resolved[3:].tolist() == [0.0, 0.0]
    assert cut[3:].tolist() == [0.5, 0.5]
    new = evidence.judge(torch.eye(5), torch.arange(5))
    assert new.weight.isfinite().all()
    assert new.weight[3:].tolist() == pytest.approx([1.0, 1.0], abs=1e-3)


def test_a_batch_of_one_and_an_empty_batch() -> None:
    evidence = Evidence(3)
    for rows in (0, 1, 0, 1, 1):
        probs, labels = random_batches(1, rows, 3, seed=rows)[0]
        verdict = see(evidence, probs, labels)
        assert verdict.weight.shape == (rows,)
        assert verdict.weight.isfinite().all()
    assert evidence.transition().isfinite().all()
    assert 0 <= float(evidence.noise_rate()) <= 1


def test_nothing_is_known_of_the_noise_before_the_first_batch() -> None:
    assert float(Evidence(3).noise_rate()) == 0
    assert Evidence(3).transition().equal(torch.eye(3))


def test_judging_remembers_nothing_and_leaves_its_input_alone() -> None:
    evidence = after(random_batches(3, 20, 3), 3)
    before = copy.deepcopy(evidence.state_dict())
    probs, labels = random_batches(1, 20, 3, seed=9)[0]
    copies = probs.clone(), labels.clone()
    evidence.judge(probs.requires_grad_(), labels)
    for name, value in evidence.state_dict().items():
        if isinstance(value, Tensor):
            assert value.equal(before[name]), name
    assert len(evidence.get_extra_state()["waiting"]) == len(before["_extra_state"]["waiting"])
    assert probs.detach().equal(copies[0])
    assert labels.equal(copies[1])


def test_no_graph_leaks_into_the_evidence() -> None:
    probs, labels = random_batches(1, 20, 3)[0]
    evidence = Evidence(3)
    verdict = see(evidence, probs.requires_grad_(), labels)
    assert not verdict.weight.requires_grad
    assert not any(buffer.requires_grad for buffer in evidence.buffers())


def test_long_histories_stay_precise() -> None:
    """The weight of a step grows with its square; the sums must not lose what is new."""
    truth = torch.arange(32) % 2
    labels = flipped(truth, 0.25, 2, seed=1)
    evidence = after([(confident(truth, 2), labels)] * 3000, 2)
    assert float(evidence.noise_rate()) == pytest.approx(
        float((truth != labels).double().mean()), abs=1e-3
    )
    late = after([(confident(truth, 2), labels)] * 3, 2)
    late.steps += 200_000
    for _ in range(50):
        see(late, confident(truth, 2), labels)
    assert float(late.noise_rate()) == pytest.approx(
        float((truth != labels).double().mean()), abs=1e-3
    )


def test_a_weight_that_cannot_be_seen_next_to_1_is_0() -> None:
    truth = torch.arange(1000) % 4
    labels = flipped(truth, 0.3, 4)
    evidence = after([(confident(truth, 4), labels)] * 30, 4)
    verdict = evidence.judge(confident(truth, 4), labels)
    assert (verdict.weight > 0).equal(truth == labels)
    assert verdict.score[truth != labels].max() < torch.finfo(torch.float32).eps
    none = evidence.judge(confident(truth, 4), (truth + 1) % 4)  # not one label that looks right
    assert none.weight.tolist() == [0.0] * 1000


@pytest.mark.parametrize("classes", [10, 40, 300])
def test_what_is_judged_and_taken_in_by_pieces_is_what_it_is_at_once(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle too, with a state that was put away and taken out again."""
    batches = random_batches(60, 50, classes) + random_batches(3, 7, classes)
    whole = after(batches, classes)
    monkeypatch.setattr("labelnoise.rules.statistics.CHUNK", 6 * classes)
    monkeypatch.setattr("labelnoise.rules.evidence.LARGE", 10 * classes)
    pieces = after(batches[:61], classes)
    restored = Evidence(classes)
    restored.load_state_dict(copy.deepcopy(pieces.state_dict()))
    for each in batches[61:]:
        assert see(restored, *each).weight.equal(see(pieces, *each).weight)
    for name, found in pieces.sums()._asdict().items():
        assert torch.allclose(found, getattr(whole, name), rtol=1e-4, atol=1e-5), name
        assert found.equal(getattr(restored, name))
    assert torch.allclose(
        pieces.judge(*batches[0]).weight, whole.judge(*batches[0]).weight, rtol=1e-3, atol=1e-6
    )


@pytest.mark.parametrize("classes", [3, 100, 256, 300, 1000])
def test_the_largest_probability_is_that_of_the_first_class_that_has_it(classes: int) -> None:
    probs = torch.rand(200, classes, generator=torch.Generator().manual_seed(0))
    probs[:100] = (probs[:100] * 3).round()  # many are equal
    largest, predicted = most_probable(probs)
    assert largest.equal(probs.amax(dim=1))
    assert predicted.tolist() == [row.index(max(row)) for row in probs.tolist()]


# --- odds -----------------------------------------------------------------------------------------


def slow_odds(evidence: Evidence, q: list[float], y: int) -> tuple[float, int, float]:
    """From the transition matrix: half of what strays goes where it was voted, half everywhere."""
    transition = evidence.transition().double().tolist()
    classes = len(q)
    instead = [0.0] * classes
    for j in range(classes):
        others = [transition[j][c] for c in range(classes) if c != j]
        if j != y and transition[j][j] > max(others):  # else it is not believed
            even = (1 - transition[j][j]) / (classes - 1)
            instead[j] = q[j] * (transition[j][y] + even) / 2
    right, wrong = q[y] * transition[y][y], sum(instead)
    other = max(range(classes), key=lambda j: instead[j])
    bound = -math.log(torch.finfo(torch.float32).eps)
    if wrong == 0:  # no other class is believed
        return bound, 0, 0.0
    return min(max(math.log(right / wrong), -bound), bound), other, instead[other] / wrong


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_odds_equal_those_of_a_loop(classes: int) -> None:
    batches = random_batches(40, 30, classes, seed=classes)
    evidence = Evidence(classes)
    for probs, labels in batches:
        see(evidence, probs, labels)
        found = odds_of(evidence.doubts(), probs, labels)
        for place, (q, y) in enumerate(zip(probs.double().tolist(), labels.tolist(), strict=True)):
            odds, other, share = slow_odds(evidence, q, y)
            assert float(found[0][place]) == pytest.approx(odds, abs=2e-3)
            assert int(found[1][place]) == other
            assert float(found[2][place]) == pytest.approx(share, rel=1e-3)


def test_odds_of_a_known_matrix() -> None:
    """A fifth of each of two classes strays: odds are 4 times those of the network."""
    truth = torch.arange(5000) % 2
    labels = torch.where(torch.arange(5000) // 2 % 5 == 0, 1 - truth, truth)
    evidence = after([(confident(truth, 2), labels)] * 20, 2)
    probs = torch.tensor([[0.2, 0.8], [0.5, 0.5], [0.1, 0.9]])
    odds, other, share = odds_of(evidence.doubts(), probs, torch.tensor([0, 0, 1]))
    expected = [math.log(4 / 4), math.log(4), math.log(4 * 9)]
    assert odds.tolist() == pytest.approx(expected, abs=0.01)
    assert other.tolist() == [1, 1, 0]
    assert share.tolist() == pytest.approx([1.0] * 3)


def test_odds_of_probabilities_of_0_and_1_are_finite() -> None:
    truth = torch.arange(40) % 4
    evidence = after([(confident(truth, 4), flipped(truth, 0.2, 4))] * 5, 4)
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        right, *_ = odds_of(evidence.doubts(), confident(truth, 4).to(dtype), truth)
        wrong, other, share = odds_of(
            evidence.doubts(), confident(truth, 4).to(dtype), (truth + 1) % 4
        )
        bound = -math.log(torch.finfo(torch.float32).eps)
        assert right.tolist() == pytest.approx([bound] * 40)
        assert wrong.tolist() == pytest.approx([-bound] * 40)
        assert other.equal(truth)
        assert share.tolist() == pytest.approx([1.0] * 40)


def test_a_class_that_is_not_believed_is_never_what_a_label_should_be() -> None:
    seen = (torch.arange(1000) % 5 == 0).long()
    labels = torch.where(torch.arange(1000) % 15 == 0, seen, 1 - seen)
    labels[seen == 0] = 0
    evidence = after([(confident(seen, 2), labels)] * 20, 2)
    odds, _, share = odds_of(evidence.doubts(), torch.tensor([[0.1, 0.9]]), torch.tensor([0]))
    assert float(odds) > 10
    assert float(share) == 0


# --- properties -----------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, Batches]:
    """A few batches of small fractions: full of ties, zeros, ones and absent classes."""
    classes = draw(st.integers(2, 4))
    found = []
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.integers(1, 6))
        parts = st.lists(st.integers(0, 6), min_size=classes, max_size=classes).filter(any)
        table = torch.tensor(draw(st.lists(parts, min_size=rows, max_size=rows))).float()
        labels = draw(st.lists(st.integers(0, classes - 1), min_size=rows, max_size=rows))
        found.append((table / table.sum(dim=1, keepdim=True), torch.tensor(labels)))
    return classes, found


@settings(deadline=None)
@given(histories())
def test_scores_are_probabilities_and_weights_are_not_negative(
    history: tuple[int, Batches],
) -> None:
    classes, batches = history
    evidence = Evidence(classes)
    for each in batches:
        verdict = see(evidence, *each)
        assert ((verdict.score >= 0) & (verdict.score <= 1)).all()
        assert verdict.weight.isfinite().all()
        assert verdict.weight.min() >= 0
    transition = evidence.transition()
    assert torch.allclose(transition.sum(dim=1), torch.ones(classes), atol=1e-5)
    assert transition.min() >= 0


@settings(deadline=None)
@given(histories(), st.randoms(use_true_random=False))
def test_the_order_within_a_batch_changes_nothing(
    history: tuple[int, Batches], chance: Any
) -> None:
    classes, batches = history
    plain, moved = Evidence(classes), Evidence(classes)
    for probs, labels in batches:
        order = list(range(len(labels)))
        chance.shuffle(order)
        expected = see(plain, probs, labels).weight[order]
        assert torch.allclose(see(moved, probs[order], labels[order]).weight, expected, atol=1e-4)


def test_renaming_the_classes_changes_nothing() -> None:
    batches = random_batches(8, 40, 5)  # no ties, which the first class would win
    old_of_new = torch.tensor([3, 0, 4, 1, 2])
    plain, renamed = Evidence(5), Evidence(5)
    for probs, labels in batches:
        expected = see(plain, probs, labels).weight
        found = see(renamed, probs[:, old_of_new], old_of_new.argsort()[labels]).weight
        assert torch.allclose(found, expected, atol=1e-4)

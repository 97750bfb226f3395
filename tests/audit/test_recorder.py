"""Recorder against a list of all visits, its edge cases and its doors."""

from __future__ import annotations

import io
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from labelnoise import BARELoss, Evidence, Findings, LabelNoiseError, Recorder
from labelnoise.audit.recorder import LARGE
from labelnoise.rules.evidence import odds as odds_of

Steps = list[tuple[Any, Any, Any]]
CLASSES = 3
NAMES: dict[str, Callable[[int], Hashable]] = {
    "numbers": lambda row: row,
    "sparse": lambda row: 10**12 + 977 * row,
    "strings": lambda row: f"folder/{row}.png",
    "tuples": lambda row: ("part", row),
}


def steps(count: int, rows: int = 12, *, samples: int = 30, seed: int = 0) -> Steps:
    """Predictions that get surer; a sixth of the labels is wrong, rows may come twice in a step."""
    chance = torch.Generator().manual_seed(seed)
    truth = torch.randint(CLASSES, (samples,), generator=chance)
    labels = torch.where(torch.arange(samples) % 6 == 0, (truth + 1) % CLASSES, truth)
    found: Steps = []
    for number in range(count):
        index = torch.randint(samples, (rows,), generator=chance)
        noise = torch.randn(rows, CLASSES, generator=chance)
        logits = noise + min(number / 4, 4) * functional.one_hot(truth[index], CLASSES)
        found.append((logits, labels[index], index.tolist()))
    return found


def recorded(given_steps: Steps, recorder: Recorder | None = None) -> Recorder:
    recorder = Recorder() if recorder is None else recorder
    for each in given_steps:
        recorder.update(*each)
    return recorder


def same(one: Findings, other: Findings) -> None:
    assert one.classes == other.classes
    assert one.ids == other.ids
    for name in ("given", "quality", "predicted", "confidence", "selected", "issue", "transition"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert (one.noise_rate, one.interval) == (other.noise_rate, other.interval)


# --- the slow reference: every visit in a list, judged one sample at a time -----------------------


class Slow:
    """Visits by id: (label, odds, other, share, kept)."""

    def __init__(self) -> None:
        self.rule = Evidence(CLASSES)
        self.visits: dict[Any, list[tuple[int, float, int, float, bool]]] = {}

    def see(self, logits: Tensor, labels: Tensor, ids: list[Any]) -> None:
        raised = np.exp(logits.double().numpy())
        probs = torch.tensor(raised / raised.sum(axis=1, keepdims=True)).float()
        verdict = self.rule.judge(probs, labels)
        self.rule.remember(probs, labels, verdict)
        for place, name in enumerate(ids):
            row = slice(place, place + 1)
            odds, other, share = (
                float(x) for x in odds_of(self.rule.doubts(), probs[row], labels[row])
            )
            visit = (int(labels[place]), odds, int(other), share, bool(verdict.keep[place]))
            self.visits.setdefault(name, []).append(visit)

    def quality(self, name: Any) -> float:
        parts = [n * visit[1] for n, visit in enumerate(self.visits[name], start=1)]
        mean = sum(parts) / sum(range(1, len(parts) + 1))
        kept = self.selected(name) * len(parts)
        taken = (kept + 1) / (len(parts) - kept + 1)
        return float(1 / (1 + np.exp(-mean) / taken))

    def selected(self, name: Any) -> float:
        kept = [n * visit[4] for n, visit in enumerate(self.visits[name], start=1)]
        return sum(kept) / sum(range(1, len(kept) + 1))

    def winner(self, name: Any) -> tuple[int, float]:
        """Who is left when votes for different classes take each other off, and what it got."""
        leads, credit, support = 0, 0.0, 0.0
        for n, (_, _, other, share, _) in enumerate(self.visits[name], start=1):
            credit += n * share if other == leads else -n * share
            support += n * share if other == leads else 0
            if credit < 0:
                leads, credit, support = other, -credit, n * share
        return leads, support / sum(range(1, len(self.visits[name]) + 1))


@pytest.mark.parametrize(
    ("name_of", "samples"), [(NAMES["numbers"], 30), *((each, None) for each in NAMES.values())]
)
def test_findings_equal_those_of_the_slow_reference(
    name_of: Callable[[int], Hashable], samples: int | None
) -> None:
    slow, recorder = Slow(), Recorder(samples)
    for logits, labels, index in steps(70):
        names = [name_of(row) for row in index]
        slow.see(logits, labels, names)
        recorder.update(logits, labels, names)
    found = recorder.issues()
    order = list(slow.visits) if samples is None else sorted(slow.visits)
    assert found.ids == tuple(map(str, order))
    for place, name in enumerate(order):
        quality, (other, share) = slow.quality(name), slow.winner(name)
        assert found.quality[place] == pytest.approx(quality, abs=1e-4)
        assert found.given[place] == slow.visits[name][-1][0]
        assert found.selected[place] == pytest.approx(slow.selected(name), abs=1e-6)
        if found.issue[place]:
            assert found.predicted[place] == other
            assert found.confidence[place] == pytest.approx((1 - quality) * share, abs=1e-4)
        else:
            assert found.predicted[place] == found.given[place]
            assert found.confidence[place] == pytest.approx(quality, abs=1e-4)
    assert found.issue.any()
    assert not found.issue.all()


def test_how_long_steps_wait_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for large in (LARGE, 0):  # all of them wait for others, none of them does
        monkeypatch.setattr("labelnoise.audit.recorder.LARGE", large)
        recorder = Recorder()
        for step in steps(70):
            recorder.update(*step)
            assert large > 0 or not recorder._waiting
        found.append(recorder.issues())
    one, other = found
    assert np.allclose(one.quality, other.quality, atol=1e-6)
    assert (one.predicted == other.predicted).all()


def test_wrong_labels_are_found_and_what_they_should_be() -> None:
    chance = torch.Generator().manual_seed(1)
    truth = torch.arange(200) % CLASSES
    labels = torch.where(torch.arange(200) % 5 == 0, (truth + 1) % CLASSES, truth)
    recorder = Recorder(200, classes=["cat", "dog", "fox"])
    for epoch in range(12):
        for index in torch.split(torch.randperm(200, generator=chance), 25):
            sure = min(epoch, 6) * functional.one_hot(truth[index], CLASSES)
            noise = torch.randn(len(index), CLASSES, generator=chance)
            recorder.update(sure + noise, labels[index], index)
    found = recorder.issues()
    assert np.array_equal(found.issue, (truth != labels).numpy())
    assert np.array_equal(found.predicted, truth.numpy())
    assert found.noise_rate == pytest.approx(0.2, abs=0.03)
    assert found.interval[0] < 0.2 < found.interval[1]
    assert np.allclose(found.transition, np.eye(3) * 0.8 + np.eye(3)[[1, 2, 0]] * 0.2, atol=0.05)
    first = next(found.rows())
    assert first["is_label_issue"]
    assert first["predicted_label"] in {"cat", "dog", "fox"}


def test_one_visit_with_numbers() -> None:
    """Two classes, nothing known: half of 1 - stays = 0, so that nothing speaks against a label."""
    recorder = Recorder(2)
    recorder.update(torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]), [0, 1])
    # The first step votes: both samples are predicted 0 (a tie goes to the first class); surer than
    # no prediction before, both are sure. Class 0 has 2 + 1 of 2 + 2 votes: stays 3/4, strays 1/4,
    # which is all there is to 1. Class 1 has no vote: it stays for sure, so label 0 is not doubted.
    found = recorder.issues()
    p = 1 / (1 + np.exp(2.0))
    assert found.quality[0] == pytest.approx(1, abs=1e-6)
    # The first step keeps all, which is 2:1 for the label.
    assert found.quality[1] == pytest.approx(2 * p / (2 * p + (1 - p) / 4), abs=1e-6)
    assert found.selected.tolist() == [1.0, 1.0]
    assert found.issue.tolist() == [False, False]
    assert found.predicted.tolist() == [0, 1]


# --- what it takes --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_logits_of_any_precision(dtype: torch.dtype) -> None:
    rough = [(logits.to(dtype), labels, ids) for logits, labels, ids in steps(30)]
    exact = [(logits.double(), labels, ids) for logits, labels, ids in rough]
    one, other = recorded(rough).issues(), recorded(exact).issues()
    assert np.allclose(one.quality, other.quality, atol=1e-4)
    assert np.array_equal(one.issue, other.issue)


def test_arrays_lists_and_tensors_are_alike() -> None:
    given_steps = steps(20)
    expected = recorded(given_steps).issues()
    kinds: list[Callable[[Tensor], Any]] = [lambda t: t.numpy(), lambda t: t.tolist(), _frozen]
    for kind in kinds:
        turned = [(kind(logits), kind(labels), ids) for logits, labels, ids in given_steps]
        same(recorded(turned).issues(), expected)
    for ids_as in (torch.tensor, np.array, tuple, lambda ids: list(np.array(ids))):
        turned = [(logits, labels, ids_as(ids)) for logits, labels, ids in given_steps]
        same(recorded(turned).issues(), expected)


def _frozen(values: Tensor) -> Any:
    array = values.numpy().copy()
    array.flags.writeable = False
    return array


def test_logits_with_a_gradient_and_labels_of_any_integer_type() -> None:
    given_steps = steps(20)
    turned = [
        (logits.clone().requires_grad_(), labels.to(torch.uint8), ids)
        for logits, labels, ids in given_steps
    ]
    same(recorded(turned).issues(), recorded(given_steps).issues())


def test_a_sample_twice_in_a_step_is_two_visits_in_their_order() -> None:
    """The evidence is that of the whole step; the visits count as if they had come in turn."""
    logits = torch.tensor([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0], [3.0, 0.0, 0.0]])
    labels = torch.tensor([0, 1, 2, 0])
    twice = recorded([*steps(20), (logits, labels, ["a", "a", "b", "a"])]).issues()
    apart = recorded([*steps(20), (logits, labels, ["a0", "a1", "b", "a2"])]).issues()

    def odds(found: Findings, name: str) -> float:
        """Of Bayes' rule: all were kept, which is 2:1 after one visit and 4:1 after three."""
        place = found.ids.index(name)
        assert found.selected[place] == 1
        visits = 3 if name == "a" else 1
        quality = found.quality[place]
        return float(np.log(quality / (1 - quality)) - np.log(visits + 1))

    in_turn = (odds(apart, "a0") + 2 * odds(apart, "a1") + 3 * odds(apart, "a2")) / 6
    assert odds(twice, "a") == pytest.approx(in_turn, rel=1e-5)
    assert twice.given[twice.ids.index("a")] == 0


def test_the_record_grows_with_what_comes() -> None:
    """Room for 1,024 at first, and doubled; 5,000 samples in steps of 700."""
    recorder, plain = Recorder(), Recorder(5000)
    chance = torch.Generator().manual_seed(0)
    for _ in range(2):
        for index in torch.split(torch.arange(5000), 700):
            logits = torch.randn(len(index), CLASSES, generator=chance)
            for each in (recorder, plain):
                each.update(logits, index % CLASSES, index)
    same(recorder.issues(), plain.issues())
    assert len(recorder._samples["seen"]) == 8192


def test_only_what_was_seen_is_reported() -> None:
    recorder = Recorder(100)
    recorder.update(torch.randn(2, 4), torch.tensor([0, 3]), [7, 93])
    assert recorder.issues().ids == ("7", "93")
    assert recorder.issues().classes == ("0", "1", "2", "3")


def test_an_empty_step_changes_nothing() -> None:
    given_steps = steps(20)
    empty: Any = (torch.zeros(0, CLASSES), torch.zeros(0, dtype=torch.long), [])
    assert recorded([*given_steps, empty]).issues().ids == recorded(given_steps).issues().ids


def test_what_the_loop_changes_afterwards_does_not_reach_the_record() -> None:
    given_steps = steps(80)
    buffers = [torch.empty_like(part) for part in given_steps[0][:2]]
    recorder = Recorder()
    for logits, labels, ids in given_steps:
        recorder.update(buffers[0].copy_(logits), buffers[1].copy_(labels), ids)
    same(recorder.issues(), recorded(given_steps).issues())


def test_a_first_step_in_inference_mode() -> None:
    given_steps = steps(40)
    recorder = Recorder()
    with torch.inference_mode():
        recorded(given_steps[:1], recorder)
    same(recorded(given_steps[1:], recorder).issues(), recorded(given_steps).issues())


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=6), min_size=1, max_size=5))
def test_whatever_the_order_of_ids_what_is_found_are_probabilities(drawn: list[list[int]]) -> None:
    recorder = Recorder(classes=("a", "b", "c"))
    for number, ids in enumerate(drawn):
        chance = torch.Generator().manual_seed(number)
        logits = 4 * torch.randn(len(ids), CLASSES, generator=chance)
        recorder.update(logits, torch.tensor(ids) % CLASSES, ids)
    found = recorder.issues()
    every = [each for ids in drawn for each in ids]
    assert found.ids == tuple(map(str, dict.fromkeys(every)))
    assert recorder._samples["seen"].sum() == len(every)
    for values in (found.quality, found.confidence, found.selected, found.transition):
        assert ((values >= 0) & (values <= 1)).all()
    assert np.allclose(found.transition.sum(axis=1), 1)
    assert 0 <= found.interval[0] <= found.noise_rate <= found.interval[1] <= 1
    assert not found.issue[found.quality >= 0.5].any()
    assert (found.predicted[~found.issue] == found.given[~found.issue]).all()


# --- state ----------------------------------------------------------------------------------------


def stored(state: Any) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize(
    ("name", "cut"), [*((name, 41) for name in NAMES), ("numbers", 1), ("strings", 69)]
)
def test_a_record_that_was_stored_in_mid_run_goes_on(name: str, cut: int) -> None:
    given_steps = [(a, b, [NAMES[name](row) for row in ids]) for a, b, ids in steps(70)]
    state = stored(recorded(given_steps[:cut]).state_dict())
    fresh, used = Recorder(), recorded(steps(3, seed=5))
    for recorder in (fresh, used):
        recorder.load_state_dict(state)
        recorded(given_steps[cut:], recorder)
        same(recorder.issues(), recorded(given_steps).issues())


def watched(given_steps: Steps, criterion: BARELoss, recorder: Recorder | None) -> Recorder:
    """As in a loop of one's own that shares the evidence of its loss."""
    for logits, labels, ids in given_steps:
        criterion(logits.clone().requires_grad_(), labels)
        if recorder is None:
            assert isinstance(criterion.rule, Evidence)
            recorder = Recorder(rule=criterion.rule)
        recorder.update(logits, labels, ids)
    assert recorder is not None
    return recorder


def test_a_record_with_shared_evidence_goes_on() -> None:
    given_steps, cut = steps(70), 41
    expected = watched(given_steps, BARELoss(), None).issues()
    criterion = BARELoss()
    recorder = watched(given_steps[:cut], criterion, None)
    states = stored([criterion.state_dict(), recorder.state_dict()])
    assert "rule" not in states[1]
    again = BARELoss()
    again.load_state_dict(states[0])
    assert isinstance(again.rule, Evidence)
    restored = Recorder(rule=again.rule)
    restored.load_state_dict(states[1])
    same(watched(given_steps[cut:], again, restored).issues(), expected)
    assert restored.rule is again.rule


def test_shared_evidence_is_not_added_to() -> None:
    criterion, alone = BARELoss(), BARELoss()
    given_steps = steps(50)
    watched(given_steps, criterion, None)
    for logits, labels, _ in given_steps:
        alone(logits.clone().requires_grad_(), labels)
    one, other = criterion.state_dict(), alone.state_dict()
    for name in ("rule.votes", "rule.habits", "rule.taken", "rule.rights", "rule.seen"):
        assert one[name].equal(other[name])


def test_a_state_without_its_evidence_still_tells_what_was_found() -> None:
    recorder = watched(steps(40), BARELoss(), None)
    bare = Recorder()
    bare.load_state_dict(stored(recorder.state_dict()))
    same(bare.issues(), recorder.issues())


def test_a_state_with_evidence_leaves_shared_evidence_alone() -> None:
    rule = Evidence(CLASSES)
    recorder = Recorder(rule=rule)
    recorder.load_state_dict(recorded(steps(10)).state_dict())
    assert recorder.rule is rule


def test_a_state_tells_whether_ids_are_numbers_of_rows() -> None:
    numbered = recorded(steps(10), Recorder(30))
    named = Recorder()
    named.load_state_dict(stored(numbered.state_dict()))
    same(recorded(steps(10), named).issues(), recorded(steps(10), numbered).issues())


# --- doors ----------------------------------------------------------------------------------------

GOOD = (torch.zeros(2, 3), torch.tensor([0, 1]), [0, 1])


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({0: torch.zeros(2)}, r"logits must be a floating tensor of shape \(batch, classes\)"),
        ({0: torch.full((2, 3), torch.nan)}, "logits contain NaN"),
        ({0: "abc"}, "logits must be numbers, got str"),
        ({0: [[1.0, 2.0], [1.0]]}, "logits must be numbers, got list"),
        ({1: torch.tensor([0, 3])}, r"labels must lie in \[0, 3\), got 0 to 3"),
        ({1: torch.tensor([0])}, r"labels must have shape \(2,\)"),
        ({1: torch.tensor([0.0, 1.0])}, "labels must be integers"),
        ({1: ["cat", "dog"]}, "labels must be numbers, got list"),
        ({2: [0]}, "2 labels, but 1 sample ids"),
        ({2: 7}, r"sample ids must be \(batch,\) ids, got int"),
        ({2: torch.tensor(7)}, r"sample ids must be \(batch,\) ids, got Tensor"),
        ({2: None}, r"sample ids must be \(batch,\) ids, got NoneType"),
        ({2: torch.zeros(2, 2)}, r"got list: pass \(batch,\) ids"),
    ],
)
def test_wrong_input_is_refused_in_one_line(wrong: dict[int, Any], says: str) -> None:
    arguments = [wrong.get(place, good) for place, good in enumerate(GOOD)]
    recorder = Recorder()
    with pytest.raises(LabelNoiseError, match=says) as caught:
        recorder.update(*arguments)
    assert "\n" not in str(caught.value)
    recorder.update(*GOOD)
    assert recorder.issues().ids == ("0", "1")


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([0, 2], r"sample ids must lie in \[0, 2\), got 0 to 2"),
        ([-1, 0], r"got -1 to 0"),
        (["a", "b"], "whole numbers"),
        (torch.tensor([0.0, 1.0]), "whole numbers"),
        (torch.tensor([False, True]), "whole numbers"),
    ],
)
def test_ids_that_are_no_rows_are_refused(ids: Sequence[Any], says: str) -> None:
    with pytest.raises(LabelNoiseError, match=says):
        Recorder(2).update(*GOOD[:2], ids)


def test_other_numbers_of_classes_are_refused() -> None:
    with pytest.raises(LabelNoiseError, match="of 3 classes, the recorder has names for 2"):
        Recorder(classes=["a", "b"]).update(*GOOD)
    recorder = Recorder()
    recorder.update(*GOOD)
    with pytest.raises(LabelNoiseError, match="4 classes, but the evidence is about 3"):
        recorder.update(torch.zeros(2, 4), torch.tensor([0, 1]), [0, 1])


def test_nothing_recorded_is_an_error() -> None:
    for recorder in (Recorder(), Recorder(5), Recorder(rule=Evidence(3))):
        with pytest.raises(LabelNoiseError, match="nothing was recorded yet"):
            recorder.issues()
    with pytest.raises(LabelNoiseError, match="samples must be a number of rows, got -1"):
        Recorder(-1)

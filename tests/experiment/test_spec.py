"""What was asked for, expanded."""

from __future__ import annotations

from typing import Any

import pytest

from labelnoise.errors import LabelNoiseError
from labelnoise.experiment.spec import Spec, expand, presets
from labelnoise.methods.bare import BARE


def spec(**changed: Any) -> Spec:
    asked: dict[str, Any] = {
        "dataset": "mnist", "digest": "0", "method": "bare", "noise": "none", "net": "mlp",
        "preset": "paper",
    }  # fmt: skip
    return expand(**{**asked, **changed})


def test_paper_is_what_the_released_code_does() -> None:
    training = spec().training
    assert (training.epochs, training.batch_size) == (200, 128)
    assert (training.optimiser, training.lr, training.schedule) == ("adam", 2e-4, "plateau")
    assert (training.scale, training.augment) == ("raw", False)
    assert spec().method_instance() == BARE(threshold="batch")
    assert spec(dataset="cifar10").training == training


def test_as_printed_is_the_text_and_differs_on_cifar10() -> None:
    assert spec(preset="as-printed").method_instance() == BARE(threshold="class")
    mnist = spec(preset="as-printed").training
    cifar10 = spec(preset="as-printed", dataset="cifar10").training
    assert (mnist.lr, mnist.augment) == (2e-4, False)
    assert (cifar10.lr, cifar10.augment) == (2e-3, True)
    assert spec(preset="as-printed", dataset="cifar10:rows=1000").training == cifar10


def test_recommended_takes_at_most_fifty_epochs() -> None:
    assert spec(preset="recommended").training.epochs <= 50


@pytest.mark.parametrize("preset", presets())
def test_every_preset_explains_itself_and_trains_every_method(preset: str) -> None:
    assert presets()[preset]["explains"]
    assert spec(preset=preset, method="cce").settings == {}


def test_changes_reach_method_and_training() -> None:
    changed = spec(changes={"threshold": "class", "kappa": 2, "lr": 0.5, "epochs": 3})
    assert changed.method_instance() == BARE(threshold="class", kappa=2.0)
    assert (changed.training.lr, changed.training.epochs) == (0.5, 3)


def test_midpoint_may_be_set_in_every_preset() -> None:
    for preset in presets():
        changed = spec(preset=preset, changes={"threshold": "midpoint"})
        assert changed.method_instance() == BARE(threshold="midpoint")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"preset": "papr"}, "'paper'"),
        ({"changes": {"tresholds": "class"}}, "'threshold'"),
        ({"changes": {"threshold": "klass"}}, "'class'"),
        ({"changes": {"kappa": "high"}}, "kappa"),
        ({"changes": {"lr": 0}}, "lr"),
        ({"changes": {"lr": float("nan")}}, "lr"),
        ({"changes": {"batch_size": 1.5}}, "batch_size"),
        ({"changes": {"schedule": "cosin"}}, "schedule"),
        ({"changes": {"schedule": "steps"}}, "set milestones, such as [6, 11]"),
        ({"changes": {"milestones": [3]}}, "set schedule to 'steps'"),
        ({"changes": {"milestones": [0], "schedule": "steps"}}, "milestones"),
        ({"changes": {"crop": 0}}, "crop"),
        ({"trace": (0,)}, "between 1 and 200"),
        ({"trace": (201,)}, "between 1 and 200"),
        ({"seed": 1.5}, "seed"),
        ({"method": "cce", "changes": {"kappa": 1.0}}, "kappa"),
    ],
)
def test_what_is_wrong_is_named_on_one_line(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(LabelNoiseError) as error:
        spec(**changed)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_identity_changes_with_everything_that_matters() -> None:
    variants: list[dict[str, Any]] = [
        {},
        {"dataset": "digits"},
        {"digest": "1"},
        {"method": "cce"},
        {"noise": "symmetric:0.5"},
        {"net": "lenet"},
        {"preset": "recommended"},
        {"changes": {"kappa": 0.5}},
        {"changes": {"epochs": 3}},
        {"changes": {"crop": 24}},
        {"changes": {"weights": "a.pth"}},
        {"changes": {"schedule": "steps", "milestones": [3]}},
        {"changes": {"schedule": "steps", "milestones": [3, 4]}},
        {"changes": {"schedule": "steps", "milestones": [3], "decay": 0.5}},
        {"seed": 1},
        {"data_seed": 1},
        {"trace": (1,)},
    ]
    assert len({spec(**variant).identity() for variant in variants}) == len(variants)
    assert spec().identity() == spec().identity()


def test_order_of_traced_epochs_does_not_matter() -> None:
    assert spec(trace=(2, 1, 1)).identity() == spec(trace=(1, 2)).identity()


def test_nothing_is_left_to_a_default_that_might_change() -> None:
    assert spec().settings == {
        "threshold": "batch",
        "kappa": 1.0,
        "empty": "all",
        "backward": "auto",
    }


def test_identity_is_a_plain_directory_name() -> None:
    name = spec(dataset="../data/my set.npz", noise="matrix:/tmp/a b.csv").identity()
    assert "/" not in name
    assert " " not in name
    assert name.startswith("my_set-bare-")
    changed = spec(dataset="mnist:classes=9/rest,imbalance=2.5").identity()
    assert changed.startswith("mnist_classes_9_rest_imbalance_2.5-bare-")
    assert len(spec(dataset=f"mnist:classes={'/'.join(map(str, range(1000)))}").identity()) < 200


def test_spec_round_trips_through_json() -> None:
    asked = spec(changes={"kappa": 0.5}, trace=(1, 5))
    assert Spec.model_validate_json(asked.model_dump_json()) == asked


def test_runs_from_before_there_were_crops_and_weights_keep_their_names() -> None:
    """Found with the version before."""
    assert spec().identity() == "mnist-bare-none-seed0-b6cbd21734"
    assert spec(changes={"weights": "none", "crop": None}).identity() == spec().identity()


def test_milestones_in_any_order_are_one_run() -> None:
    one, other = (
        spec(changes={"schedule": "steps", "milestones": each}) for each in ([6, 11], (11, 6))
    )
    assert one == other
    assert one.training.recipe().milestones == (6, 11)


def test_a_network_sees_a_crop_of_images_that_are_large_enough() -> None:
    training = spec(changes={"crop": 24}).training
    assert training.sees((3, 32, 24)) == (3, 24, 24)
    assert spec().training.sees((7,)) == (7,)
    for shape in ((3, 32, 23), (64,)):
        with pytest.raises(LabelNoiseError, match="crop 24 needs images of at least 24x24"):
            training.sees(shape)

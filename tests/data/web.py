"""Small trees of real image files in the layouts of the large web data sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from .pictures import noise, save, truncated

CLOTHES = ("T-Shirt", "Shirt", "Dress")


def write(path: Path, lines: Sequence[str | bytes]) -> Path:
    """A text file; names of files may be any bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    encoded = [line if isinstance(line, bytes) else line.encode() for line in lines]
    path.write_bytes(b"".join(line + b"\n" for line in encoded))
    return path


def photo(path: Path, label: int, seed: int = 0, size: tuple[int, int] = (40, 30)) -> Path:
    """A JPEG that shows its label: one of three colours prevails."""
    pixels = np.asarray(noise(size[1], size[0], seed=seed)) // 2
    pixels[..., label % 3] += 100
    return save(path, Image.fromarray(pixels), quality=90)


def clothing(
    data: Path,
    noisy: Sequence[int] = (0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0, 1),
    annotations: bool = False,
) -> Path:
    """Clothing-1M with `noisy` labels and one clean image of every class in every list."""
    root = data / "clothing1M"
    texts = root / "annotations" if annotations else root
    write(texts / "category_names_eng.txt", CLOTHES)
    lists: Mapping[str, Sequence[int]] = {
        "noisy_train": noisy,
        **dict.fromkeys(("clean_train", "clean_val", "clean_test"), (0, 1, 2)),
    }
    kinds: dict[str, list[str]] = {"noisy": [], "clean": []}
    for number, (name, labels) in enumerate(lists.items()):
        names = [f"images/{row % 2}/{number}{row:03d},77.jpg" for row in range(len(labels))]
        for row, (path, label) in enumerate(zip(names, labels, strict=True)):
            photo(root / path, label, seed=1000 * number + row)
        kinds[name.split("_")[0]] += [f"{p} {k}" for p, k in zip(names, labels, strict=True)]
        write(texts / f"{name}_key_list.txt", names)
    for kind, lines in kinds.items():
        write(texts / f"{kind}_label_kv.txt", lines)
    return root


def add(root: Path, name: str | bytes, label: int, listed: int = 1) -> None:
    """List one more noisy training image, which someone else makes."""
    encoded = name if isinstance(name, bytes) else name.encode()
    for file, line, times in (
        ("noisy_train_key_list.txt", encoded, listed),
        ("noisy_label_kv.txt", encoded + b" %d" % label, 1),
    ):
        with (root / file).open("ab") as opened:
            opened.write((line + b"\n") * times)


def nasty(root: Path) -> dict[str, Path]:
    """Files that web data sets have, by what is odd about them; all listed with label 0."""
    folder = root / "images/0"
    plain = noise(20, 30)
    grey16 = Image.fromarray(np.full((20, 30), 40_000, dtype=np.uint16))
    found = {
        "cmyk": save(folder / "cmyk.jpg", plain.convert("CMYK")),
        "grey": save(folder / "grey.jpg", plain.convert("L")),
        "sixteen": save(folder / "sixteen.png", grey16),
        "animated": save(
            folder / "animated.gif", plain, save_all=True, append_images=[noise(20, 30, seed=1)]
        ),
        "palette": save(folder / "palette.png", plain.convert("P")),
        "corrupt": write(folder / "corrupt.jpg", [b"\xff\xd8\xff\xe0 not a picture"]),
        "empty": write(folder / "empty.jpg", []),
        "truncated": truncated(save(folder / "truncated.jpg", noise(64, 64))),
    }
    for path in found.values():
        add(root, f"images/0/{path.name}", 0)
    return found


def food(data: Path) -> Path:
    """Food-101N of two classes and the test part of Food-101."""
    root, other = data / "Food-101N_release", data / "food-101"
    classes = ("apple_pie", "beignets")
    names = [f"{name}/{row}.jpg" for name in classes for row in range(4)]
    write(root / "meta/classes.txt", ("class_name", *classes))
    write(root / "meta/imagelist.tsv", ("class_name/key", *names))
    verified = ("class_name/key\tverification_label", f"{names[0]}\t1", f"{names[5]}\t0")
    write(root / "meta/verified_val.tsv", (*verified, f"{names[6]}\t1"))
    for row, name in enumerate(names):
        photo(root / "images" / name, row // 4, seed=row)
    write(other / "meta/test.txt", [f"{name}/9" for name in classes])
    for label, name in enumerate(classes):
        photo(other / f"images/{name}/9.jpg", label)
    return root


def webvision(data: Path) -> Path:
    """WebVision, some of it beyond the first fifty classes."""
    root = data / "webvision"
    lines = [f"google/q0001/{row}.jpg {(0, 49, 50, 7)[row % 4]}" for row in range(8)]
    write(root / "info/train_filelist_google.txt", lines)
    write(root / "info/val_filelist.txt", ["val1.jpg 0", "val2.jpg 999", "val3.jpg 49"])
    for row in range(8):
        photo(root / f"google/q0001/{row}.jpg", row, seed=row)
    for row in (1, 2, 3):
        photo(root / f"val_images_256/val{row}.jpg", row)
    return root


def animals(data: Path) -> Path:
    """ANIMAL-10N, two files of every class and one to test."""
    root = data / "animal10n"
    for label in range(10):
        for row in range(2):
            photo(root / f"training/{label}_{row:05d}.jpg", label, size=(64, 64))
        photo(root / f"testing/{label}_00000.jpg", label, size=(64, 64))
    return root

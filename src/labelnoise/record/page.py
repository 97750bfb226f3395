"""Pages: one HTML file that holds its style, script and data, runs nothing else, asks for nothing.

A template names its pieces: `{{ NAME.css }}` and `{{ NAME.js }}` are files beside it, or beside
this module where templates share them; `{{ style }}` and `{{ script }}` are hashes for its content
security policy, and `{{ report }}` is where its data go.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from labelnoise.record.disk import write_atomically

DATA = "{{ report }}"
PIECE = re.compile(r"\{\{ ([\w-]+\.(?:css|js)) \}\}")
ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def write_page(folder: Traversable, name: str, data: Any, out: Path) -> None:
    """Write the page that a template of a folder and its data make."""
    text = page(folder, name, data)
    write_atomically(out, lambda file: file.write(text.encode()))


def page(folder: Traversable, name: str, data: Any) -> str:
    """A template with its pieces, the hashes of what may run, and its data in it."""
    template = (folder / name).read_text("utf-8")
    text = PIECE.sub(lambda found: _piece(folder, found[1]), template)
    for tag in ("style", "script"):
        inside = re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        if inside is not None:
            text = text.replace(f"{{{{ {tag} }}}}", _hash(inside[1]))
    return text.replace(DATA, embeddable(data), 1)  # last: what is in it is not ours


def embeddable(data: Any) -> str:
    """JSON in ASCII without `<`, `>` and `&`: nothing in it can end the script that holds it."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(ESCAPES)


def _piece(folder: Traversable, name: str) -> str:
    own = folder / name
    shared = resources.files("labelnoise.record") / name
    return (own if own.is_file() else shared).read_text("utf-8").rstrip("\n")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

"""Real web servers on this machine, well-behaved and not."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Pages = Mapping[str, bytes]


class Handler(BaseHTTPRequestHandler):
    """Serves `pages` whole, as a server without ranges does, and remembers who asked."""

    pages: Pages
    asked: list[str]

    def do_GET(self) -> None:
        page = self.pages.get(self.path.lstrip("/"))
        self.asked.append(f"{self.path.lstrip('/')} {self.headers.get('Range', 'whole')}")
        if page is None:
            self.send_error(404)
        else:
            self.answer(page)

    def answer(self, page: bytes) -> None:
        self.start(200, len(page))
        self.wfile.write(page)

    def start(self, status: int, length: int, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing on stderr."""


class Ranges(Handler):
    """Continues where it is asked to."""

    def answer(self, page: bytes) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        first = int(asked[1]) if asked else 0
        if asked and first >= len(page):
            self.send_error(416)
        elif asked:
            whole = f"bytes {first}-{len(page) - 1}/{len(page)}"
            self.start(206, len(page) - first, Content_Range=whole)
            self.write(page[first:])
        else:
            self.start(200, len(page))
            self.write(page)

    def write(self, page: bytes) -> None:
        self.wfile.write(page)


class Cutting(Ranges):
    """Promises everything, sends half, and hangs up; a range it does not cut below 100 bytes."""

    def write(self, page: bytes) -> None:
        self.wfile.write(page if len(page) < 100 else page[: len(page) // 2])


class CuttingWhole(Handler):
    """Sends half of everything, every time."""

    def answer(self, page: bytes) -> None:
        self.start(200, len(page))
        self.wfile.write(page[: len(page) // 2])


class Site:
    """A running server: its address, ending in a slash, and what it was asked."""

    def __init__(self, port: int, asked: list[str]) -> None:
        self.url = f"http://127.0.0.1:{port}/"
        self.asked = asked


@contextmanager
def serve(pages: Pages, kind: type[Handler] = Ranges) -> Iterator[Site]:
    """Serve `pages` by name until the block ends."""
    asked: list[str] = []
    handler = type("Bound", (kind,), {"pages": pages, "asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Site(server.server_port, asked)
        finally:
            server.shutdown()
            thread.join()


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()

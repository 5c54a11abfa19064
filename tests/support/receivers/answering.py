"""A real HTTP server on loopback with the answers of a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple, TypeAlias


class Request(NamedTuple):
    """A request. The names of its headers have lower-case letters."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer: TypeAlias = tuple[int, object] | tuple[int, object, Mapping[str, str]]
"""A status, the body (bytes, or a document that is sent as JSON), and further headers."""


@contextmanager
def answering(answer: Callable[[Request], Answer]) -> Iterator[str]:
    """The address of a server that answers each request, in threads of its own."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Keep the output of the tests clean."""

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, found, *further = answer(Request(self.command, self.path, headers, body))
            content = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **(further[0] if further else {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 -- names of the base class

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()

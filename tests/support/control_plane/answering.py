"""An HTTP server in the place of the control plane: it gives one answer, and notes the requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread


class AnsweringServer(HTTPServer):
    """`asked` has the path, the token and the body of each request."""

    def __init__(self, answer: object) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = json.dumps(answer).encode()
        self.asked: list[tuple[str, str, bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: AnsweringServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.asked.append((self.path, self.headers["authorization"], body))
        self.send_response(200)
        self.send_header("content-length", str(len(self.server.content)))
        self.end_headers()
        self.wfile.write(self.server.content)

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@contextmanager
def answering(answer: object) -> Iterator[AnsweringServer]:
    """A server that gives this answer to each request."""
    with AnsweringServer(answer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()

"""An HTTP server in a process of its own. It appends each request to a file, as a line of JSON.

The path decides the answer: `/ok` accepts, `/status/N` answers N, `/redirect` leads to `/ok`, `/hang` never answers,
`/drip` sends a header byte by byte, and `/slow` accepts after three seconds.

Usage: python http_receiver.py FILE
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """Records and answers the requests."""

    file: Path
    lock = threading.Lock()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.lock, self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"path": self.path, "headers": headers, "body": body}) + "\n")
        kind, _, status = self.path.strip("/").partition("/")
        if kind == "hang":
            time.sleep(60)
        elif kind == "drip":
            self._drip()
        else:
            if kind == "slow":
                time.sleep(3)
            self.send_response({"redirect": 307, "status": int(status or 0)}.get(kind, 200))
            if kind == "redirect":
                self.send_header("Location", "/ok")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _drip(self) -> None:
        """Send bytes of a header, each early enough for a limit on the time between two bytes."""
        for byte in b"HTTP/1.1 200 OK\r\nx: " + b"y" * 10_000:
            self.wfile.write(bytes([byte]))
            self.wfile.flush()
            time.sleep(0.3)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    Handler.file = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()

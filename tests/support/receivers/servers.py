"""Starts and stops the receivers."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.support.ports import free_ports


class HttpReceiver:
    """The HTTP server of `http_receiver`."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        self._file = folder / "requests.jsonl"
        program = Path(__file__).with_name("http_receiver.py")
        self._process = subprocess.Popen(
            [sys.executable, str(program), str(self._file), str(port)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def requests(self) -> list[dict[str, Any]]:
        """The requests so far, in order."""
        if not self._file.exists():
            return []
        return [json.loads(line) for line in self._file.read_text(encoding="utf-8").splitlines()]


@dataclass
class Mailbox:
    """The handler of an SMTP server. It refuses the first `refused` mails."""

    refused: int = 0
    mails: list[Envelope] = field(default_factory=list)

    async def handle_DATA(  # noqa: N802 -- aiosmtpd calls this name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        if self.refused:
            self.refused -= 1
            return "451 try again later"
        self.mails.append(envelope)
        return "250 accepted"


class MailServer(Controller):
    """A real SMTP server without TLS."""

    def __init__(self, mailbox: Mailbox) -> None:
        super().__init__(mailbox, hostname="127.0.0.1", port=free_ports(1)[0])

"""A request and its answer, as ASGI has them, with limits that hold before anything is allocated.

Any ASGI server can run what is built of these; uvicorn is the one that `serve` starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from luminal_lab.reading import shown_json
from luminal_lab.serving.tensors import read_json, write_json

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
PATIENCE: Final = 30.0
"""The seconds that a client may take to send a body."""
LARGEST: Final = 1 << 24
"""The most bytes of a body, unless more are asked for."""
TOGETHER: Final = 16
"""How many of the largest bodies may be here at once."""
PLAIN: Final = "text/plain; charset=utf-8"


class ProblemError(Exception):
    """Why a request is refused: a status of HTTP and words."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        closes: bool = False,
        headers: Mapping[str, str] | None = None,
        **more: str,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.closes = status, message, closes
        self.headers = headers or {}
        self.more = more
        """What OpenAI's errors say beside: param, code."""


class GoneError(Exception):
    """The client has cut the connection: nobody waits for an answer."""


@dataclass
class Room:
    """The bytes of bodies that may be here at once."""

    largest: int = LARGEST
    """Of one body."""
    taken: int = 0

    def take(self, size: int) -> None:
        """Take room for bytes, or raise."""
        if self.taken + size > TOGETHER * self.largest:
            raise ProblemError(503, "too much is being asked at once: try again later")
        self.taken += size


class Request:
    """What a client asks."""

    def __init__(self, scope: Scope, receive: Receive, room: Room) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        self._receive, self._room, self._taken = receive, room, 0
        self._ends: list[Callable[[], object]] = []

    async def json(self, most: int | None = None) -> Mapping[str, Any]:
        """Return the object that the body is, of at most so many bytes."""
        data = await self.body(most)
        try:
            value = read_json(data)
        except ValueError as error:
            raise ProblemError(400, f"the body is no JSON: {error}") from None
        if not isinstance(value, dict):
            raise ProblemError(400, "the body is no object of JSON")
        return cast("Mapping[str, Any]", value)

    async def body(self, most: int | None = None) -> bytes:
        """Return the body; nothing of one that is too large is kept."""
        most = self._room.largest if most is None else min(most, self._room.largest)
        told = self.headers.get("content-length", "")
        size = int(told) if told.isascii() and told.isdigit() and len(told) < 20 else 0
        # Who waits to be told to go on sends no body now, so that no other request can follow.
        waits = "expect" in self.headers
        too_large = ProblemError(
            413, f"the body is larger than {most:,} bytes, the most here", closes=waits
        )
        if size > most:
            raise too_large
        coding = self.headers.get("content-encoding", "").strip()
        if coding.lower() not in ("", "identity"):
            raise ProblemError(
                415,
                f"the body is encoded as {shown_json(coding)}: send it as it is, without "
                "Content-Encoding",
                closes=waits,
                headers={"accept-encoding": "identity"},
            )
        parts, read = list[bytes](), 0
        self._take(size)
        try:
            async with asyncio.timeout(PATIENCE):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise GoneError
                    part = message.get("body", b"")
                    read += len(part)
                    if read > most:
                        raise too_large
                    self._take(read - self._taken)
                    parts.append(part)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise ProblemError(
                408, f"the body took longer than {PATIENCE:.0f} s", closes=True
            ) from None

    def _take(self, size: int) -> None:
        if size > 0:
            self._room.take(size)
            self._taken += size

    def at_end(self, call: Callable[[], object]) -> None:
        """Have something called once the request has ended, however it does."""
        self._ends.append(call)

    def release(self) -> None:
        """End the request: give back the room that the body had."""
        for call in self._ends:
            call()
        self._room.taken -= self._taken
        self._taken = 0

    async def gone(self) -> None:
        """Return when the client has cut the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def unless_gone(self, work: asyncio.Future[Any]) -> Any:  # noqa: ANN401  # its result
        """Return what some work gives; if the connection is cut, cancel it and raise."""
        gone = asyncio.ensure_future(self.gone())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise GoneError
            return work.result()
        finally:
            work.cancel()
            gone.cancel()


@dataclass
class Answer:
    """An answer: its status, and its body at once or piece by piece."""

    body: bytes | AsyncGenerator[bytes] = b""
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict[str, str])

    async def send(self, send: Send, *, with_body: bool = True) -> None:
        """Send it."""
        headers = {"content-type": self.kind, "x-content-type-options": "nosniff", **self.headers}
        if isinstance(self.body, bytes):
            headers["content-length"] = str(len(self.body))
        else:
            headers["cache-control"] = "no-store"
        pairs = [(name.encode("latin-1"), text.encode("latin-1")) for name, text in headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": pairs})
        if isinstance(self.body, bytes):
            await send({"type": "http.response.body", "body": self.body if with_body else b""})
            return
        try:
            async for part in self.body:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        finally:
            await self.body.aclose()
        await send({"type": "http.response.body", "body": b""})


def as_json(value: object, status: int = 200) -> Answer:
    """Return a value as an answer."""
    return Answer(write_json(value), status)


def as_text(text: str, status: int = 200) -> Answer:
    """Return a text as an answer."""
    return Answer(text.encode(), status, PLAIN)

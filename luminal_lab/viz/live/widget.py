"""The widget: what carries a bundle, the selection and the place between Python and the page.

It computes nothing. This file is imported only when somebody wants to see a widget: it needs
anywidget.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import anywidget
import traitlets
from typing_extensions import override

Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class LabWidget(anywidget.AnyWidget):
    """A model that all its views share."""

    _esm = traitlets.Unicode().tag(sync=True)
    data = traitlets.Bytes(b"").tag(sync=True)
    what = traitlets.Unicode("explorer").tag(sync=True)
    selection = traitlets.Dict().tag(sync=True)
    place = traitlets.Dict().tag(sync=True)
    options = traitlets.Dict().tag(sync=True)
    picture = traitlets.Unicode("").tag(sync=True)
    """What marks the static picture above, which the widget hides while it lives."""

    def __init__(self, script: str, answer: Answer | None = None, **traits: object) -> None:
        super().__init__(_esm=script, **traits)
        self._answer = answer
        self.on_msg(self._asked)

    @override
    def __repr__(self) -> str:
        # What stands below the picture in a notebook that nobody trusts yet.
        return f"<{self.what}, live while its kernel runs: run the cell to have it here>"

    def _asked(self, _: object, message: object, buffers: object) -> None:
        """Answer a question of the page's; whatever goes wrong is in the answer."""
        if not isinstance(message, Mapping) or "request" not in message:
            return
        if isinstance(buffers, list) and buffers:
            pieces = cast("list[memoryview]", buffers)
            message = {**cast("Mapping[str, Any]", message), "data": b"".join(pieces)}
        reply: Mapping[str, Any] = {"error": "There is no graph behind this picture."}
        if self._answer is not None:
            self.send({"reply": message["request"], "working": True})
            reply = self._answer(message)
        self.send({**reply, "reply": message["request"]})

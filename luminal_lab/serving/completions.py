"""OpenAI's routes for a model of language: texts that go on, and chats, whole or piece by piece.

    GET  /v1/models, /v1/models/NAME
    POST /v1/completions             {"prompt": …}
    POST /v1/chat/completions        {"messages": […]}

With "stream": true the pieces come as server-sent events. What a client may ask for and is not here
is refused in words, and nothing is left out in silence.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from time import time
from typing import Any, Final, TypeAlias, cast

from luminal_lab.errors import LabError
from luminal_lab.language.generation import Piece
from luminal_lab.language.model import LanguageModel
from luminal_lab.reading import shown_json as shown
from luminal_lab.serving.app import Route
from luminal_lab.serving.http import Answer, GoneError, ProblemError, Request, as_json
from luminal_lab.serving.tensors import write_json
from luminal_lab.serving.turns import Turn, Turns

MOST: Final = 16
"""The most texts that one request may ask for."""
USUAL: Final = 16
"""The tokens of a text that goes on, if nothing else is asked; of an answer, as many as fit."""
LETTERS: Final = 64
"""The most letters of a prompt for each token that there is room for."""
EVENTS: Final = "text/event-stream; charset=utf-8"
FINISHED: Final = {"end": "stop", "stop": "stop", "length": "length", "full": "length"}
NOT_HERE: Final = (
    "tools",
    "tool_choice",
    "functions",
    "function_call",
    "response_format",
    "audio",
    "suffix",
    "web_search_options",
)
"""What nobody should believe was heeded."""

Said: TypeAlias = "asyncio.Queue[tuple[int, Piece | Exception | None]]"
"""The pieces of all texts of a request, as they come."""

HEEDED: Final = (
    *("temperature", "top_p", "top_k", "min_p"),
    *("presence_penalty", "frequency_penalty", "repetition_penalty"),
)
"""The options that are those of `generate`."""


@dataclass
class Text:
    """One of the texts that a request asks for."""

    index: int
    prompt: list[int]
    turn: Turn
    pieces: list[Piece] = field(default_factory=list[Piece])


class Completions:
    """A model of language that answers as OpenAI's do."""

    def __init__(self, name: str, lm: LanguageModel, turns: Turns) -> None:
        self.name, self._lm, self._turns = name, lm, turns
        self._made = int(time())

    def routes(self) -> dict[str, Route]:
        """Return its routes."""
        return {
            "/v1/models": ("GET", self._models),
            f"/v1/models/{self.name}": ("GET", self._model),
            "/v1/completions": ("POST", self._completions),
            "/v1/chat/completions": ("POST", self._chat),
        }

    def close(self) -> None:
        """End what is under way."""
        self._turns.close()

    def metadata(self) -> dict[str, object]:
        """Return what the Open Inference Protocol says about it: it takes no arrays."""
        return {
            "name": self.name,
            "versions": ["1"],
            "platform": "luminal_lab",
            "inputs": [],
            "outputs": [],
        }

    @property
    def _about(self) -> dict[str, object]:
        return {
            "id": self.name,
            "object": "model",
            "created": self._made,
            "owned_by": "luminal_lab",
        }

    async def _model(self, request: Request) -> Answer:
        return as_json(self._about)

    async def _models(self, request: Request) -> Answer:
        return as_json({"object": "list", "data": [self._about]})

    async def _completions(self, request: Request) -> Answer:
        asked = await self._asked(request)
        prompts = self._prompts(asked.get("prompt"))
        if _flag(asked, "echo"):
            raise ProblemError(400, "echo is not here", param="echo")
        if asked.get("best_of") not in (None, 1):
            raise ProblemError(400, "best_of is not here", param="best_of")
        if asked.get("logprobs") not in (None, 0):
            raise ProblemError(400, "logprobs are those of the tokens chosen: 0", param="logprobs")
        with_logprobs = asked.get("logprobs") == 0
        form = Form("text_completion", "cmpl", self.name, _completion_choice, with_logprobs)
        return await self._answered(request, asked, prompts, form, USUAL)

    async def _chat(self, request: Request) -> Answer:
        asked = await self._asked(request)
        prompt = self._rendered(asked.get("messages"))
        if asked.get("top_logprobs") not in (None, 0):
            raise ProblemError(400, "top_logprobs are not here: 0", param="top_logprobs")
        with_logprobs = _flag(asked, "logprobs")
        form = Form("chat.completion", "chatcmpl", self.name, _chat_choice, with_logprobs)
        return await self._answered(request, asked, [prompt], form, None)

    async def _asked(self, request: Request) -> Mapping[str, Any]:
        """Return the body, of a request for this model that asks for nothing that is not here."""
        asked = await request.json()
        model: object = asked.get("model")
        if model != self.name:
            raise ProblemError(
                404,
                f"there is no model {shown(model)}: there is {self.name}",
                param="model",
                code="model_not_found",
            )
        for name in NOT_HERE:
            value: object = asked.get(name)
            if value not in (None, [], "none", "auto", {"type": "text"}):
                raise ProblemError(400, f"{name} is not here", param=name)
        return asked

    def _prompts(self, prompt: object) -> list[list[int]]:
        """Return the tokens of one prompt or several, as texts or as tokens."""
        parts = cast("list[object]", prompt) if isinstance(prompt, list) else []
        is_several = bool(parts) and isinstance(parts[0], (str, list))
        if len(parts) > MOST and is_several:
            raise ProblemError(400, f"{len(parts):,} prompts are too many: {MOST}", param="prompt")
        several: list[object] = parts if is_several else [prompt]
        return [self._tokens(part) for part in several]

    def _tokens(self, prompt: object) -> list[int]:
        if isinstance(prompt, str):
            return self._encoded(prompt, special=True)
        refusal = f"a prompt is {shown(prompt)}, and must be a text, or tokens"
        if not isinstance(prompt, list):
            raise ProblemError(400, refusal, param="prompt")
        ids, vocab = cast("list[object]", prompt), self._lm.model.config.vocab
        if not all(isinstance(id, int) and 0 <= id < vocab for id in ids):
            raise ProblemError(400, refusal, param="prompt")
        return self._fitting(cast("list[int]", ids))

    def _encoded(self, text: str, *, special: bool) -> list[int]:
        if len(text) > LETTERS * self._lm.context:
            self._refuse(f"{len(text):,} letters")
        try:
            tokens = self._lm.tokenizer.encode(text, special=special)
        except LabError as error:  # half a letter
            raise _refusal(error) from None
        return self._fitting(tokens)

    def _fitting(self, tokens: list[int]) -> list[int]:
        if not tokens:
            raise ProblemError(400, "the prompt has no tokens", param="prompt")
        if len(tokens) > self._lm.context:
            self._refuse(f"{len(tokens):,} tokens")
        return tokens

    def _refuse(self, much: str) -> None:
        raise ProblemError(
            400,
            f"the prompt has {much}, and there is room for {self._lm.context:,} tokens",
            code="context_length_exceeded",
        )

    def _rendered(self, messages: object) -> list[int]:
        """Return the tokens of a conversation."""
        template = self._lm.template
        if template is None:
            raise ProblemError(
                400, f"{self.name} has no template for conversations: /v1/completions"
            )
        refusal = f"messages is {shown(messages)}, and no list"
        if not isinstance(messages, list) or not messages:
            raise ProblemError(400, refusal, param="messages")
        plain = [_message(message) for message in cast("list[object]", messages)]
        if sum(len(str(part.get("content", ""))) for part in plain) > LETTERS * self._lm.context:
            self._refuse("too many letters")
        try:
            text = template.render(plain)
        except LabError as error:
            raise ProblemError(400, error.message, param="messages") from None
        return self._encoded(text, special=False)

    async def _answered(
        self,
        request: Request,
        asked: Mapping[str, Any],
        prompts: list[list[int]],
        form: Form,
        usual: int | None,
    ) -> Answer:
        """Return the texts of some prompts, whole or as they come."""
        is_stream, with_usage = _streams(asked)
        said = asyncio.Queue[tuple[int, Piece | Exception | None]]()
        texts = self._texts(asked, prompts, usual, said)
        for text in texts:
            request.at_end(text.turn.cut)
            self._turns.submit(text.turn)
        heard = _heard(request, texts, said)
        if is_stream:
            return Answer(_events(form, texts, heard, with_usage=with_usage), kind=EVENTS)
        async for _ in heard:
            pass
        choices = [form.choice(form, text, None) for text in texts]
        return as_json({**form.head(), "choices": choices, "usage": _usage(texts)})

    def _texts(
        self, asked: Mapping[str, Any], prompts: list[list[int]], usual: int | None, said: Said
    ) -> list[Text]:
        """Return the texts that are asked for, each with its turn."""
        copies = _whole(asked, "n", 1) or 1
        if copies * len(prompts) > MOST:
            raise ProblemError(
                400, f"{copies * len(prompts)} texts are too many: {MOST}", param="n"
            )
        how, loop = _options(asked, usual), asyncio.get_running_loop()

        def teller(index: int) -> Callable[[Piece | Exception | None], None]:
            def tell(what: Piece | Exception | None) -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(said.put_nowait, (index, what))

            return tell

        texts: list[Text] = []
        try:
            for at, prompt in enumerate(prompt for prompt in prompts for _ in range(copies)):
                own = {"seed": how["seed"] + at} if "seed" in how else {}
                generation = self._lm.generate(prompt, **{**how, **own})
                texts.append(Text(at, prompt, Turn(generation, prompt, teller(at))))
        except LabError as error:
            raise _refusal(error) from None
        return texts


@dataclass
class Form:
    """What the answers of a route look like."""

    kind: str
    prefix: str
    model: str
    choice: Callable[[Form, Text, Piece | None], dict[str, object]]
    with_logprobs: bool
    id: str = ""
    made: int = 0

    def __post_init__(self) -> None:
        self.id, self.made = f"{self.prefix}-{secrets.token_hex(12)}", int(time())

    def head(self, *, is_chunk: bool = False) -> dict[str, object]:
        """Return what each answer begins with."""
        chat = ".chunk" if is_chunk and self.kind == "chat.completion" else ""
        return {
            "id": self.id,
            "object": f"{self.kind}{chat}",
            "created": self.made,
            "model": self.model,
        }


async def _heard(
    request: Request, texts: list[Text], said: Said
) -> AsyncGenerator[tuple[Text, Piece]]:
    """Yield pieces as they come, until all texts have ended; if nobody listens, end them."""
    gone = asyncio.ensure_future(request.gone())
    left = len(texts)
    try:
        while left:
            item = asyncio.ensure_future(said.get())
            await asyncio.wait({item, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not item.done():
                item.cancel()
                raise GoneError
            index, what = item.result()
            if isinstance(what, Exception):
                if isinstance(what, LabError):
                    raise _refusal(what)
                raise what
            if what is None:
                left -= 1
            else:
                texts[index].pieces.append(what)
                yield texts[index], what
    finally:
        gone.cancel()


async def _events(
    form: Form,
    texts: list[Text],
    heard: AsyncGenerator[tuple[Text, Piece]],
    *,
    with_usage: bool,
) -> AsyncGenerator[bytes]:
    """Yield an event for each piece."""
    head = form.head(is_chunk=True)
    usage = {"usage": None} if with_usage else {}
    try:
        async for text, piece in heard:
            yield _event({**head, "choices": [form.choice(form, text, piece)], **usage})
        if with_usage:
            yield _event({**head, "choices": [], "usage": _usage(texts)})
        yield b"data: [DONE]\n\n"
    except ProblemError as problem:
        yield _event({"error": {"message": problem.message, "type": "server_error"}})
    finally:
        await heard.aclose()


def _refusal(error: LabError) -> ProblemError:
    return ProblemError(400, error.message.removeprefix("generate: ").removeprefix("encode: "))


def _event(value: object) -> bytes:
    return b"data: " + write_json(value) + b"\n\n"


def _usage(texts: list[Text]) -> dict[str, object]:
    prompts = {id(text.prompt): len(text.prompt) for text in texts}
    made = sum(len(text.pieces) for text in texts)
    read = sum(prompts.values())
    return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}


def _reason(text: Text, piece: Piece | None) -> str | None:
    """Return why a text has ended; None where more pieces come behind this one."""
    stopped = text.turn.generation.stopped
    is_last = piece is None or piece.index == len(text.turn.generation.ids) - 1
    return FINISHED[stopped] if stopped is not None and is_last else None


def _completion_choice(form: Form, text: Text, piece: Piece | None) -> dict[str, object]:
    pieces = text.pieces if piece is None else [piece]
    logprobs = {
        "tokens": [part.text for part in pieces],
        "token_logprobs": [part.logprob for part in pieces],
        "top_logprobs": None,
        "text_offset": [],
    }
    return {
        "index": text.index,
        "text": "".join(part.text for part in pieces),
        "finish_reason": _reason(text, piece),
        "logprobs": logprobs if form.with_logprobs else None,
    }


def _chat_choice(form: Form, text: Text, piece: Piece | None) -> dict[str, object]:
    pieces = text.pieces if piece is None else [piece]
    said = {"role": "assistant", "content": "".join(part.text for part in pieces)}
    if piece is not None and piece.index:
        del said["role"]
    logprobs = {
        "content": [
            {
                "token": part.text,
                "logprob": part.logprob,
                "bytes": [*part.text.encode()],
                "top_logprobs": [],
            }
            for part in pieces
        ],
        "refusal": None,
    }
    return {
        "index": text.index,
        "message" if piece is None else "delta": said,
        "finish_reason": _reason(text, piece),
        "logprobs": logprobs if form.with_logprobs else None,
    }


def _options(asked: Mapping[str, Any], usual: int | None) -> dict[str, Any]:
    """Return the options of `generate`, with the temperature that OpenAI's clients count on."""
    most = _whole(asked, "max_completion_tokens", None)
    most = _whole(asked, "max_tokens", usual) if most is None else most
    given: dict[str, Any] = {
        "temperature": 1.0,
        "stop": _stops(asked.get("stop")),
        "max_tokens": most,
        "logit_bias": _biases(asked.get("logit_bias")),
        "seed": _whole(asked, "seed", None),
    }
    given |= {name: asked[name] for name in HEEDED if asked.get(name) is not None}
    return {name: value for name, value in given.items() if value is not None}


def _stops(given: object) -> list[str]:
    parts = [given] if isinstance(given, str) else given or []
    refusal = ProblemError(400, "stop is at most 4 texts of 200 letters", param="stop")
    if not isinstance(parts, list) or len(cast("list[object]", parts)) > 4:
        raise refusal
    stops: list[str] = []
    for part in cast("list[object]", parts):
        if not isinstance(part, str) or len(part) > 200:
            raise refusal
        stops += [part] if part else []
    return stops


def _biases(given: object) -> dict[int, object]:
    if given is not None and not isinstance(given, dict):
        raise ProblemError(400, "logit_bias is no object", param="logit_bias")
    biases: dict[int, object] = {}
    for name, value in cast("dict[str, object]", given or {}).items():
        if not (name.isascii() and name.isdigit() and len(name) < 10) or len(biases) > 1000:
            raise ProblemError(400, f"logit_bias has {shown(name)}, no token", param="logit_bias")
        biases[int(name)] = value
    return biases


def _streams(asked: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether pieces are sent as they come, and what they took at the end."""
    options: object = asked.get("stream_options") or {}
    if not isinstance(options, dict):
        raise ProblemError(400, "stream_options is no object", param="stream_options")
    with_usage = bool(cast("dict[str, object]", options).get("include_usage"))
    return _flag(asked, "stream"), with_usage


def _message(message: object) -> dict[str, Any]:
    """Return a message with its content as one text."""
    if not isinstance(message, dict):
        raise ProblemError(400, f"a message is {shown(message)}, and no object", param="messages")
    whole = dict(cast("dict[str, Any]", message))
    content: object = whole.get("content")
    if isinstance(content, list):
        whole["content"] = "".join(map(_part, cast("list[object]", content)))
    elif content is not None and not isinstance(content, str):
        raise ProblemError(400, f"a message has the content {shown(content)}", param="messages")
    return whole


def _part(part: object) -> str:
    text: object = cast("dict[str, object]", part).get("text") if isinstance(part, dict) else None
    if not isinstance(text, str):
        raise ProblemError(400, "a message has parts that are no texts", param="messages")
    return text


def _whole(asked: Mapping[str, Any], name: str, usual: int | None) -> int | None:
    value: object = asked.get(name)
    if value is None:
        return usual
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ProblemError(400, f"{name} is {shown(value)}, and must be a whole number", param=name)
    return value


def _flag(asked: Mapping[str, Any], name: str) -> bool:
    value: object = asked.get(name)
    if value is not None and not isinstance(value, bool):
        raise ProblemError(400, f"{name} is {shown(value)}, and must be true or false", param=name)
    return bool(value)

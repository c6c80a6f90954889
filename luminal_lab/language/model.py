"""A model of language as something to use: texts in, texts out, with nothing hidden behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from typing_extensions import override

from luminal_lab.devices.cpu.compiler import CPUCompiler
from luminal_lab.errors import ArgumentError, InputError, ModelError, expect, whole_number
from luminal_lab.language.decoding import Activations, Decoding, checked
from luminal_lab.language.generation import Generation
from luminal_lab.language.sampling import Sampler
from luminal_lab.language.stopping import StopText
from luminal_lab.nn.models.decoder import Decoder
from luminal_lab.reading import shown
from luminal_lab.session import Graph
from luminal_lab.tensor.arguments import told_object
from luminal_lab.tensor.parameter import Parameter

if TYPE_CHECKING:
    from luminal_lab.language.chat import ChatTemplate
    from luminal_lab.language.tokens import Tokenizer

CONTEXT: Final = 4096
"""The tokens that there is room for, unless a model takes fewer or more are asked for."""


@told_object("language model", "lm.generate({}) goes on with a text, and lm.chat(messages) answers")
class LanguageModel:
    """A model that goes on with texts; `ll.load` returns one.

    `model` is a module like any other. `context` is how many tokens there is room for, those of the
    prompt and the new ones. With `activations` of "int8", a step multiplies weights in few bits
    by integers, and with "bfloat16" a prompt those in bfloat16 by such numbers.

    >>> lm
    <LanguageModel LlamaForCausalLM: 259 kinds of tokens, room for 64>
    """

    def __init__(
        self,
        name: str,
        model: Decoder,
        tokenizer: Tokenizer,
        *,
        template: Callable[[], ChatTemplate | None] | None = None,
        context: int = CONTEXT,
        device: Any = None,  # noqa: ANN401  # whatever `cx.compile` takes
        activations: Activations = "float32",
    ) -> None:
        self.name = name
        self.model = model
        self.tokenizer = tokenizer
        self._template, self._chat = template, cast("ChatTemplate | None", None)
        self.context = context
        self.device = device
        self._activations: Activations = activations
        self._decoding: Decoding | None = None
        self._forms: tuple[str, ...] | None = None
        self._changes = -1  # of all parameters, when their forms were looked at

    def generate(
        self,
        prompt: str | Sequence[int],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        logit_bias: Mapping[int, float] | None = None,
        stop: str | Sequence[str] = (),
        seed: int | None = None,
    ) -> Generation:
        """Return an iterator over the pieces of a text that goes on from a prompt.

        Without a temperature the likeliest token is taken each time; with one, tokens are drawn,
        the same ones for the same `seed`. It ends where the model ends it, at one of the `stop`
        strings, which is left out, after `max_tokens`, or when there is no room for more. The
        prompt may be given as tokens. What it has in common with the last one is not read again.

        >>> for piece in lm.generate("Tell me", max_tokens=3):
        ...     print(piece.index, piece.logprob < 0)
        0 True
        1 True
        2 True
        """
        tokens = self._read(prompt)
        if max_tokens is not None and (whole_number(max_tokens) or 0) < 1:
            raise ArgumentError(
                f"generate: max_tokens is {max_tokens!r}",
                hint="give a whole number, 1 or more, or leave it out: the model ends the text",
            )
        sampler = Sampler(
            temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
            logit_bias=logit_bias,
            seed=seed,
        )
        return Generation(
            self.decoding,
            tokens,
            sampler,
            self.tokenizer.streamer(tokens),
            StopText(stop),
            ends=self.tokenizer.ends,
            most=None if max_tokens is None else whole_number(max_tokens),
        )

    def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Generation:
        """Return an iterator over the pieces of an answer, as the model's template asks for it.

        `options` are those of `generate`. A conversation goes on with the answer and a question
        more in the list, and only these are read anew.

        >>> lm.chat([{"role": "user", "content": "Hi"}], max_tokens=4).result().stopped
        'length'
        """
        template = self.template
        if template is None:
            raise ModelError(
                f"chat: {self.name} has no template for conversations",
                hint="it may be a model that goes on with texts: lm.generate(text)",
            )
        text = template.render(messages)
        return self.generate(self.tokenizer.encode(text, special=False), **options)

    @property
    def template(self) -> ChatTemplate | None:
        """How conversations are written for it, read when it is first needed; None without one.

        It may be set to another one's, or to a template's text.
        """
        if self._chat is None and self._template is not None:
            self._chat, self._template = self._template(), None
        return self._chat

    @template.setter
    def template(self, template: ChatTemplate | str | None) -> None:
        from luminal_lab.language.chat import ChatTemplate  # noqa: PLC0415  # loaded when used

        if isinstance(template, str):
            last = self.template
            ends = ("", "") if last is None else (last.bos, last.eos)
            template = ChatTemplate(template, bos=ends[0], eos=ends[1], path=self.name)
        expect(
            template,
            ChatTemplate | None,
            "template is {}",
            "give the text of one, as in chat_template.jinja, or another model's template",
        )
        self._chat, self._template = template, None

    @property
    def activations(self) -> Activations:
        """What a step, or a prompt, multiplies weights with: "float32", "int8" or "bfloat16".

        Set to another, the next text is written by a graph of its own.
        """
        return self._activations

    @activations.setter
    def activations(self, activations: Activations) -> None:
        self._activations, self._decoding = checked("activations", activations), None

    def session(self) -> Graph:
        """Return the session that runs it, compiled: its graph, kernels, memory and workbench.

        >>> len(lm.session().kernels) > 5
        True
        """
        return self.decoding().compile()

    def decoding(self) -> Decoding:
        """Return what reads tokens, with its cache, for the weights as they are now.

        >>> lm.decoding().logits([72, 105]).shape
        (259,)
        """
        if self._decoding is None or self._changes != Parameter.changes:
            forms = tuple(parameter.form for parameter in self.model.parameters().values())
            if self._decoding is None or forms != self._forms:
                device = CPUCompiler() if self.device is None else self.device
                decoding = Decoding(self.model, self.context, device, self._activations)
                self._decoding, self._forms = decoding, forms
            self._changes = Parameter.changes
        return self._decoding

    def _read(self, prompt: object) -> list[int]:
        """Return the tokens of a prompt, if there is room for them."""
        if isinstance(prompt, str):
            tokens = self.tokenizer.encode(prompt)
        elif isinstance(prompt, list | tuple):
            given = cast("Sequence[object]", prompt)
            tokens = [id for id in map(whole_number, given) if id is not None]
            if len(tokens) < len(given):
                odd = next(id for id in given if whole_number(id) is None)
                raise ArgumentError(
                    f"generate: a token is {shown(odd)}",
                    hint="a prompt is one text, or whole numbers",
                )
        else:
            raise ArgumentError(
                f"generate: the prompt is {shown(prompt)}", hint='as in generate("Tell me")'
            )
        if not tokens:
            raise InputError(
                "generate: the prompt has no tokens",
                hint="this model begins a text with no token of its own: give it a word",
            )
        most = self.model.config.vocab
        if odd := [id for id in tokens if not 0 <= id < most]:
            raise InputError(
                f"generate: the prompt has the token {odd[0]:,}, and the model knows {most:,}",
                hint=f"they count from 0 to {most - 1:,}",
            )
        if len(tokens) > self.context:
            raise InputError(
                f"generate: the prompt has {len(tokens):,} tokens, and there is room for "
                f"{self.context:,}",
                hint=self._more_room(len(tokens)),
            )
        return tokens

    def _more_room(self, tokens: int) -> str:
        most = self.model.config.context
        if most is not None and most < tokens:
            return f"the model was made for {most:,}: shorten it"
        room = min(2 * tokens, most or 2 * tokens)
        return f"load it with context={room}: its cache grows with it"

    @override
    def __repr__(self) -> str:
        return (
            f"<LanguageModel {self.name}: {self.tokenizer.size:,} kinds of tokens, room for "
            f"{self.context:,}>"
        )

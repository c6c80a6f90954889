"""Texts go on piece by piece, end for a reason, and survive being broken off."""

import math
from pathlib import Path
from signal import SIGINT, raise_signal
from typing import Any

import numpy as np
import pytest

import luminal_lab as ll
from luminal_lab.errors import ArgumentError, InputError, Interrupted, ModelError
from luminal_lab.language.generation import GeneratedText
from luminal_lab.language.model import LanguageModel
from tests.expect import error_of
from tests.language.decoders import BEGIN, END, published_decoder
from tests.needs import need

need("tokenizers", "safetensors", "cc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return published_decoder(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def lm(folder) -> LanguageModel:
    lm = ll.load(folder)
    assert isinstance(lm, LanguageModel)
    return lm


@pytest.fixture
def says(lm, monkeypatch):
    """Let the model say a text: its logits are those of each next token."""

    def say(text: str | list[int]) -> None:
        ids = lm.tokenizer.encode(text, special=False) if isinstance(text, str) else text
        decoding = lm.decoding()
        begin: list[int] = []

        def logits(tokens):
            begin.append(len(tokens))
            row = np.zeros(259, "float32")
            row[ids[len(tokens) - begin[0]]] = 9
            return row

        monkeypatch.setattr(decoding, "logits", logits)

    return say


def test_a_call_of_the_model_is_answered_with_the_one_that_was_meant(lm):
    error = error_of(lambda: lm("Once", max_tokens=3), ArgumentError)
    assert error.message == "language model: it is no function"
    assert error.hint == (
        "lm.generate('Once', max_tokens=3) goes on with a text, and lm.chat(messages) answers"
    )
    assert "generate(…) goes on" in error_of(lm, ArgumentError).hint


def test_pieces_add_up_to_the_text(lm):
    generation = lm.generate("Tell me", max_tokens=20)
    pieces = list(generation)
    assert [piece.index for piece in pieces] == list(range(20))
    assert "".join(piece.text for piece in pieces) == generation.text
    assert [piece.id for piece in pieces] == generation.ids
    assert generation.text == lm.tokenizer.decode(generation.ids)
    assert all(piece.logprob <= 0 and piece.seconds > 0 for piece in pieces)
    assert generation.stopped == "length"
    assert list(generation) == []


def test_a_result_has_the_reason_and_the_rates(lm):
    lm.decoding().held.clear()
    result = lm.generate("Tell me", max_tokens=9).result()
    assert (len(result.ids), result.stopped, result.prompt_tokens) == (9, "length", 8)
    assert result.reused_tokens == 0
    assert result.prompt_rate == 8 / result.prompt_seconds
    assert result.rate == 8 / result.seconds
    assert str(result) == result.text
    again = lm.generate("Tell me again", max_tokens=1).result()
    assert (again.prompt_tokens, again.reused_tokens) == (14, 8)
    assert again.rate == 0


def test_a_result_is_told_in_a_line():
    result = GeneratedText("ab", (1, 2, 3), "stop", 8, 4, 0.5, 0.25)
    assert repr(result) == (
        "<GeneratedText: 3 tokens at 8.0/s behind 8 at 8.0/s; a stop string was reached>"
    )
    first = GeneratedText("a", (1,), "length", 1, 1, 0.5, 0.0)
    assert repr(first) == (
        "<GeneratedText: 1 token behind 1; it has as many tokens as were asked for>"
    )


def test_the_model_ends_a_text(lm, says):
    says([*b"Hi", END, *b"more"])
    generation = lm.generate("x")
    assert [piece.text for piece in generation] == ["H", "i", ""]
    assert (generation.text, generation.ids[-1], generation.stopped) == ("Hi", END, "end")


@pytest.mark.parametrize("stop", ["END", ["###", "END"]])
def test_a_stop_string_ends_a_text_before_it(lm, says, stop):
    says("some ENd END of it")
    generation = lm.generate("x", stop=stop)
    assert generation.result().text == "some ENd "
    assert generation.stopped == "stop"


def test_what_was_held_back_for_a_stop_string_comes_at_the_end(lm, says):
    says("some EN")
    generation = lm.generate("x", stop="END", max_tokens=7)
    assert [piece.text for piece in generation][-3:] == [" ", "", "EN"]
    assert generation.stopped == "length"


def test_letters_come_whole(lm, says):
    says("aü€😀")
    assert [piece.text for piece in lm.generate("x", max_tokens=10)] == [
        *("a", "", "ü", "", "", "€", "", "", "", "😀"),
    ]
    says([0xE2, 0x82])
    assert lm.generate("x", max_tokens=2).result().text == "�"


def test_no_more_comes_than_there_is_room_for(lm):
    generation = lm.generate("Tell me")
    result = generation.result()
    assert result.stopped == "full"
    assert len(result.ids) == 64 - 8 + 1  # the last one was computed, and is in no cache
    assert lm.generate("x" * 63).result().stopped == "full"


def test_too_long_a_prompt_is_refused_before_anything_runs(lm, monkeypatch):
    monkeypatch.setattr(lm, "decoding", lambda: pytest.fail("it runs"))
    error = error_of(lambda: lm.generate("x" * 64), InputError)
    assert error.message == "generate: the prompt has 65 tokens, and there is room for 64"
    assert error.hint == "the model was made for 64: shorten it"


def test_more_room_is_had_by_loading_it_so(folder):
    lm = ll.load(folder, context=16)
    error = error_of(lambda: lm.generate("x" * 16), InputError)
    assert error.hint == "load it with context=34: its cache grows with it"


def test_a_seed_draws_the_same_text(lm):
    def drawn(seed: int) -> tuple[int, ...]:
        return lm.generate("Tell", max_tokens=12, temperature=2.0, seed=seed).result().ids

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_options_reach_the_sampler(lm):
    greedy = [lm.generate("Tell", max_tokens=8).result().ids]
    first = greedy[0][0]
    for option in ({"logit_bias": {first: -math.inf}}, {"repetition_penalty": 1e9}):
        other = lm.generate([BEGIN, *b"Tell", first], max_tokens=1, **option)
        assert other.result().ids[0] != first
    for option in ({"top_k": 1}, {"top_p": 1e-9}, {"min_p": 1.0}):
        drawn = lm.generate("Tell", max_tokens=8, temperature=5.0, **option)
        greedy.append(drawn.result().ids)
    assert len(set(greedy)) == 1


def test_two_texts_may_take_turns(lm):
    alone = [lm.generate(prompt, max_tokens=6).result().ids for prompt in ("Tell me", "Tell us")]
    first, second = (lm.generate(prompt, max_tokens=6) for prompt in ("Tell me", "Tell us"))
    for _ in zip(first, second, strict=True):
        pass
    assert [tuple(first.ids), tuple(second.ids)] == alone


def test_tokens_are_a_prompt_too(lm):
    text = lm.generate("Tell", max_tokens=5).result()
    ids = lm.generate([BEGIN, *b"Tell"], max_tokens=5).result()
    assert text.ids == ids.ids


@pytest.mark.parametrize("at", [0, 1, 5, 9])
def test_ctrl_c_leaves_a_text_that_goes_on(lm, monkeypatch, at):
    whole = lm.generate("Tell me", max_tokens=10, temperature=1.5, seed=3).result()
    generation = lm.generate("Tell me", max_tokens=10, temperature=1.5, seed=3)
    logits, count = lm.decoding().logits, [0]

    def interrupted(tokens):
        count[0] += 1
        if count[0] == at + 1:
            raise_signal(SIGINT)
        return logits(tokens)

    monkeypatch.setattr(lm.decoding(), "logits", interrupted)
    with pytest.raises(Interrupted) as caught:
        list(generation)
    assert caught.value.message == f"generate: stopped by Ctrl-C after {at} token{'s' * (at != 1)}"
    assert len(generation.ids) == at
    assert generation.stopped is None
    assert next(generation).index == at
    result = generation.result()
    assert (result.text, result.ids) == (whole.text, whole.ids)


def test_ctrl_c_while_a_token_is_drawn_loses_none(lm, monkeypatch):
    whole = lm.generate("Tell me", max_tokens=6, temperature=1.5, seed=3).result()
    generation = lm.generate("Tell me", max_tokens=6, temperature=1.5, seed=3)
    pick = generation._sampler.pick

    def interrupted(*given, **named):
        drawn = pick(*given, **named)
        if len(generation.ids) == 2:
            raise_signal(SIGINT)
        return drawn

    monkeypatch.setattr(generation._sampler, "pick", interrupted)
    assert [next(generation).index for _ in range(2)] == [0, 1]
    with pytest.raises(KeyboardInterrupt):
        next(generation)
    assert len(generation.ids) == 3
    assert [piece.index for piece in generation] == [2, 3, 4, 5]
    assert tuple(generation.ids) == whole.ids


def test_a_quantised_model_goes_on(folder):
    lm = ll.load(folder)
    before = lm.generate("Tell me", max_tokens=3).result()
    ll.quantise(lm.model, "q8_0")
    after = lm.generate("Tell me", max_tokens=3).result()
    assert after.reused_tokens == 0  # the graph and its cache are new
    assert len(after.ids) == len(before.ids)
    assert "q8_0" in {p.form for p in lm.model.parameters().values()}


@pytest.mark.needs("jinja2")
def test_a_conversation_is_written_as_the_template_says(lm):
    hi = {"role": "user", "content": "Hi"}
    answer = lm.chat([hi], max_tokens=9).result()
    asked = [BEGIN, *b"[user]Hi[assistant]"]
    assert answer.ids == lm.generate(asked, max_tokens=9).result().ids
    assert answer.prompt_tokens == len(asked)


@pytest.mark.needs("jinja2")
def test_a_conversation_that_goes_on_is_not_read_again(lm, says):
    hi = {"role": "user", "content": "Hi"}
    lm.chat([hi], max_tokens=1).result()
    said = {"role": "assistant", "content": "Ho"}
    more = lm.chat([hi, said, hi], max_tokens=1).result()
    assert (more.prompt_tokens, more.reused_tokens) == (1 + 8 + 13 + 8 + 11, 1 + 8 + 11)


@pytest.mark.needs("jinja2")
@pytest.mark.parametrize("messages", ["Hi", [3], None])
def test_messages_are_a_list_of_them(lm, messages):
    assert error_of(lambda: lm.chat(messages), ArgumentError).message.startswith("chat: ")


@pytest.mark.needs("jinja2")
@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"role": "user", "text": "Hi"}, "no content: its keys are role, text"),
        ({"content": "Hi"}, "no role: its keys are content"),
        ({"role": None}, "no role: its keys are role"),
    ],
)
def test_a_message_has_a_role_and_a_content(lm, message, why):
    hi = {"role": "user", "content": "Hi"}
    error = error_of(lambda: lm.chat([hi, message]), ArgumentError)
    assert error.message == f"chat: message 1 has {why}"


@pytest.mark.parametrize("prompt", [3, None, b"Tell", {}])
def test_a_prompt_is_a_text(lm, prompt):
    message = error_of(lambda: lm.generate(prompt), ArgumentError).message
    assert message == f"generate: the prompt is {prompt!r}"


def test_a_prompt_of_odd_tokens_is_told(lm):
    assert error_of(lambda: lm.generate([1, "a"]), ArgumentError).message == (
        "generate: a token is 'a'"
    )
    for id in (-1, 259):
        error = error_of(lambda id=id: lm.generate([1, id]), InputError)
        assert error.message == f"generate: the prompt has the token {id}, and the model knows 259"
        assert error.hint == "they count from 0 to 258"
    assert error_of(lambda: lm.generate([]), InputError).message == (
        "generate: the prompt has no tokens"
    )


def test_an_empty_prompt_begins_with_what_begins_a_text(lm, monkeypatch):
    assert lm.generate("", max_tokens=2).result().prompt_tokens == 1
    monkeypatch.setattr(lm.tokenizer, "encode", lambda text: [])
    assert error_of(lambda: lm.generate(""), InputError).hint == (
        "this model begins a text with no token of its own: give it a word"
    )


def test_half_a_letter_is_told(lm):
    assert error_of(lambda: lm.generate("a\ud83d"), ArgumentError).message.startswith(
        "encode: the text has half a letter"
    )


@pytest.mark.parametrize("most", [0, -1, 2.5, "3", True])
def test_max_tokens_is_a_number_of_them(lm, most):
    error = error_of(lambda: lm.generate("x", max_tokens=most), ArgumentError)
    assert error.message == f"generate: max_tokens is {most!r}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1}, "generate: temperature is -1"),
        ({"temperature": "hot"}, "generate: temperature is 'hot'"),
        ({"stop": ""}, "stop: string 0 is ''"),
        ({"stop": ["a", ""]}, "stop: string 1 is ''"),
        ({"stop": 3}, "stop: 3 is no list of strings"),
        ({"seed": -1}, "generate: seed is -1"),
        ({"warmth": 1}, "generate: there is no argument 'warmth'"),
    ],
)
def test_wrong_options_are_told(lm, options, message):
    assert error_of(lambda: lm.generate("x", **options), ArgumentError).message == message


def test_what_is_shown(lm):
    assert repr(lm) == "<LanguageModel LlamaForCausalLM: 259 kinds of tokens, room for 64>"
    generation = lm.generate("x", max_tokens=2)
    assert repr(generation) == "<Generation: 0 tokens; goes on>"
    generation.result()
    assert repr(generation) == ("<Generation: 2 tokens; it has as many tokens as were asked for>")
    assert lm.session().compilation.ir.outputs


@pytest.mark.parametrize("option", ["top_k", "top_p", "min_p", "seed"])
def test_what_only_counts_with_a_temperature_is_not_ignored_without_one(lm, option):
    error = error_of(lambda: lm.generate("Tell me", **{option: 1}), ArgumentError)
    assert error.message.startswith(f"generate: {option}=1 without a temperature changes nothing")
    assert lm.generate("Tell me", temperature=0, max_tokens=1, **{option: 1}).result().ids


def test_tokens_that_a_bias_names_are_the_model_s(lm):
    error = error_of(lambda: next(lm.generate("Tell me", logit_bias={300: 1.0})), ArgumentError)
    assert error.message == "generate: logit_bias has the token 300, and the model knows 259"


def test_a_template_may_be_set(lm):
    messages = [{"role": "user", "content": "Hi"}]
    before = lm.template
    assert before is not None
    lm.template = "{{ bos_token }}{% for each in messages %}{{ each.content }}!{% endfor %}"
    try:
        assert vars(lm)["_chat"].render(messages) == "<s>Hi!"
        wrong: Any = 3
        error = error_of(lambda: setattr(lm, "template", wrong), ArgumentError)
        assert error.message == "template is 3"
        lm.template = None
        assert error_of(lambda: lm.chat(messages), ModelError).message.startswith("chat: ")
    finally:
        lm.template = before


def test_what_a_compile_takes_is_no_part_of_a_text_s_time(folder):
    lm = ll.load(folder, kind="text")
    first, second = (lm.generate("Tell me", max_tokens=2).result() for _ in range(2))
    assert first.compile_seconds > first.prompt_seconds + first.seconds
    assert second.compile_seconds == 0

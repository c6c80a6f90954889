"""OpenAI's routes, by OpenAI's own client and over plain sockets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import luminal_lab as ll
from tests.language.decoders import published_decoder
from tests.needs import need
from tests.serving.endpoints import Endpoint, served

openai = need("uvicorn", "cc", "tokenizers", "safetensors", "openai")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return published_decoder(tmp_path_factory.mktemp("lm") / "llama")


@pytest.fixture(scope="module")
def lm(folder: Path) -> Any:
    return ll.load(folder)


@pytest.fixture(scope="module")
def there(folder: Path) -> Iterator[Endpoint]:
    with served(folder) as endpoint:
        yield endpoint


@pytest.fixture
def client(there: Endpoint) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{there.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def test_the_models(client) -> None:
    assert [model.id for model in client.models.list()] == ["llama"]
    assert client.models.retrieve("llama").owned_by == "luminal_lab"
    with pytest.raises(openai.NotFoundError, match='there is no model "gpt-4"'):
        client.completions.create(model="gpt-4", prompt="Hi")


def test_a_text_is_that_of_generate(client, lm) -> None:
    wanted = lm.generate("Tell me", max_tokens=12).result()
    made = client.completions.create(model="llama", prompt="Tell me", max_tokens=12, temperature=0)
    assert made.choices[0].text == wanted.text
    assert made.choices[0].finish_reason == "length"
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (8, 12)
    drawn = {"max_tokens": 9, "temperature": 1.5, "top_p": 0.9, "seed": 7, "stop": ["e"]}
    made = client.completions.create(model="llama", prompt="Tell me", **drawn)
    assert made.choices[0].text == lm.generate("Tell me", **drawn).result().text


def test_pieces_make_the_same_text(client, lm) -> None:
    wanted = lm.generate("Tell me", max_tokens=12).result().text
    chunks = [
        *client.completions.create(
            model="llama",
            prompt="Tell me",
            max_tokens=12,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    ]
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == wanted
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * 11 + ["length"]
    assert chunks[-1].usage.completion_tokens == 12


@pytest.mark.needs("jinja2")
def test_a_chat(client, lm) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    wanted = lm.chat(messages, max_tokens=6).result().text
    asked: dict[str, Any] = {"model": "llama", "messages": messages, "temperature": 0}
    made = client.chat.completions.create(**asked, max_completion_tokens=6, logprobs=True)
    assert made.choices[0].message.role == "assistant"
    assert made.choices[0].message.content == wanted
    assert len(made.choices[0].logprobs.content) == 6
    assert all(part.logprob < 0 for part in made.choices[0].logprobs.content)
    chunks = [*client.chat.completions.create(**asked, max_tokens=6, stream=True)]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content for chunk in chunks) == wanted
    parts = [{"type": "text", "text": "Hi"}]
    made = client.chat.completions.create(
        model="llama", messages=[messages[0], {"role": "user", "content": parts}], max_tokens=6,
        temperature=0,
    )  # fmt: skip
    assert made.choices[0].message.content == wanted


def test_several_texts(client, lm) -> None:
    made = client.completions.create(
        model="llama", prompt=["Tell me", "And"], n=2, max_tokens=5, temperature=0
    )
    wanted = [lm.generate(p, max_tokens=5).result().text for p in ("Tell me", "And")]
    assert [choice.text for choice in made.choices] == [t for t in wanted for _ in range(2)]
    ids = lm.tokenizer.encode("Tell me")
    made = client.completions.create(model="llama", prompt=ids, max_tokens=5, temperature=0)
    assert made.choices[0].text == wanted[0]


def test_twenty_clients_at_once_get_what_each_gets_alone(client, lm) -> None:
    prompts = [f"{number} Tell me" for number in range(20)]
    wanted = [lm.generate(prompt, max_tokens=10).result().text for prompt in prompts]

    def ask(prompt: str) -> str:
        return (
            client.completions.create(model="llama", prompt=prompt, max_tokens=10, temperature=0)
            .choices[0]
            .text
        )

    with ThreadPoolExecutor(20) as pool:
        assert [*pool.map(ask, prompts)] == wanted


def test_a_cut_connection_frees_its_work(there: Endpoint, client) -> None:
    before = there.metric("tokens_total")
    stream = client.completions.create(
        model="llama", prompt="Tell me", max_tokens=50, stream=True, logit_bias={"257": -100}
    )
    next(iter(stream))
    stream.close()
    for _ in range(500):
        if not (there.metric("texts_now") or there.metric("texts_waiting")):
            break
        time.sleep(0.02)
    assert there.metric("texts_now") == 0
    assert there.metric("tokens_total") > before
    assert there.metric("body_bytes") == 0


REFUSED = {
    "no prompt": ({"prompt": None}, "a prompt is null"),
    "an empty prompt": ({"prompt": []}, "the prompt has no tokens"),
    "an odd prompt": ({"prompt": {"a": 1}}, 'a prompt is {"a": …}'),
    "odd tokens": ({"prompt": [1, -1]}, "a prompt is [1, -1]"),
    "a long prompt": ({"prompt": "x" * 65}, "the prompt has 66 tokens, and there is room for 64"),
    "a huge prompt": ({"prompt": "x" * 5000}, "the prompt has 5,000 letters"),
    "half a letter": ({"prompt": "\ud800"}, "the text has half a letter"),
    "temperature": ({"temperature": -1}, "temperature is -1"),
    "a text as a number": ({"temperature": "hot"}, "temperature is 'hot'"),
    "max_tokens": ({"max_tokens": 1.5}, "max_tokens is 1.5, and must be a whole number"),
    "none": ({"max_tokens": 0}, "max_tokens is 0"),
    "n": ({"n": 100}, "100 texts are too many: 16"),
    "stop": ({"stop": [1]}, "stop is at most 4 texts of 200 letters"),
    "stream": ({"stream": "yes"}, 'stream is "yes", and must be true or false'),
    "options": ({"stream_options": 1}, "stream_options is no object"),
    "bias": ({"logit_bias": {"x": 1}}, 'logit_bias has "x", no token'),
    "an unknown token": ({"logit_bias": {"999": 1}}, "logit_bias has the token 999"),
    "echo": ({"echo": True}, "echo is not here"),
    "logprobs": ({"logprobs": 5}, "logprobs are those of the tokens chosen: 0"),
    "tools": ({"tools": [{"type": "function"}]}, "tools is not here"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(there: Endpoint, case: str) -> None:
    more, words = REFUSED[case]
    status, answer = there.ask("/v1/completions", {"model": "llama", "prompt": "Hi", **more})
    assert (status, answer["error"]["message"][: len(words)]) == (400, words)
    assert answer["error"]["type"] == "invalid_request_error"


@pytest.mark.needs("jinja2")
@pytest.mark.parametrize(
    ("messages", "words"),
    [
        (None, "messages is null, and no list"),
        ([], "messages is [], and no list"),
        (["Hi"], 'a message is "Hi", and no object'),
        ([{"role": "user"}], "chat: message 0 has no content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "a message has parts"),
        ([{"role": "user", "content": 3}], "a message has the content 3"),
        ([{"role": "user", "content": "x" * 9000}], "the prompt has too many letters"),
    ],
)
def test_messages_that_are_refused(there: Endpoint, messages, words: str) -> None:
    status, answer = there.ask("/v1/chat/completions", {"model": "llama", "messages": messages})
    assert (status, answer["error"]["message"][: len(words)]) == (400, words)

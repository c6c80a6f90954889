"""Chats as texts: the template that a model's files have, rendered in Jinja's sandbox.

    folder/chat_template.jinja           the template
    folder/tokenizer_config.json         or here, as `chat_template`, alone or with others by name
    tokenizer.chat_template              or this key of a GGUF file

A template is a stranger's program. Nothing but data is in its reach, and it may do little work.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, cast

from typing_extensions import override

from luminal_lab.errors import ArgumentError, DeviceError, InputError, nearest
from luminal_lab.language.tokens import entries_of, text_of_token
from luminal_lab.reading import read_plain, shown

MOST_LETTERS: Final = 1 << 17
"""The most letters of a template; long ones have a fifth."""
DEEPEST: Final = 32
"""The deepest nesting of what messages hold."""
PLAIN: Final = "fetch the model again; lm.generate(text) needs no template"
THOUGHTS: Final = ("reasoning_content", "thinking", "reasoning")
TEMPLATE: Final = "tokenizer.chat_template"
"""The key of GGUF files."""


class ChatTemplate:
    r'''The template of a model: what its texts look like that are chats.

    >>> from luminal_lab.language.chat import ChatTemplate
    >>> source = """{{ bos_token }}{% for message in messages -%}
    ... <{{ message.role }}>{{ message.content | trim }}
    ... {% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"""
    >>> template = ChatTemplate(source, bos="<s>", path="model.gguf")
    >>> print(template.render([{"role": "user", "content": " Hi! "}]))
    <s><user>Hi!
    <assistant>
    '''

    def __init__(self, source: str, *, bos: str = "", eos: str = "", path: str | Path) -> None:
        self.source, self.bos, self.eos, self.path = source, bos, eos, path
        if len(source) > MOST_LETTERS:
            raise InputError(
                f"chat: {path}: its template has {len(source):,} letters, and {MOST_LETTERS:,} "
                "are the most",
                hint=PLAIN,
            )
        self._sandbox = _sandbox()
        environment = self._sandbox.Sandbox()
        with self._told(None):
            self._template = environment.from_string(source)

    @override
    def __repr__(self) -> str:
        return f"<ChatTemplate of {self.path}: {len(self.source):,} letters>"

    def render(
        self,
        messages: Sequence[Mapping[str, object]],
        *,
        add_generation_prompt: bool = True,
        **more: object,
    ) -> str:
        """Return messages as the text that a model goes on from.

        A message has a `role` and a `content`, and what else the template reads, such as
        `tool_calls`; so have the other arguments: `tools`, `documents`, and those of its own.

        >>> from luminal_lab.language.chat import ChatTemplate
        >>> template = ChatTemplate("{{ messages[0].content + (name or '') }}", path="model")
        >>> template.render([{"role": "user", "content": "I am "}], name="Ada")
        'I am Ada'
        """
        given: object = messages
        if not isinstance(given, (list, tuple)):
            raise ArgumentError(
                f"chat: the messages are {shown(given)}",
                hint='give a list, as in [{"role": "user", "content": "Hi"}]',
            )
        for at, message in enumerate(cast("Sequence[object]", given)):
            if not isinstance(message, Mapping):
                raise ArgumentError(
                    f"chat: message {at} is {shown(message)}",
                    hint='give a dict, as in {"role": "user", "content": "Hi"}',
                )
            _check(cast("Mapping[str, object]", message), at)
        names = {"bos_token": self.bos, "eos_token": self.eos, "tools": None, "documents": None}
        values = {
            **names,
            "messages": [_message(message, at) for at, message in enumerate(messages)],
            "add_generation_prompt": add_generation_prompt,
            **{name: _plain(value, name) for name, value in more.items()},
        }
        budget = self._sandbox.Budget(values)
        with self._told(self._template), self._sandbox.budget(budget):
            context = self._template.new_context(values)
            pieces: list[str] = []
            size = 0
            for piece in self._template.root_render_func(context):
                size += len(piece)
                if size > budget.most:
                    raise self._sandbox.TooMuchError(f"it writes more than {budget.most:,} letters")
                pieces.append(piece)
        return "".join(pieces)

    @contextmanager
    def _told(self, template: Any) -> Generator[None]:  # noqa: ANN401  # of the package
        """Say in an error of ours what a template did wrong, and in which line."""
        try:
            yield
        except self._sandbox.TemplateSyntaxError as error:
            raise InputError(
                f"chat: {self.path}: its template has a mistake in line {error.lineno}: {error}",
                hint=PLAIN,
            ) from None
        except self._sandbox.RefusalError as error:
            raise InputError(
                f"chat: {self.path}: its template does not take these messages: {error}",
                hint="the template is written so; its roles and their order are the model's own",
            ) from None
        except (Exception, RecursionError, MemoryError) as error:
            where = _line(template, error.__traceback__)
            what = "was stopped" if isinstance(error, self._sandbox.TooMuchError) else "failed"
            why = str(error) or type(error).__name__
            raise InputError(
                f"chat: {self.path}: its template {what}{where}: {why}", hint=PLAIN
            ) from None


def _line(template: Any, trace: TracebackType | None) -> str:  # noqa: ANN401  # of the package
    """Return where in a template an error came from."""
    line = 0
    while trace is not None:
        if template is not None and trace.tb_frame.f_code.co_filename == "<template>":
            line = template.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return f" in line {line}" if line else ""


def _check(message: Mapping[str, object], at: int) -> None:
    """Raise if a message lacks what each has: templates write nothing in its place."""
    wanted = ("role", "content") if message.get("role") == "user" else ("role",)
    for name in wanted:
        if message.get(name) is None:
            raise ArgumentError(
                f"chat: message {at} has no {name}: its keys are {', '.join(map(str, message))}",
                hint='as in {"role": "user", "content": "Hi"}',
            )


def _message(message: Mapping[str, object], at: int) -> dict[str, Any]:
    """Return a message as templates are used to it: what is None is left out.

    What a model thought has several names, of which the first is the one that templates read.
    """
    whole = {name: part for name, part in message.items() if part is not None}
    thought = next((whole[name] for name in THOUGHTS if name in whole), None)
    if thought is not None:
        whole = {"thinking": thought, **whole, "reasoning_content": thought}
    return _plain(whole, f"message {at}")


def _plain(value: object, what: str, deep: int = 0) -> Any:  # noqa: ANN401  # data
    """Return a copy of data that has no methods but those of Python's own types."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if deep > DEEPEST:
        raise ArgumentError(f"chat: {what} is nested more than {DEEPEST} deep")
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {_plain(n, what, deep + 1): _plain(part, what, deep + 1) for n, part in pairs}
    if isinstance(value, (list, tuple)):
        return [_plain(part, what, deep + 1) for part in cast("Sequence[object]", value)]
    raise ArgumentError(
        f"chat: {what} has {shown(value)}, which is no data",
        hint="give texts, numbers, lists and dicts",
    )


def _sandbox() -> Any:  # noqa: ANN401  # a module that needs the package
    try:
        from luminal_lab.language import chat_sandbox  # noqa: PLC0415  # it needs the package
    except ImportError:
        raise DeviceError(
            "chat: the package jinja2, which chat templates are written for, is not installed",
            hint='pip install "luminal-lab[lm]"',
        ) from None
    return chat_sandbox


def chat_template_of(
    source: str | Path | Mapping[str, object],
    path: str | Path | None = None,
    *,
    name: str | None = None,
) -> ChatTemplate | None:
    """Return the template of a model by its folder, or the keys of its GGUF file; None without.

    Some models have several, by names such as `tool_use`; `name` chooses one.

    >>> from luminal_lab.language.chat import chat_template_of
    >>> (folder / "chat_template.jinja").write_text("{{ messages | length }}")
    23
    >>> chat_template_of(folder).render([])
    '0'
    """
    if isinstance(source, (str, Path)):
        folder = Path(source)
        path = folder / "tokenizer_config.json"
        entries = entries_of(path, "chat")
        ends = [text_of_token(entries.get(f"{end}_token")) or "" for end in ("bos", "eos")]
        templates, path = _of_folder(folder, entries, path)
    else:
        path = "the file" if path is None else path
        templates = _of_keys(source)
        tokens = source.get("tokenizer.ggml.tokens")
        ends = [_token(source, tokens, f"tokenizer.ggml.{end}_token_id") for end in ("bos", "eos")]
    wanted = "default" if name is None else name
    if wanted not in templates:
        if name is None and not templates:
            return None
        raise InputError(
            f"chat: {path} has no template {shown(wanted)}",
            hint=nearest(wanted, templates) or f"it has {', '.join(templates) or 'none'}",
        )
    text = templates[wanted]
    if not isinstance(text, str):
        raise InputError(f"chat: {path}: its template is {shown(text)}, and no text", hint=PLAIN)
    return ChatTemplate(text, bos=ends[0], eos=ends[1], path=path)


def _of_folder(
    folder: Path, entries: Mapping[str, object], path: Path
) -> tuple[dict[str, object], Path]:
    """Return the templates of a folder by name, and the file that they are in."""
    file = folder / "chat_template.jinja"
    try:
        text = read_plain(file, 4 * MOST_LETTERS).decode()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        raise InputError(f"chat: {file} cannot be read: {error}", hint=PLAIN) from error
    else:
        return {"default": text}, file
    given = entries.get("chat_template")
    if not isinstance(given, list):
        return ({} if given is None else {"default": given}), path
    templates: dict[str, object] = {}
    for item in cast("list[object]", given):
        if not isinstance(item, dict):
            raise InputError(f"chat: {path} has the template {shown(item)}", hint=PLAIN)
        item = cast("dict[str, object]", item)
        templates[str(item.get("name"))[:80]] = item.get("template")
    return templates, path


def _of_keys(keys: Mapping[str, object]) -> dict[str, object]:
    """Return the templates of a GGUF file by name."""
    templates = {
        name.removeprefix(f"{TEMPLATE}."): keys[name]
        for name in keys
        if name.startswith(f"{TEMPLATE}.")
    }
    return {"default": keys[TEMPLATE], **templates} if TEMPLATE in keys else templates


def _token(keys: Mapping[str, object], tokens: object, name: str) -> str:
    """Return the token that a key has the id of, or nothing."""
    id = keys.get(name)
    if not isinstance(id, int) or not isinstance(tokens, list):
        return ""
    names = cast("list[object]", tokens)
    return str(names[id]) if 0 <= id < len(names) else ""

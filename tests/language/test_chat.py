"""Templates of chats: the text that their authors meant, and nothing that a stranger's may do."""

import random
import tracemalloc

import pytest

from luminal_lab.errors import InputError
from tests.damage import check_error, words_damaged
from tests.needs import need

need("jinja2")
MOST_MB = 256
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": " Hi "},
    {"role": "assistant", "content": "Hello", "tool_calls": [{"name": "f", "arguments": {"a": 1}}]},
    {"role": "user", "content": "Bye"},
]
WHOLE = {
    "chatml": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m['content'] | trim }}<|im_end|>"
    "\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "llama": "{{ bos_token }}{%- set ns = namespace(n=0, last='') -%}{%- for m in messages -%}"
    "{%- if m.role == 'system' and loop.first %}[{{ m.content }}]{%- elif m.tool_calls is defined "
    "%}{% for c in m.tool_calls %}{{ c | tojson }}{% endfor %}{% set ns.n = ns.n + 1 %}"
    "{%- else %}{{ m.content.split(' ')[1:] | join('') or m.content }}{{ eos_token }}"
    "{%- endif -%}{%- endfor -%}{{ ns.n }}",
    "macro": "{% macro turn(role, text='') %}<{{ role | upper }}>{{ text | replace('\\n', ' ') }}"
    "{% endmacro %}{% for m in messages if m.role != 'system' %}{{ turn(m.role, m.content) }}"
    "{% else %}{{ raise_exception('no messages') }}{% endfor %}",
}
HOSTILE = [
    "{{ messages.__class__.__mro__[1].__subclasses__() }}",
    "{{ '{0.__class__}'.format(messages) }}{{ raise_exception('end') }}{{ self.__init__ }}",
    "{{ cycler.__init__.__globals__.os.system('true') }}",
    "{{ range(10**9) | list }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
    "{{ 'x' * 10**10 }}",
    "{{ [0] * 10**9 }}",
    "{{ 9 ** (9 ** 9) }}",
    "{% set n = namespace(s='x') %}{% for a in range(64) %}{% set n.s = n.s + n.s %}{% endfor %}",
    "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% extends 'a' %}",
    "{{ '%999999999d' % 1 }}",
    "{{ '{:999999999}'.format(1) }}",
    "{{ 'x' | center(10**9) }}",
    "{{ 1 // 0 }}",
    "{% if %}",
    "{{ " + "(" * 9000 + "1" + ")" * 9000 + " }}",
    "{{ messages | sum(start='x' * 10**9) }}",
]
PARTS = (
    "loop", "namespace", "range", "10**9", "*", "**", "__class__", "|", "join", "list", "{%", "%}",
    "{{", "}}", "for", "in", "macro", "endmacro", "set", "messages", "include", "'x'", "~",
    "tojson", "attr", "format", "[", "]", "(", ")", "recursive", "turn", "self", "import", "sort",
)  # fmt: skip


def rendered(source: str) -> str | None:
    """Return what a template writes, or None where it is refused."""
    chat = pytest.importorskip("luminal_lab.language.chat")
    tracemalloc.reset_peak()
    try:
        template = chat.ChatTemplate(source, bos="<s>", eos="</s>", path="model.gguf")
        return template.render(MESSAGES)
    except InputError as error:
        check_error(error, "model.gguf")
        return None
    finally:
        assert tracemalloc.get_traced_memory()[1] < MOST_MB << 20


@pytest.fixture(autouse=True)
def _traced():
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_templates_write_what_their_authors_meant():
    assert rendered(WHOLE["chatml"]) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
        "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    assert rendered(WHOLE["llama"]) == (
        '<s>[Be brief.]Hi</s>{"name": "f", "arguments": {"a": 1}}Bye</s>1'
    )
    assert rendered(WHOLE["macro"]) == "<USER> Hi <ASSISTANT>Hello<USER>Bye"


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_what_a_stranger_might_do_is_refused(at):
    assert rendered(HOSTILE[at]) is None


def test_what_is_not_in_reach_is_undefined():
    assert rendered("{{ ''['__class__'] }}{{ messages | attr('__class__') | list }}") == "[]"


@pytest.mark.share("part", range(20), 1)
def test_a_changed_template_writes_or_is_refused(part):
    for case in range(50):
        drawn = random.Random(f"chat {part} {case}")
        source = words_damaged(drawn, drawn.choice([*WHOLE.values()]))
        for _ in range(drawn.randrange(4)):
            at = drawn.randrange(len(source) + 1)
            source = f"{source[:at]} {drawn.choice(PARTS)} {source[at:]}"
        rendered(source)

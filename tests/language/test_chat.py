"""Templates of chats: the text that their authors meant, and nothing that a stranger's may do."""

import json
import random
import subprocess
import sys
import tracemalloc

import pytest

from luminal_lab.errors import InputError
from luminal_lab.language.chat import ChatTemplate
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
    "{% for a in range(99999) %}{% for b in range(99999) %}{% set x = [a, b] %}{% endfor %}"
    "{% endfor %}",
]
REACHING = [
    "{{ cycler.__init__.__globals__.__builtins__.open('MARK', 'w') }}",
    "{{ raise_exception.__globals__['__builtins__']['open']('MARK', 'w') }}",
    "{{ strftime_now.__globals__.json.codecs.builtins.open('MARK', 'w') }}",
    "{{ dict.__globals__ }}{{ (dict | attr('__globals__')).__builtins__.open('MARK', 'w') }}",
    "{{ joiner.__init__.__globals__.__builtins__.setattr(messages, 'MARK', 1) }}",
    "{{ ''.__class__.__base__.__subclasses__()[140].__init__.__globals__.system('touch MARK') }}",
    "{{ (messages | map('upper')).gi_frame.f_back.f_builtins.open('MARK', 'w') }}",
    "{% macro f() %}{% endmacro %}{{ f._func.__globals__.__builtins__.open('MARK', 'w') }}",
    "{% macro f() %}{% endmacro %}{{ f._environment.compile_expression('1', 'MARK') }}",
    "{{ self._TemplateReference__context.environment.handle_exception('MARK') }}",
    "{{ messages | map(attribute='__class__.__base__.__subclasses__') | list | first | list }}",
    "{{ messages | map('attr', '__init__') | list | first | attr('__globals__') | join }}"
    "{{ ([] | attr('append'))('MARK') }}",
    "{% set ns = namespace(__class__=1) %}",
    "{% set ns = namespace() %}{% set ns.__init__ = cycler %}{{ ns() }}",
    "{{ messages.append('MARK') }}",
    "{{ messages[0].pop('role') }}",
    "{{ messages[0].update({'MARK': 1}) }}",
    "{{ '{0.__globals__[__builtins__]}'.format_map({'0': dict}) }}",
    "{{ ('{0.__init__.__globals__}'.format(cycler)) ~ raise_exception('MARK') }}",
    "{% from 'MARK' import x %}",
    '{{ exec(\'open("MARK", "w")\') }}',
    "{{ __import__('os').system('touch MARK') }}",
    "{{ joiner.__init__.__code__.replace(co_name='MARK')() }}",
]
"""Ways to what lies outside a template; each would write a file MARK, or change what there is."""
CHILD = """
import builtins, json, os, resource, sys
from luminal_lab.errors import InputError
from luminal_lab.language.chat import ChatTemplate
from luminal_lab.language.chat import ChatTemplate

given = json.load(sys.stdin)
resource.setrlimit(resource.RLIMIT_CPU, (given["seconds"], given["seconds"]))
seen, is_on = [], False
OUTSIDE = ("open", "import", "exec", "compile", "os.", "subprocess.", "socket.", "ctypes.",
           "shutil.", "object.__setattr__", "code.", "function.", "sys._getframe", "cpython.")

def heard(event, about):
    if is_on and event.startswith(OUTSIDE):
        seen.append(f"{event} {about!r}"[:200])

sys.addaudithook(heard)
names = {*vars(builtins)}
for source in given["sources"]:
    print(json.dumps(source), flush=True)
    messages = json.loads(json.dumps(given["messages"]))
    said = None
    try:
        template = ChatTemplate(source, bos="<s>", eos="</s>", path="model.gguf")
        is_on = True
        said = template.render(messages)
    except InputError:
        pass
    is_on = False
    assert said is None, said
    assert not seen, seen
    assert messages == given["messages"]
    assert {*vars(builtins)} == names
assert not os.listdir(), os.listdir()
print("end")
"""
"""Renders templates, and ends at once where one does anything but fail."""
MOST_SECONDS = 30
"""Of a processor, for all of them: on a machine that does other things as well it is no less."""
PARTS = (
    "loop", "namespace", "range", "10**9", "*", "**", "__class__", "|", "join", "list", "{%", "%}",
    "{{", "}}", "for", "in", "macro", "endmacro", "set", "messages", "include", "'x'", "~",
    "tojson", "attr", "format", "[", "]", "(", ")", "recursive", "turn", "self", "import", "sort",
)  # fmt: skip


def rendered(source: str) -> str | None:
    """Return what a template writes, or None where it is refused."""
    tracemalloc.reset_peak()
    try:
        template = ChatTemplate(source, bos="<s>", eos="</s>", path="model.gguf")
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


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of a process")
def test_nothing_that_a_stranger_writes_is_executed(tmp_path):
    given = {"sources": [*HOSTILE, *REACHING], "messages": MESSAGES, "seconds": MOST_SECONDS}
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert lines[-1:] == ["end"], (done.returncode, lines[-1:], done.stderr)
    assert len(lines) == len(given["sources"]) + 1
    assert not [*tmp_path.iterdir()]


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

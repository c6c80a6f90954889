"""`luminal-lab generate`: a text that goes on from a prompt, or an answer, as it is made."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from shlex import quote
from typing import Any, get_args

import luminal_lab
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.saying import say
from luminal_lab.errors import ArgumentError, InputError, counted
from luminal_lab.language.decoding import Activations
from luminal_lab.language.generation import REASONS, GeneratedText, Generation
from luminal_lab.language.load import KINDS
from luminal_lab.language.model import LanguageModel
from luminal_lab.language.transcriber import Transcriber

ABOUT = """\
Let a language model go on with a text, and show what it says while it says it. The model is a GGUF
file, a folder with config.json and safetensors, or the name of one that Hugging Face's tools have
fetched. Ctrl-C stops it."""
EXAMPLES = """\
luminal-lab generate model.gguf "Once upon a time"            go on until the model ends it
luminal-lab generate folder "Tell me" --max-tokens 50 --stats
luminal-lab generate Qwen/Qwen2.5-0.5B-Instruct "Who are you?" --chat --temperature 0.7
luminal-lab generate model.gguf - --chat < question.txt       the prompt from standard input"""


LLAMA_CPP: Mapping[str, str] = {
    **dict.fromkeys(("-m", "--model", "-p", "--prompt"), "MODEL PROMPT, without an option"),
    **dict.fromkeys(("-n", "--n-predict", "--predict"), "--max-tokens"),
    **dict.fromkeys(("-c", "--ctx-size"), "--context"),
    **dict.fromkeys(("-s", "--random-seed"), "--seed"),
    **dict.fromkeys(("-sys", "--system-prompt"), "--system"),
    **dict.fromkeys(("-cnv", "--conversation"), "--chat"),
    **dict.fromkeys(("-r", "--reverse-prompt"), "--stop"),
    "--temp": "--temperature",
}
"""What llama.cpp calls options, and what they are here."""
LEAST_SHOWN = 0.05
"""The least seconds of a compile that are shown."""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.elsewhere |= LLAMA_CPP
    reader.add_argument("model", metavar="MODEL", help="a GGUF file, a folder, or a name")
    reader.add_argument("prompt", metavar="PROMPT", help="what the text begins with; - reads it")
    reader.add_argument(
        "--max-tokens", metavar="N", type=int, help="at most so many; default: as the model ends"
    )
    reader.add_argument(
        "--temperature",
        metavar="T",
        type=float,
        help="draw tokens; without it, the likeliest",
    )
    reader.add_argument("--top-k", metavar="K", type=int, help="of the K likeliest tokens")
    reader.add_argument("--top-p", metavar="P", type=float, help="of the likeliest, up to P in all")
    reader.add_argument("--seed", metavar="N", type=int, help="the same one draws the same text")
    reader.add_argument(
        "--stop", metavar="TEXT", action="append", default=[], help="end before it; may be repeated"
    )
    reader.add_argument("--chat", action="store_true", help="the prompt is a message to answer")
    reader.add_argument(
        "--system", metavar="TEXT", help="with --chat: what the model is told first"
    )
    reader.add_argument("--context", metavar="N", type=int, help="the tokens there is room for")
    reader.add_argument(
        "--activations",
        choices=get_args(Activations),
        default="float32",
        help="int8: steps multiply weights in few bits by integers; bfloat16: prompts multiply "
        "weights in bfloat16 by such numbers; both are faster, and round",
    )
    reader.add_argument("--stats", action="store_true", help="say how fast it was, at the end")


def run(given: argparse.Namespace) -> int:
    """Generate, and show each piece as it comes."""
    if given.system is not None and not given.chat:
        raise ArgumentError(
            "generate: --system is for conversations", hint="give --chat too, or leave it out"
        )
    prompt = sys.stdin.read() if given.prompt == "-" else given.prompt
    lm: object = luminal_lab.load(given.model, context=given.context, activations=given.activations)
    if not isinstance(lm, LanguageModel):
        hears = isinstance(lm, Transcriber)
        raise InputError(
            f"generate: {given.model} {KINDS['speech' if hears else 'vectors']}, and goes on with "
            "none",
            hint=f"luminal-lab transcribe {quote(given.model)} sound.wav writes one down"
            if hears
            else "in Python, ll.load(…).embed([…]) makes them",
        )
    generation = _begun(lm, prompt, given)
    try:
        for piece in generation:
            say(piece.text, end="", flush=True)
    except KeyboardInterrupt:
        say(flush=True)  # what follows is no part of the text
        say("stopped", error=True)
        return 130
    say()
    if given.stats:
        say(told(generation.result()), error=True)
    return 0


def _begun(lm: LanguageModel, prompt: str, given: argparse.Namespace) -> Generation:
    how: dict[str, Any] = {
        "max_tokens": given.max_tokens,
        "temperature": given.temperature,
        "top_k": given.top_k,
        "top_p": given.top_p,
        "seed": given.seed,
        "stop": given.stop,
    }
    if not given.chat:
        return lm.generate(prompt, **how)
    messages = [{"role": "user", "content": prompt}]
    if given.system is not None:
        messages.insert(0, {"role": "system", "content": given.system})
    return lm.chat(messages, **how)


def told(result: GeneratedText) -> str:
    """Return a text's numbers, without what a compile took in the speeds.

    >>> print(told(GeneratedText("ab", (1, 2, 3), "end", 8, 0, 0.5, 0.25)))
    8 tokens of the prompt at 16.0 a second; 3 tokens at 8.0 a second
    it ends because the model ended it
    """
    read = result.prompt_tokens - result.reused_tokens
    made = result.compile_seconds
    return (
        (f"its kernels were made in {made:.1f} s\n" if made >= LEAST_SHOWN else "")
        + f"{counted(read, 'token')} of the prompt at {result.prompt_rate:.1f} a second; "
        f"{counted(len(result.ids), 'token')} at {result.rate:.1f} a second\n"
        f"it ends because {REASONS[result.stopped]}"
    )


COMMAND = Command("generate", ABOUT, EXAMPLES, options, run)

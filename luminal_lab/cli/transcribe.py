"""`luminal-lab transcribe`: what is said in a sound, a line for each 30 seconds."""

from __future__ import annotations

import argparse
from pathlib import Path

import luminal_lab
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.saying import say
from luminal_lab.errors import ArgumentError, InputError
from luminal_lab.language.load import KINDS
from luminal_lab.language.mel import RATE, WINDOW
from luminal_lab.language.sound import read_wav
from luminal_lab.language.transcriber import ALL, Transcriber

ABOUT = """\
Write down what is said in a WAV file, by a Whisper: a folder with config.json and safetensors, or
the name of one that Hugging Face's tools have fetched. A long sound is written down in parts, as
long as the model hears at once, each a line; a word that lies across their border may be lost.
Ctrl-C stops it."""
EXAMPLES = """\
luminal-lab transcribe openai/whisper-tiny talk.wav          in the language that it hears
luminal-lab transcribe folder talk.wav --language de         in this one
luminal-lab transcribe folder talk.wav --translate           into English"""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument("model", metavar="MODEL", help="a folder, or a name")
    reader.add_argument("sound", metavar="SOUND", type=Path, help="a WAV file, of any rate")
    reader.add_argument("--language", metavar="CODE", help="as in en; default: the one it hears")
    reader.add_argument("--translate", action="store_true", help="into English")
    reader.add_argument("--max-tokens", metavar="N", type=int, help="at most so many for each part")


def run(given: argparse.Namespace) -> int:
    """Write it down, part by part."""
    if given.max_tokens is not None and given.max_tokens < 1:
        raise ArgumentError(
            f"transcribe: --max-tokens is {given.max_tokens}", hint="give a whole number, 1 or more"
        )
    sound = read_wav(given.sound)
    model: object = luminal_lab.load(given.model)
    if not isinstance(model, Transcriber):
        raise InputError(
            f"transcribe: {given.model} writes down no sounds",
            hint="luminal-lab generate goes on with texts; a model that "
            f"{KINDS['speech']} is a Whisper, as in openai/whisper-tiny",
        )
    count = round(model.seconds * RATE)
    how = {"language": given.language, "task": "translate" if given.translate else None}
    try:
        for begin in range(0, max(1, len(sound)), count):
            part = sound[begin : begin + count]
            if not begin or len(part) > WINDOW:  # a rest of less says nothing
                say(model.text(part, most=given.max_tokens or ALL, **how).strip(), flush=True)
    except KeyboardInterrupt:
        say("stopped", error=True)
        return 130
    return 0


COMMAND = Command("transcribe", ABOUT, EXAMPLES, options, run)

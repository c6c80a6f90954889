"""`python -m tests.rain`: write the model of docs/language.md into a folder, by default `rain`."""

import sys
from pathlib import Path

from tests.language.decoders import published_chain

RAIN = """\
Rain falls on hills and fills the rivers.
The rivers run to the sea.
The sun warms the sea and makes clouds.
assistant: Clouds bring rain.
"""
ROLES = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }} {% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
"""What the model of docs/language.md says, and its template."""


def rain(folder: Path) -> Path:
    """Write a Llama that says what follows in four sentences, and return its folder."""
    return published_chain(folder, RAIN, ROLES)


if __name__ == "__main__":
    rain(Path(*sys.argv[1:] or ["rain"]))

"""Make the tables of docs/memory.md: what memory two published models take, by their shapes alone.

    python docs/memory.py            writes the tables into the page
    python docs/memory.py --check    fails if they are not what it would write

No weight of these models is needed: the tables come from the memory plans of their compiles.
"""

import functools
import sys
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

sys.path.append(str(Path(__file__).parents[1]))

from luminal_lab.devices.cpu import assembly
from luminal_lab.language.memory import CHUNK, ModelMemory, memory_plan
from luminal_lab.machines.machine import Machine

PAGE = Path(__file__).with_suffix(".md")
BEGIN, END = "<!-- made by python docs/memory.py -->\n", "<!-- until here -->"
LLAMA: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 8192,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500_000.0,
    "vocab_size": 128_256,
}
MISTRAL: Final[dict[str, Any]] = {
    **LLAMA,
    "architectures": ["MistralForCausalLM"],
    "max_position_embeddings": 32_768,
    "rope_theta": 1_000_000.0,
    "sliding_window": None,
    "vocab_size": 32_768,
}
"""That of version 0.3."""
MODELS: Final = {"Llama 3 8B": LLAMA, "Mistral 7B": MISTRAL}
FORMS: Final = {"Q8_0": "q8_0", "Q4_K_M": "q4_k_m"}
ROWS: Final = [(model, form) for model in MODELS for form in FORMS]
CONTEXTS: Final = 2048, 4096, 8192, 16_384, 32_768
MACHINES: Final = 16, 24
"""GiB of memory."""
KIND: Final = Machine(vector_bytes=64, cores=2)
"""The kind of machine: kernels, and so what they keep on the way, follow from its vectors."""
REST: Final = 2
"""GiB that are left to the system, and to Python and its libraries."""


@functools.cache
def plan(model: str, form: str) -> ModelMemory:
    """Return what a model takes in a form."""
    with patch.object(assembly, "this_machine", return_value=KIND):
        return memory_plan(MODELS[model], FORMS[form])


def row(model: str, form: str) -> str:
    """Return the first table's line for a model in a form."""
    made = plan(model, form)
    longest = made.most
    fits = [made.fits((size - REST) << 30) for size in MACHINES]
    told = ["all" if most == longest else f"{most:,}" if most else "none" for most in fits]
    parts = [
        f"{made.weights / 1e9:.2f} GB",
        f"{made.chunk(longest) / 1e6:.0f} MB",
        f"{made.step(longest) / 1e6:.1f} MB",
        *told,
    ]
    return f"| {model}, {form} | {' | '.join(parts)} |"


def cache(model: str, made: ModelMemory) -> str:
    """Return the second table's line for a model."""
    sizes = [f"{made.keys(c) / 1e9:.2f} GB" if c <= made.most else "–" for c in CONTEXTS]
    return f"| {model} | {made.token:,} bytes | {' | '.join(sizes)} |"


def tables() -> str:
    """Return both tables."""
    first = ["| | weights | a prompt's chunk | a step | context, 16 GB | context, 24 GB |"]
    first += ["|---|---|---|---|---|---|", *(row(*which) for which in ROWS)]
    second = [f"| keys and values | a token | {' | '.join(f'{c:,}' for c in CONTEXTS)} |"]
    second += ["|---" * (len(CONTEXTS) + 2) + "|"]
    second += [cache(model, plan(model, "Q8_0")) for model in MODELS]
    return "\n".join([*first, "", *second]) + "\n"


def main() -> int:
    """Write the page, or check it."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    text, _, after = rest.partition(END)
    made = tables()
    if "--check" in sys.argv:
        return int(text != made)
    PAGE.write_text(before + BEGIN + made + END + after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    assert CHUNK == 256
    sys.exit(main())

"""Where tokenizers of bytes cut a text into words, by the names that GGUF files have for it.

A split is one or more regular expressions: each cuts the parts that the ones before it left, and
both what matches and what lies between become parts. Pairs of bytes are merged within parts alone.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Split(NamedTuple):
    """How a family of models cuts its texts into parts."""

    patterns: tuple[str, ...]
    whole: bool = False
    """Whether a part that is a token as it is stays whole, whatever the merges say."""
    begin: bool = False
    """Whether a text begins with the token for that, unless the file says otherwise."""
    nfc: bool = False
    """Whether letters and their marks are put together first, as the models' own tokenizers do."""
    raw: bool = False
    """Whether tokens are text with ▁ for spaces, and no letters that stand for bytes."""


GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
ENDINGS: Final = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
BEFORE: Final = r"[^\r\n\p{L}\p{N}]?"


def _llama(
    digits: str = r"\p{N}", letters: str = r"\p{L}+", signs: str = r"\s\p{L}\p{N}", after: str = "*"
) -> str:
    """Return words with what is before them, digits, signs with the lines behind them, spaces."""
    return rf"{BEFORE}{letters}|{digits}| ?[^{signs}]+[\r\n]{after}|{SPACES}"


def _cased(digits: str, ending: str = f"{ENDINGS}?") -> str:
    """Return words that are cut before a capital letter, with their endings."""
    words = f"{BEFORE}{UPPER}*{LOWER}+{ending}|{BEFORE}{UPPER}+{LOWER}*{ending}"
    return rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{SPACES}"


UP_TO_3: Final = r"\p{N}{1,3}"
LLAMA3: Final = f"{ENDINGS}|{_llama(UP_TO_3)}"
QWEN2: Final = f"{ENDINGS}|{_llama()}"
CASED: Final = _cased(UP_TO_3)
HAN_AND_KANA: Final = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
ASIAN: Final = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
DEEPSEEK_3: Final = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+"
)
CASED_LETTERS: Final = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-"
    "\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
    "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-"
    "\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15"
    "\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"
    "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
    "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d"
    "\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183"
    "\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
    "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-"
    "\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb"
    "\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
"""The letters that have two cases, as DeepSeek LLM lists them."""
NO_SIGNS: Final = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"

SPLITS: Final[dict[str, Split]] = {
    **dict.fromkeys(
        ["gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v2-es", "jina-v2-de", "a.x-4.0",
         "mellum", "modern-bert", "jina-v1-en", "jina-v2-code", "roberta-bpe", "jais", "trillion",
         "granite-docling", "exaone4"],
        Split((GPT2,)),
    ),
    **dict.fromkeys(["mpt", "olmo"], Split((GPT2,), nfc=True)),
    **dict.fromkeys(
        ["llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
         "jina-v5-nano"],
        Split((LLAMA3,), whole=True, begin=True),
    ),
    **dict.fromkeys(["dbrx", "smaug-bpe", "chatglm-bpe"], Split((LLAMA3,))),
    **dict.fromkeys(["glm4", "glm5"], Split((LLAMA3,), whole=True)),
    "jais-2": Split((
        f"{ENDINGS}|" + _llama(UP_TO_3).removesuffix(r"\s+(?!\S)|\s+")
        + "".join(rf"\s{{{count}}}(?!\S)|" for count in (512, 256, 128, 64, 32, 16, 8, 4))
        + r"\s{1,2}(?!\S)|\s{1}",
    )),
    **dict.fromkeys(["qwen2", "f2llmv2"], Split((QWEN2,), nfc=True)),
    **dict.fromkeys(
        ["deepseek-r1-qwen", "kormo", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"],
        Split((QWEN2,)),
    ),
    "qwen35": Split(
        (f"{ENDINGS}|" + _llama(letters=r"[\p{L}\p{M}]+", signs=r"\s\p{L}\p{M}\p{N}"),), nfc=True
    ),
    "laguna": Split((r"[^\n]+|[\n]+", QWEN2)),
    "ufakzeka": Split((_llama(),)),
    "seed-coder": Split((
        rf"{ENDINGS}|{BEFORE}\p{{L}}+|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{SPACES}",
    )),
    **dict.fromkeys(
        ["bailingmoe", "bailingmoe2", "llada-moe"],
        Split((
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*"
            r"|\s*[\r\n]|\s+(?!\S)|\s+",
        )),
    ),
    "exaone-moe": Split((
        rf"{ENDINGS}|{BEFORE}(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
    )),
    "minicpm5": Split((UP_TO_3, f"{ENDINGS}|" + _llama(r"\p{N}+")), whole=True),
    **dict.fromkeys(
        ["starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b",
         "mellum2"],
        Split((r"\p{N}", GPT2)),
    ),
    "command-r": Split((r"\p{N}", GPT2), nfc=True),
    "falcon": Split((r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]")),
    "default": Split((r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
    "deepseek-llm": Split((
        r"[\r\n]", rf"\s?[{CASED_LETTERS}]+",
        "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", ASIAN,
        r"\p{N}+",
    )),
    "deepseek-coder": Split((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", ASIAN, r"\p{N}")),
    **dict.fromkeys(
        ["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        Split((UP_TO_3, HAN_AND_KANA, rf"{DEEPSEEK_3}[\r\n]*|{SPACES}")),
    ),
    "spark2_5": Split((
        UP_TO_3, HAN_AND_KANA, rf"{DEEPSEEK_3}|[\r\n]|\s+(?!\S)|\s+", r"\p{N}",
    )),
    "youtu": Split((
        "[\uac00-\ud7a3\u3131-\u318e]+"
        "|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+"
        f"|[\u3105-\u312f]+|{HAN_AND_KANA}",
        _cased(r"\p{N}"),
    ), whole=True),
    "tekken": Split((_cased(r"\p{N}", ""),), whole=True, begin=True),
    **dict.fromkeys(["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"], Split((CASED,))),
    "granite-embed-multi-97m": Split((CASED,), whole=True),
    **dict.fromkeys(
        ["tiny_aya", "cohere2moe"], Split((r"\d{1,3}(?=(?:\d{3})*\b)", CASED))
    ),
    **dict.fromkeys(["poro-chat", "bloom", "gpt3-finnish"], Split((NO_SIGNS,))),
    "viking": Split((NO_SIGNS, r"\p{N}")),
    "chameleon": Split((
        "<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )", r"\p{N}",
        r"[\p{P}!-/:-@\[-`{-~]", GPT2,
    ), begin=True),
    **dict.fromkeys(
        ["gemma4", "granite-embed-multi-311m"], Split((r"[^\n]+|[\n]+",), begin=True, raw=True)
    ),
    "sarvam-moe": Split((r"[^\n]+|[\n]+",), raw=True),
}  # fmt: skip
"""What each name means; the names and expressions are llama.cpp's and their tokenizers' own."""

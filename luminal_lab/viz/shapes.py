"""The outlines of nodes: one per kind, flat where edges begin and end."""

from __future__ import annotations

from luminal_lab.viz.markup import number

LEAN = 7.0
"""The slant of a side; edges keep slightly more distance from the corner."""
WORDS = {
    "input": "input",
    "parameter": "parameter",
    "constant": "constant",
    "source": "made from nothing: iota, random",
    "view": "view",
    "op": "elementwise or other op",
    "reduce": "reduction",
    "call": "call of a region",
    "kernel": "kernel of the user's",
    "launch": "launch of a kernel",
    "host": "call of the host",
    "sent": "sent between workers",
    "class": "class: any of its nodes",
    "outside": "not selected",
}
"""The words of the legend."""


def outline(kind: str, x: float, y: float, width: float, height: float) -> str:
    """Return the data of a path: a node's outline, with the inner lines that mark its kind."""
    right, below, middle = x + width, y + height, y + height / 2
    match kind:
        case "input" | "parameter":
            path = _polygon((x + LEAN, y), (right, y), (right - LEAN, below), (x, below))
            if kind == "parameter":
                path += f"M{number(x + LEAN + 5)} {number(y)}L{number(x + 5)} {number(below)}"
            return path
        case "class" | "constant" | "outside":
            most = height if kind == "class" else 9.0
            return _round(x, y, width, height, min(most, height / 2))
        case "source":
            return _polygon(
                (x + LEAN, y), (right - LEAN, y), (right, middle), (right - LEAN, below),
                (x + LEAN, below), (x, middle),
            )  # fmt: skip
        case "reduce":
            return _polygon((x, y), (right, y), (right - LEAN, below), (x + LEAN, below))
        case "call" | "sent":
            across = [
                f"M{number(x + 2)} {number(at)}h{number(width - 4)}" for at in (y + 3, below - 3)
            ]
            down = [f"M{number(at)} {number(y)}V{number(below)}" for at in (x + 5, right - 5)]
            return _round(x, y, width, height, 2) + "".join(down if kind == "call" else across)
        case "kernel" | "launch":
            cut = min(6.0, height / 4)
            path = _polygon(
                (x + cut, y), (right - cut, y), (right, y + cut), (right, below - cut),
                (right - cut, below), (x + cut, below), (x, below - cut), (x, y + cut),
            )  # fmt: skip
            if kind == "kernel":
                path += f"M{number(x + cut)} {number(y + 3)}H{number(right - cut)}"
            return path
        case "host":
            return _polygon(
                (x, y), (right - 8, y), (right, y + 8), (right, below), (x, below)
            ) + f"M{number(right - 8)} {number(y)}v8h8"  # fmt: skip
        case _:
            return _round(x, y, width, height, 5)


def _polygon(*points: tuple[float, float]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points) + "Z"


def _round(x: float, y: float, width: float, height: float, radius: float) -> str:
    r = number(radius)
    across, down = number(width - 2 * radius), number(height - 2 * radius)
    return (
        f"M{number(x + radius)} {number(y)}h{across}a{r} {r} 0 0 1 {r} {r}v{down}"
        f"a{r} {r} 0 0 1 -{r} {r}h-{across}a{r} {r} 0 0 1 -{r} -{r}v-{down}a{r} {r} 0 0 1 {r} -{r}Z"
    )

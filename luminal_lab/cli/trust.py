"""`luminal-lab trust`: show and sign the kernels in a file."""

from __future__ import annotations

import argparse
from io import BytesIO
from pathlib import Path

from luminal_lab import trust
from luminal_lab.cli.command import Command, OptionReader
from luminal_lab.cli.files import read_bytes, read_text
from luminal_lab.cli.saying import say
from luminal_lab.core.ops import UserKernel, user_kernels
from luminal_lab.core.parse import parse
from luminal_lab.devices.cuda.bundle import MANIFEST, Bundle
from luminal_lab.errors import ArgumentError, DeviceError, ParseError
from luminal_lab.io.opened import open as opened
from luminal_lab.io.recording import MAGIC, carried
from luminal_lab.serving.library import is_exported, library_in

ABOUT = """\
Sign the kernels in a recording or a graph: from then on they run here without a question, like
those that you wrote yourself. Kernels are code, so read them first: --show prints them. Signing
affects no other kernel, in whichever file. A .pt2 file, which PyTorch unpickles, is signed as a
whole, and so is the machine code of a folder: a bundle, or a model that was exported."""
EXAMPLES = """\
luminal-lab trust run.lab --show       print the kernels in it, and sign nothing
luminal-lab trust run.lab              sign them
luminal-lab trust run.lab --remove     take that back
luminal-lab trust --list               what is signed"""
ZIP = b"PK\x03\x04"
"""What a program of torch.export begins with, whatever it is called."""
STATUS = """\
exit status: 0 if all went well; 2 if it could not do what you asked; 130 if Ctrl-C stopped it"""


def options(reader: OptionReader) -> None:
    """Declare the options."""
    reader.add_argument(
        "file",
        metavar="FILE",
        type=Path,
        nargs="?",
        help="a recording, a graph as text, a .pt2 file, a bundle, or an exported model",
    )
    how = reader.add_mutually_exclusive_group()
    how.add_argument("--show", action="store_true", help="print the kernels, and sign nothing")
    how.add_argument("--remove", action="store_true", help="sign them no longer")
    how.add_argument("--list", action="store_true", help="list what is signed")


def run(given: argparse.Namespace) -> int:
    """Show, sign or list kernels."""
    if given.list != (given.file is None):
        raise ArgumentError(
            "trust: it takes a file, or --list",
            hint="luminal-lab trust FILE --show prints the kernels in a file",
        )
    if given.list:
        lines = [f"{s.digest[:12]}  {s.date}  {s.what}" for s in trust.signed().values()]
        say(
            *lines or ["nothing is signed: luminal-lab trust FILE signs kernels"],
            sep="\n",
        )
        return 0
    if is_exported(given.file):
        library = library_in(given.file)
        return signed(given, [library], compiled(given.file, library))
    if given.file.is_dir() and not (given.file / MANIFEST).is_file():
        raise ArgumentError(
            f"trust: {given.file} is neither an exported model nor a bundle for GPUs",
            hint="an exported model has model.json in its folder, a bundle bundle.json; "
            "a recording, a graph as text or a .pt2 is named itself",
        )
    if given.file.is_dir():
        bundle = Bundle.open(given.file)
        foreign, text = [bundle.foreign], bundled(bundle)
        return signed(given, foreign, text)
    data = read_bytes("trust", given.file)
    if given.file.suffix == ".pt2" or data.startswith(ZIP):
        whole = trust.exported_of(BytesIO(data), given.file.name)
        foreign, text = [whole], exported(whole)
    else:
        kernels = carried_by(given.file)
        foreign = list({item.digest: item for item in map(trust.foreign_of, kernels)}.values())
        text = "\n\n".join(map(shown, kernels))
    return signed(given, foreign, text)


def signed(given: argparse.Namespace, foreign: list[trust.Foreign], text: str) -> int:
    """Show, sign or no longer sign code, as the options say."""
    if not foreign:
        say(f"{given.file} brings no kernels along: there is nothing to trust")
        return 0
    if given.show:
        say(text)
        return 0
    before = trust.signed()
    if not (trust.unsign(foreign) if given.remove else trust.sign(foreign)):
        raise DeviceError(
            f"trust: {trust.trusted_file() or 'the file of what is signed'} cannot be written",
            hint="--trust of the other commands asks for one run alone",
        )
    for item in foreign:
        removed = "not signed any more" if item.digest in before else "was not signed"
        say(f"{removed if given.remove else 'signed'}: {item.what}, {item.digest}")
    return 0


def carried_by(file: Path) -> tuple[UserKernel, ...]:
    """Return the user kernels in a recording, or in a graph as text."""
    if file.suffix == ".lab" or read_bytes("trust", file).startswith(MAGIC):
        return carried(opened(file).subjects)
    try:
        return tuple(user_kernels(parse(read_text("trust", file))))
    except ParseError as error:
        raise ArgumentError(
            f"trust: {file} is neither a recording nor a graph as text: {error.message}",
            where=error.where,
            hint="kernels come in recordings, as cx.save writes them, and in graphs as text, as "
            "print(cx) shows them",
        ) from None


def bundled(bundle: Bundle) -> str:
    """Return what there is to read of a bundle: its programs, with their sources' files."""
    foreign, manifest = bundle.foreign, bundle.manifest
    state = "trusted" if trust.is_trusted(foreign) else "not trusted"
    files = [f"{bundle.folder / p.arch / p.source}.cu" for p in manifest.programs if p.code]
    head = f"# {foreign.what}, {state}, {foreign.digest}"
    return "\n".join([head, "its sources say what the machine code should do:", *files])


def compiled(folder: Path, foreign: trust.Foreign) -> str:
    """Return what there is to read of an exported model: the C that its library is made of."""
    state = "trusted" if trust.is_trusted(foreign) else "not trusted"
    files = sorted(str(file) for file in folder.glob("*.[ch]"))
    head = f"# {foreign.what}, {state}, {foreign.digest}"
    return "\n".join([head, "its C says what the machine code should do:", *files])


def exported(foreign: trust.Foreign) -> str:
    """Return what there is to read of a file that PyTorch unpickles."""
    state = "trusted" if trust.is_trusted(foreign) else "not trusted"
    return (
        f"# {foreign.what}, {state}, {foreign.digest}\n"
        f"{foreign.first} may run anything while it is unpickled; nothing of that can be shown"
    )


def shown(kernel: UserKernel) -> str:
    """Return a kernel for reading: its name, whether it is trusted, and its source."""
    foreign = trust.foreign_of(kernel)
    state = "trusted" if trust.is_trusted(foreign) else "not trusted"
    source = "\n".join(map(trust.printable, kernel.source.split("\n")))
    return (
        f"# {foreign.what}, {state}, {foreign.digest}\n# {trust.printable(kernel.header)}\n{source}"
    )


COMMAND = Command("trust", ABOUT, EXAMPLES, options, run, STATUS)

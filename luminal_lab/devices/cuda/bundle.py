"""A folder of kernels for a machine that has NVIDIA's driver alone: sources, and machine code.

    bundle.json             what is in it, for which cards, and what made it
    sm_90a/3f1a….cu         the source of a program, under its digest
    sm_90a/3f1a….cubin      its machine code, if there was a compiler

A program finds its code by the digest of its source, which it writes anew: other sources are other
programs. Machine code runs only if the user trusts the bundle (trust.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from luminal_lab import trust
from luminal_lab.devices.cuda.calls import version_text
from luminal_lab.devices.cuda.driver import compiled_image
from luminal_lab.devices.gpu import nvrtc
from luminal_lab.errors import ArgumentError, DeviceError
from luminal_lab.plain import plain, read
from luminal_lab.reading import read_json, read_plain
from luminal_lab.writing import write_bytes

MANIFEST: Final = "bundle.json"
WHAT: Final = "luminal_lab bundle"
SCHEMA: Final = 1
MOST: Final = 1 << 28
"""The most bytes of machine code in one file."""
AGAIN: Final = "luminal-lab bundle --arch {arch} -o FOLDER makes one"


@dataclass(frozen=True)
class BundledCode:
    """A program: the digest of its source, and of its machine code; "" without."""

    arch: str
    source: str
    code: str = ""


@dataclass(frozen=True)
class Manifest:
    """What a bundle says of itself."""

    what: str
    schema: int
    maker: str
    """The version of luminal_lab that wrote its sources."""
    cuda: int
    """The CUDA whose compiler made its machine code, as 13050; 0 without a compiler."""
    archs: tuple[str, ...]
    tasks: tuple[str, ...]
    """What `luminal-lab record` runs with it."""
    is_quick: bool
    programs: tuple[BundledCode, ...]


class Bundle:
    """A bundle on disk."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._codes = {(p.arch, p.source): p.code for p in manifest.programs}

    @classmethod
    def open(cls, folder: Path) -> Bundle:
        """Return the bundle in a folder, none of whose code has run."""
        try:
            given = read_json(read_plain(folder / MANIFEST))
            manifest = read(Manifest, given, MANIFEST)
            if manifest.what != WHAT or manifest.schema != SCHEMA:
                raise ValueError(f"it is {manifest.what!r}, format {manifest.schema}")
            for program in manifest.programs:
                _check(program)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            hint = AGAIN.format(arch="sm_90a")
            raise ArgumentError(f"bundle: {folder} is none: {MANIFEST}: {why}", hint=hint) from None
        return cls(folder, manifest)

    @property
    def foreign(self) -> trust.Foreign:
        """The part of it to be trusted."""
        codes = (f"{p.arch} {p.source} {p.code}" for p in self.manifest.programs if p.code)
        return trust.bundle_of(codes, self.folder.name)

    def admit(self, *, trusted: bool = False) -> None:
        """Raise a TrustError unless its machine code may run, as `trusted` allows it once."""
        if any(program.code for program in self.manifest.programs):
            trust.admit_bundle(self.foreign, trust=trusted)

    def arch_for(self, capability: str, name: str) -> str:
        """Return the architecture of its code for a card, or raise a DeviceError."""
        known = [arch for arch in self.manifest.archs if runs_on(arch, capability)]
        if known:
            return known[-1]
        need = f"sm_{capability}{'a' * (int(capability) >= 90)}"
        made = " and ".join(self.manifest.archs)
        raise DeviceError(
            f"bundle: it is for {made}, and the card, {name}, is {need}",
            hint=AGAIN.format(arch=need),
        )

    def check_driver(self, version: int) -> None:
        """Raise a DeviceError if a driver is too old for its machine code."""
        made = self.manifest.cuda
        if version // 1000 < made // 1000:
            raise DeviceError(
                f"bundle: the driver knows CUDA {version_text(version)}, and CUDA "
                f"{version_text(made)} made the code",
                hint="install a newer driver of NVIDIA's, or make the bundle where NVRTC is no "
                f"newer than CUDA {version // 1000}",
            )

    def image(self, source: str, arch: str, capability: str) -> bytes:
        """Return the machine code of a program, or what a compiler here makes of it."""
        trust.admit(source)
        digest = digest_of(source.encode())
        code = self._codes.get((arch, digest))
        if code is None:
            raise DeviceError(
                f"bundle: it has no such program for {arch}: luminal_lab {self.manifest.maker} "
                "made it, and this one writes other sources, or it was made without this program",
                hint=AGAIN.format(arch=arch),
            )
        if not code:
            return compiled_image(source, arch, capability)
        self.admit()
        path = self.folder / arch / f"{digest}.cubin"
        try:
            data = read_plain(path, MOST)
        except OSError as error:
            fault = f"bundle: {path} cannot be read: {error.strerror or error}"
            raise DeviceError(fault, hint="copy the whole folder once more") from None
        if digest_of(data) != code:
            fault = f"bundle: {path} is damaged: {MANIFEST} has another digest of it"
            raise DeviceError(fault, hint="copy the whole folder once more")
        return data


def runs_on(arch: str, capability: str) -> bool:
    """Return whether machine code for an architecture runs on a card.

    It is for one generation, from its version on; with an a, for that version alone.

    >>> runs_on("sm_80", "86"), runs_on("sm_86", "80"), runs_on("sm_90a", "90")
    (True, False, True)
    """
    plain_arch = arch.removeprefix("sm_").rstrip("af")
    if arch.endswith("a"):
        return plain_arch == capability
    return plain_arch[:-1] == capability[:-1] and int(plain_arch) <= int(capability)


def digest_of(data: bytes) -> str:
    """Return the digest by which a bundle knows a source or machine code."""
    return sha256(data).hexdigest()


def _check(program: BundledCode) -> None:
    """Raise a ValueError about names that would lead out of the folder."""
    plain_arch = program.arch.removeprefix("sm_").rstrip("af")
    digests = [program.source, *filter(None, [program.code])]
    is_plain = all(len(d) == 64 and set(d) <= set("0123456789abcdef") for d in digests)
    if not is_plain or not (plain_arch.isascii() and plain_arch.isdigit()):
        raise ValueError(f"{program.arch} {program.source[:80]} is no program")


def compiler_version() -> int:
    """Return the version of the CUDA that compiles here, as 13050; 0 if none does."""
    try:
        major, minor = nvrtc.version()
    except DeviceError:
        return 0
    return 1000 * major + 10 * minor


class BundleWriter:
    """Writes sources and machine code into a folder, and at last what is in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cuda = compiler_version()
        self.programs: dict[tuple[str, str], BundledCode] = {}

    def add(self, source: str, arch: str) -> None:
        """Write a program, and compile it if there is a compiler; once, if it comes again."""
        data = source.encode()
        digest = digest_of(data)
        if (arch, digest) in self.programs:
            return
        place = self.folder / arch
        place.mkdir(parents=True, exist_ok=True)
        write_bytes("bundle", place / f"{digest}.cu", data)
        code = ""
        if self.cuda:
            machine = nvrtc.compile_cuda(source, arch).cubin
            write_bytes("bundle", place / f"{digest}.cubin", machine)
            code = digest_of(machine)
        self.programs[arch, digest] = BundledCode(arch, digest, code)

    def close(self, maker: str, tasks: Sequence[str], *, is_quick: bool) -> Bundle:
        """Write what is in it, and return it; its maker may run it."""
        archs = tuple(sorted({arch for arch, _ in self.programs}, key=_number))
        names, programs = tuple(tasks), tuple(self.programs.values())
        manifest = Manifest(WHAT, SCHEMA, maker, self.cuda, archs, names, is_quick, programs)
        text = json.dumps(plain(manifest), indent=1)
        write_bytes("bundle", self.folder / MANIFEST, f"{text}\n".encode())
        bundle = Bundle(self.folder, manifest)
        trust.sign([bundle.foreign])
        return bundle


def _number(arch: str) -> tuple[int, str]:
    return int(arch.removeprefix("sm_").rstrip("af")), arch


def sizes(folder: Path) -> Iterator[int]:
    """Yield the bytes of each file in a bundle."""
    yield from (path.stat().st_size for path in folder.rglob("*") if path.is_file())

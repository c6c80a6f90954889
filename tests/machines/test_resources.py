"""What kernels of GPUs take, and how many blocks of them a card runs at once."""

from typing import Any

import pytest

from luminal_lab.errors import ArgumentError, DeviceError, UnknownNameError
from luminal_lab.kernels.kernel import Kernel, Phase
from luminal_lab.machines.cards import capability_of
from luminal_lab.machines.resources import (
    CARDS,
    CompiledCUDA,
    Resources,
    card_of,
    occupancy,
)
from tests.expect import error_of

KERNEL = Kernel("k", None, "void kernel_k() {}", (Phase("kernel_k"),))


# Worked out by hand from the tables of the programming guide, a line each.
@pytest.mark.parametrize(
    ("card", "registers", "shared", "threads", "blocks", "limit"),
    [
        ("T4", 64, 0, 1024, 1, "registers"),  # 32 warps of 2,048, which are all 65,536
        ("T4", 32, 0, 256, 4, "warps"),
        ("T4", 16, 20_000, 64, 3, "shared memory"),  # 20,224 bytes of 65,536
        ("T4", 16, 0, 32, 16, "blocks"),
        ("A100", 128, 0, 128, 4, "registers"),  # 4 warps in each quarter
        ("A100", 33, 0, 256, 6, "registers"),  # 1,280 a warp: 12 in each quarter
        ("A100", 32, 48 << 10, 256, 3, "shared memory"),  # and 1 KiB more for the system
        ("RTX 4090", 40, 0, 512, 3, "registers"),  # as many as its 48 warps allow
        ("RTX 4090", 16, 0, 64, 24, "warps"),
        ("H100", 40, 16_640, 256, 6, "registers"),
        ("H200", 168, 227 << 10, 384, 1, "shared memory"),
        ("H200", 168, 0, 384, 1, "registers"),  # 3 warps in each quarter
        ("H100", 0, 0, 1024, 2, "warps"),
    ],
)
def test_blocks_are_as_many_as_what_is_scarcest_allows(
    card: str, registers: int, shared: int, threads: int, blocks: int, limit: str
) -> None:
    found = Resources(registers, shared, threads=threads).occupancy(card)
    assert (found.blocks, found.limit) == (blocks, limit)
    warps = -(-threads // 32) * blocks
    has = capability_of(card_of(card).arch or "")
    assert has is not None
    assert (found.warps, found.share) == (warps, warps / has.warps)


def test_the_block_may_be_another_than_the_kernel_says() -> None:
    taken = Resources(32, threads=1024)
    assert str(taken.occupancy("A100", 64)) == "32 blocks, 100% of the warps; limited by registers"
    assert taken.occupancy(CARDS["A100"]).blocks == 2


def test_a_card_is_found_by_its_name_or_architecture() -> None:
    for name in ("RTX 4090", "rtx-4090", "rtx4090", "NVIDIA GeForce RTX 4090", "sm_89"):
        assert card_of(name) is CARDS["RTX 4090"]
    assert card_of("NVIDIA A100-SXM4-80GB") is CARDS["A100"]
    assert card_of("Tesla T4") is CARDS["T4"]
    assert card_of("A100 80 GB") is card_of("a100-40gb") is CARDS["A100"]
    assert card_of("H100 NVL") is CARDS["H100"]
    assert card_of("NVIDIA H200") is CARDS["H200"]


def test_a_card_that_is_not_there_is_named() -> None:
    error = error_of(lambda: card_of("H1000"), UnknownNameError)
    assert str(error) == ("occupancy: there is no card called 'H1000'\nhint: did you mean 'H100'?")
    error = error_of(lambda: card_of("xyz"), UnknownNameError)
    assert str(error) == (
        "occupancy: there is no card called 'xyz'\nhint: choose from T4, A100, RTX 4090, H100, H200"
    )


@pytest.mark.parametrize(
    ("card", "threads", "text"),
    [
        (
            None,
            64,
            "occupancy: None is not a card\nhint: give a name: T4, A100, RTX 4090, H100, H200",
        ),
        (
            "H100",
            0,
            "occupancy: a block has 0 threads\n"
            "hint: it has 1 to 1,024; without threads= those of the kernel",
        ),
        (
            "H100",
            2.5,
            "occupancy: a block has 2.5 threads\n"
            "hint: it has 1 to 1,024; without threads= those of the kernel",
        ),
    ],
)
def test_what_is_no_card_or_number_is_said(card: Any, threads: Any, text: str) -> None:
    assert str(error_of(lambda: Resources().occupancy(card, threads), ArgumentError)) == text


def test_too_many_threads_are_no_matter_of_registers() -> None:
    found = Resources(32, 100).occupancy("H100", 2048)
    assert (found.blocks, found.limit) == (0, "threads of a block")


def test_of_more_than_a_card_has_no_block_runs() -> None:
    def limit(resources: Resources, threads: int, card: str) -> str:
        fits = occupancy(resources, threads, CARDS[card])
        assert fits.blocks == 0
        return fits.limit

    assert limit(Resources(shared=100_000), 256, "T4") == "shared memory"
    assert limit(Resources(), 2048, "H100") == "threads of a block"
    assert limit(Resources(registers=96), 1024, "A100") == "registers"
    assert limit(Resources(64, (227 << 10) + 1), 1024, "H100") == "shared memory"
    assert occupancy(Resources(64, 227 << 10), 1024, CARDS["H100"]).blocks == 1


def test_a_kernel_takes_the_most_of_its_phases() -> None:
    taken = {"a": Resources(40, 100, 0, 300, 0, 64), "b": Resources(30, 200, 8, 200, 16, 256)}

    def compiled(kernel: Kernel) -> CompiledCUDA:
        assert kernel.name == "k"
        return CompiledCUDA("sm_80", "ptx", b"code", "log", taken)

    kernel = Kernel("k", None, "", (Phase("a"), Phase("b")), dialect="cuda", compile=compiled)
    assert kernel.ptx == "ptx"
    assert kernel.resources == Resources(40, 200, 8, 300, 16, 256)
    assert str(kernel.resources) == "40 registers, 200 B shared, 8 B spilled, blocks of 256"


@pytest.mark.parametrize(
    ("dialect", "language"),
    [("c", "C, for a CPU"), ("metal", "in Metal's language"), ("cuda", "CUDA")],
)
def test_other_kernels_have_no_ptx(dialect: str, language: str) -> None:
    kernel: Any = Kernel("k", None, "", (Phase("k"),), dialect=dialect)
    for ask in (lambda: kernel.ptx, lambda: kernel.resources):
        assert str(error_of(ask, DeviceError)) == (
            f"kernel k: it is {language}, which has no PTX\n"
            'hint: ll.CUDACompiler(arch="sm_90") makes kernels that have PTX, on any machine'
        )

"""The state machine: the same answers give the same questions, and what is wrong never wins."""

from random import Random

from luminal_lab.kernels.definition.text import parse_definition
from luminal_lab.kernels.nest.lowering import lower
from luminal_lab.machines.machine import Machine
from luminal_lab.search.draws import Draws
from luminal_lab.search.driver import (
    AHEAD,
    BATCH,
    FINALISTS,
    WRONG,
    Answer,
    Batch,
    DraftTrial,
    Driver,
    Outcome,
)
from luminal_lab.search.worker import answer_of
from tests.search.planted import guess, matmul, seconds_of, tiles

REFERENCE = Outcome("measured", (2e-4,))


def driver_of(seed: int = 0) -> Driver:
    machine = Machine(vector_bytes=32, cores=2)
    return Driver(Draws.of(lower(parse_definition(matmul(70, 60, 50))), machine, tiles), seed)


def answer_to(batch: Batch, machine: str = "here") -> Answer:
    times = (Outcome("measured", (seconds_of(draft.schedule),)) for draft in batch.drafts)
    return Answer(REFERENCE, tuple(times), machine)


def begun(seed: int = 0, batches: int = 6) -> Driver:
    """Return a driver after some batches."""
    driver = driver_of(seed)
    for _ in range(batches):
        batch = driver.ask()
        assert batch is not None
        driver.tell(batch, answer_to(batch))
    return driver


def searched(seed: int = 0) -> Driver:
    """Return a driver after some batches and the last one."""
    driver = begun(seed)
    last = driver.last()
    assert last is not None
    driver.tell(last, answer_to(last))
    return driver


def test_the_same_answers_give_the_same_questions():
    first, again = searched(), searched()
    assert first.trials == again.trials
    assert len(first.trials) > 64  # so that the ranker has been asked, too
    assert first.trials != searched(seed=1).trials


def test_a_batch_is_drawn_and_then_bred():
    driver = driver_of()
    first = driver.ask()
    assert first is not None
    assert len(first.drafts) == BATCH // AHEAD
    assert {draft.origin for draft in first.drafts} == {"draw"}
    driver.tell(first, answer_to(first))
    least = min(trial.rank for trial in driver.trials)
    second = driver.ask()  # which is drawn without the answer to the first
    assert second is not None
    driver.tell(second, answer_to(second))
    third = driver.ask()
    assert third is not None
    assert len(third.drafts) == BATCH
    assert 1 <= [draft.origin for draft in third.drafts].count("draw") < BATCH
    assert (second.best, third.best) == (0.0, least)


def test_a_batch_is_the_same_whether_or_not_the_one_before_has_an_answer():
    early, late = driver_of(), driver_of()
    line = [late.ask(), late.ask()]
    for _ in range(6):
        batch = early.ask()
        assert batch is not None
        early.tell(batch, answer_to(batch))
        other = line.pop(0)
        assert other is not None
        assert other.drafts == batch.drafts
        late.tell(other, answer_to(other))
        line.append(late.ask())
    late.drop()
    early.drop()
    assert early.trials == late.trials


def test_batches_that_have_no_answer_are_asked_for_again():
    driver, other = driver_of(), driver_of()
    batches = [driver.ask() for _ in range(2)]
    driver.drop()
    assert [driver.ask() for _ in range(2)] == batches
    driver.drop()
    driver.drop()
    first, same = driver.ask(), other.ask()
    assert first is not None
    assert first == same
    driver.tell(first, answer_to(first))
    other.tell(first, answer_to(first))
    driver.ask()
    driver.drop()
    assert driver.ask() == other.ask()


def test_and_only_those_where_others_were_asked_for_ahead():
    driver, other = driver_of(), driver_of()
    first, _ = driver.ask(), driver.ask()
    assert first is not None
    assert other.ask() == first
    driver.tell(first, answer_to(first))
    other.tell(first, answer_to(first))
    driver.ask()
    driver.drop()
    assert driver.ask() == other.ask()


def test_what_another_machine_measured_is_not_compared():
    driver = driver_of()
    for machine in ("here", "there"):
        batch = driver.ask(4)
        assert batch is not None
        driver.tell(batch, answer_to(batch, machine))
    assert [trial.outcome.state for trial in driver.trials] == ["measured"] * 4 + ["refused"] * 4
    assert driver.trials[-1].outcome.why == "it was measured on another machine (there)"
    assert len(driver.reference) == 1
    assert all(trial.outcome.state == "measured" for trial in driver.best)


def test_a_gain_that_may_be_luck_keeps_the_default():
    driver = driver_of()
    batch = driver.ask(2)
    assert batch is not None
    for share, wins in ((0.99, False), (0.97, True)):
        driver.trials = [DraftTrial(batch.drafts[0], Outcome("measured", (1e-4,)), 0.5, share)]
        assert (driver.winner is not None) == wins
    # In the last batch a time is compared with the reference's of the same round.
    paired = Answer(
        Outcome("measured", (1.0, 2.0, 3.0)), (Outcome("measured", (0.9, 2.1, 3.1)),), "here"
    )
    driver.trials = [DraftTrial(batch.drafts[0], Outcome("measured", (0.9,)), 0.9)]
    driver.drop()
    last = driver.last()
    assert last is not None
    driver.tell(last, paired)
    assert driver.trials[0].final is not None
    assert driver.trials[0].final > 1
    assert driver.winner is None


def test_a_gain_below_the_noise_keeps_the_default():
    for reference, wins in (((1.0, 1.01) * 20, True), ((1.0, 1.3) * 20, False)):
        driver = driver_of()
        batch = driver.ask(1)
        assert batch is not None
        driver.tell(batch, Answer(REFERENCE, (Outcome("measured", (1e-4,)),), "here"))
        last = driver.last()
        assert last is not None
        faster = Outcome("measured", tuple(0.85 * seconds for seconds in reference))
        driver.tell(last, Answer(Outcome("measured", reference), (faster,), "here"))
        assert (driver.winner is not None) == wins


def test_a_hundred_faster_and_wrong_ones_never_win():
    driver, random, planted = driver_of(), Random(0), 0
    while planted < 100:
        batch = driver.ask()
        assert batch is not None
        outcomes: list[Outcome] = []
        for draft in batch.drafts:
            if random.random() < 0.75:
                planted += 1
                kind = WRONG + "c[0] is 1, and should be 2"
                outcomes.append(Outcome("failed", (1e-9,), kind))
            else:
                outcomes.append(Outcome("measured", (seconds_of(draft.schedule),)))
        driver.tell(batch, Answer(REFERENCE, tuple(outcomes), "here"))
    last = driver.last()
    assert last is not None
    driver.tell(last, answer_to(last))
    assert not any(trial.outcome.is_wrong for trial in driver.best)
    assert driver.winner is not None
    assert not driver.winner.outcome.is_wrong
    assert sum(trial.outcome.is_wrong for trial in driver.trials) == planted


def test_one_that_fails_in_the_last_batch_loses_its_time():
    driver = begun(batches=1)
    winner = driver.winner
    assert winner is not None
    last = driver.last()
    assert last is not None
    wrong = Outcome("failed", (), WRONG + "c[0] is 1, and should be 2")
    outcomes = [wrong, *answer_to(last).outcomes[1:]]
    driver.tell(last, Answer(REFERENCE, tuple(outcomes), "here"))
    assert driver.winner != winner
    assert last.drafts[0] not in [trial.draft for trial in driver.best]


def test_who_was_faster_than_all_that_were_measured_for_longer_is_measured_too():
    driver = begun()
    lucky = [trial.draft for trial in driver.best[:FINALISTS]]
    last = driver.last()
    assert last is not None
    assert [*last.drafts] == lucky
    slow = Outcome("measured", (REFERENCE.samples[0] * 0.95,) * 40)
    driver.tell(last, Answer(REFERENCE, (slow,) * FINALISTS, "here"))
    again = driver.last()
    assert again is not None
    assert again.is_last
    assert again.drafts
    assert not {*again.drafts} & {*lucky}
    driver.tell(again, answer_to(again))
    winner = driver.winner
    assert winner is not None
    assert winner is driver.best[0]
    assert winner.draft in again.drafts
    assert driver.last() is None


def test_an_answer_is_text():
    driver = driver_of()
    batch = driver.ask(1)
    assert batch is not None
    assert answer_of(guess('{"definition": "", "reference": "", "schedules": ["x"]}')) == Answer(
        REFERENCE, (Outcome("measured", (seconds_of("x"),)),), "here"
    )

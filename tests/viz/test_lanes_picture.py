"""The last run of a pipeline as a picture: lanes, hatched bubbles, and what was sent between."""

from luminal_lab.viz.lanes_picture import lanes_picture
from luminal_lab.workers.lanes import Lanes, Met, Sent, Work


def test_lanes_have_work_what_was_sent_and_hatched_bubbles() -> None:
    work = [Work(w, "forward", k, w + k, w + k + 1.0) for w in range(2) for k in range(3)]
    lanes = Lanes(2, 3, tuple(work), (Sent(0, 1, "%7", 4096, 1.0, 1.0),), (1, 1))
    picture = lanes_picture(lanes, theme="light")
    assert picture.svg.count('url(#bubble)" stroke') == 2
    assert picture.svg.count("<title>forward ") == 6
    assert "%7, 4,096 bytes, from worker 0 to 1" in picture.svg
    assert "25% bubbles, 25% if stages took equally long" in picture.text
    assert "svg" in lanes._repr_mimebundle_()["text/html"]


def test_workers_that_meet_have_a_line_across_their_lanes() -> None:
    work = (Work(0, "compute", 0, 0.0, 1.0), Work(0, "send", 0, 2.0, 3.0))
    others = (Work(1, "compute", 0, 0.0, 2.0), Work(1, "send", 0, 2.0, 3.0))
    met = Met("all_reduce", "model", (0, 1), 128, 2.0, 3.0)
    picture = lanes_picture(Lanes(2, 0, (*work, *others), (), (), (met,)), theme="light")
    assert "all_reduce over model: each worker sends 128 bytes" in picture.svg
    assert picture.text == "Lanes of 2 workers: 17% of it waiting at 1 collective."
    lanes = Lanes(2, 0, (*work, *others), (), (), (met,), within=4e-6)
    assert "waiting at 1 collective; clocks ± 0.004 ms" in lanes_picture(lanes).svg

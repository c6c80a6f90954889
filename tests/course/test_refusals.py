"""What answers may not do; which files of ours may start programs for them."""

from pathlib import Path

from luminal_lab.course.refusals import STARTERS


def test_files_that_start_programs_are_there():
    assert [one for one in STARTERS if not Path(one).is_file()] == []

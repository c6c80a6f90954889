"""The exercises of the course, a file for each notebook: `chNN.EXERCISES`."""

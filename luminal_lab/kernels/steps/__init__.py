"""The steps of schedules: each makes another nest that computes the same, or says why not."""

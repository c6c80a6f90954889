"""The steps of schedules: each makes of a nest another that computes the same, or says why not."""

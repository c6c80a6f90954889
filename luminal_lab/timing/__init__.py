"""Times: measured, recorded, modelled, compared."""

"""Named regions: their formulas, one file each, and the pass that finds them."""

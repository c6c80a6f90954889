"""What pictures that are alive are made from: graphs, and all stages of compiles, as columns."""

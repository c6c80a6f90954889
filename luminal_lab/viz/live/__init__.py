"""Live pictures: graphs, and all stages of compiles, as columns for the front end."""

"""The training loop and what it steps. `loop.py` is the place to begin."""

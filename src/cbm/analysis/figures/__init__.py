"""Figures of runs, one file each; `style.py` is what they have in common."""

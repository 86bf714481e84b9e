"""Studies: many runs that belong together, such as the experiments behind a figure of the paper.

`define.py` says what a study is, `paper.py` holds those of the paper, and `file.py` reads a user's own. `store.py` is
the folder with the runs, `drive.py` the loop that gets all of them finished, and `launch/` decides where they run.
"""

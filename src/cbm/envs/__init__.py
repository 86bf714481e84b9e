"""The Distracting Control Suite on current MuJoCo and Gymnasium.

MuJoCo and OpenGL are loaded by `make`, not before: tables of tasks and conditions are useful without them.
"""

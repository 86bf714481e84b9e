"""The exact bisimulation metric of a small MDP, and CBM's distance compared with it."""

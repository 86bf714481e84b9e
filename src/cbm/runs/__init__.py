"""Run directories: what is in them, how they are read, and what is made from them (zoo, exported policies)."""

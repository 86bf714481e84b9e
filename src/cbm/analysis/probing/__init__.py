"""What an encoder knows: a set of states that is shown to every encoder, and numbers about its answers."""

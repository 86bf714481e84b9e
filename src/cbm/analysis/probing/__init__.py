"""What an encoder knows: one set of states that every encoder is shown, and numbers about the answers."""

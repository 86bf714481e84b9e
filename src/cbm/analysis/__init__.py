"""What can be learned from run directories afterwards. Nothing here imports the training loop."""

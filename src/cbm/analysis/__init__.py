"""What run directories tell, after the fact. Nothing here imports the training loop."""

"""What every learner shares: operations on tensors, networks, augmentation, threads."""

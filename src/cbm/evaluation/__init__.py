"""Episodes without exploration: played, spread over workers, filmed, and repeated over a grid of conditions."""

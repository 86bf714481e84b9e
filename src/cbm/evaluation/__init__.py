"""Episodes without exploration: played, spread over workers, filmed, and counted over a grid of conditions."""

"""The tensor model: Bayesian CP with a cumulative-shrinkage prior on its rank."""

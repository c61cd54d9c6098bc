"""Methods: what draws pictures given a problem."""

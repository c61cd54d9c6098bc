"""Running a method: the loop, the posterior, diagnostics, size and time."""

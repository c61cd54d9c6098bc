"""Many photographs: which ones, in which processes, and what came of each."""

"""From files to files: which photographs, in which processes, and what came of each."""

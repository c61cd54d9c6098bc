"""Files: photographs, masks, checkpoints, pictures for people."""

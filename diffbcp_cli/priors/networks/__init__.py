"""Networks, each in one file."""

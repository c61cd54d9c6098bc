"""Operators: how a picture became measurements, y = A x + noise."""

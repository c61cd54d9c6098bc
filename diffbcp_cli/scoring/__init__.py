"""Scores against a truth: metrics, pairs of pictures, the report."""

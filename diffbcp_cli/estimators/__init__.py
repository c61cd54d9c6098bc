"""Estimators: what is reported, made from the posterior."""

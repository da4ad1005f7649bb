"""Exact tensor arithmetic: canonical files, integer features, merge rules; for the math process."""

"""Trials, comparisons and their pictures."""

"""The doctor: what a failing program's words mean, and whether this machine is in order."""

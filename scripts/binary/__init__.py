"""Readers of PE, ELF and CUDA fat binaries; they know nothing of stacks."""

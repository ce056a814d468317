"""What runs in the launched process: stdlib and NumPy only, nothing of ours."""

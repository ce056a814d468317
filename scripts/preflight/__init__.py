"""What a program needs, read from its files without running it, and what a stack has of that."""

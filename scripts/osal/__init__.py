"""What the operating system offers, the same way on Linux and Windows."""

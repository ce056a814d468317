"""``pins.lock``: reading, writing, and asking upstream."""

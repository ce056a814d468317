"""pins.lock: reading, writing, updating."""

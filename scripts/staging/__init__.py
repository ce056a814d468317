"""From a lock and a machine to a runtime that can be used."""

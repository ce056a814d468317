"""The operating system: file operations, processes, redaction."""

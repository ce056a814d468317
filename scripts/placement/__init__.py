"""Putting libraries beside a program, reversibly: plan, journal, act, undo."""

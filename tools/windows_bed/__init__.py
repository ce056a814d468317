"""The Windows bed: Windows CPython under Wine runs this repository's own pytest suite on Linux.

``python -m tools.windows_bed [PYTEST ARGUMENTS]`` makes what is missing and runs pytest there;
``docs/windows-tests.md`` says what that shows and what it cannot.
"""

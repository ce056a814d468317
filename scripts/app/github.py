"""The release metadata server of one run, as the environment says."""

from __future__ import annotations

from pathlib import Path

from scripts.app.workspace import Workspace
from scripts.pins.upstream import API, GitHub, api_base
from scripts.pins.web import Web


def web(ws: Workspace) -> Web:
    """Make the way to ask servers; ``SSL_CERT_FILE`` adds certificates to the system's."""
    ca_file = ws.environ.get("SSL_CERT_FILE")
    return Web(ca_file=Path(ca_file) if ca_file else None)


def github(ws: Workspace) -> GitHub:
    """Make the metadata server: GitHub, or the one in ``CUDA_AMD_GITHUB_API``.

    ``GITHUB_TOKEN`` raises the number of questions GitHub answers; it is sent to that server only.

    Raises:
        UsageError: ``CUDA_AMD_GITHUB_API`` is neither https nor loopback.
    """
    address = ws.environ.get("CUDA_AMD_GITHUB_API")
    api = api_base(address) if address else API
    return GitHub(web=web(ws), api=api, token=ws.environ.get("GITHUB_TOKEN", ""))

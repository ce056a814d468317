"""HTTP: sessions, requests, downloads, mirrors, GitHub."""

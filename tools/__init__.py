"""What makes or measures: documents, figures, the Windows bed, an in-memory disk; no part of the package."""

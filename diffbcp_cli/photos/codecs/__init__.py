"""Image formats: bytes to samples and back."""

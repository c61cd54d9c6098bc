"""Score results against the truth: pairs of files, metrics, the document and its report."""

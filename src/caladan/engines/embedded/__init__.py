"""The embedded engine: in-process, no JVM, sorted columns."""

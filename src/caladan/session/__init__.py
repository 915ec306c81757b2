"""The session: what users hold. Data and definitions, runs, results, stats, progress."""

"""The SparkSession to work in: Java, Connect, workers, failures, frames in storage."""

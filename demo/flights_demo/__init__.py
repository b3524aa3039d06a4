"""The demo: flights go in as JSON, Spark carries them into Parquet, the table is read back."""

"""What queries cost on Spark."""

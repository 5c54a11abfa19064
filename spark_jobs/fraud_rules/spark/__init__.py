"""The detector as a Spark job: the only package that imports Spark."""

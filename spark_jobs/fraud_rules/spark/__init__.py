"""What every Spark job shares: the session, the master, folders beside a checkpoint, and shutdown."""

"""The parts that all Spark jobs share: the session, the master, folders beside a checkpoint, and the shutdown."""

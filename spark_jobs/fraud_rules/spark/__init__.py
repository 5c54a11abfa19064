"""The parts that all Spark jobs share: the session, the master, folders of small files, and the shutdown."""

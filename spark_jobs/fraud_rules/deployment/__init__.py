"""What should run, what runs, and what follows from both: values and pure functions, free of engines and of Kafka."""

"""The driver's side of the stream: admission of a start, the batch, pins and markers, progress, shutdown."""

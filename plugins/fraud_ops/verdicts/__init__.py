"""Pure judgement: an observation of the detector, the verdict about it, and the step that follows from the verdict."""

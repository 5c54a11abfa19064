"""Pure assessment: an observation of the detector, the verdict about it, and the action for the verdict."""

"""What a draft rule would have done on past days, evaluated by the detector's own engine. Publishes nothing."""

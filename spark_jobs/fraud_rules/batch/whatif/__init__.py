"""What-if: evaluates a draft rule on past days with the detector's engine. It publishes nothing."""

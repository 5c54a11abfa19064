"""A second, slow implementation of the specification, against which the tests compare the engine."""

from tests.support.oracle.evaluation import evaluate

__all__ = ["evaluate"]

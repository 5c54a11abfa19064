"""The faults that pydantic finds, in words of this product."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fraud_rules.runtime.value_faults import fault_text


class Sample(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: Annotated[int, Field(ge=1, le=2**63 - 1)] = 1
    share: Annotated[float, Field(gt=0, lt=1.5)] = 0.5
    flag: bool = True
    text: Annotated[str, Field(min_length=1, max_length=3)] = "a"
    code: Annotated[str, Field(pattern="^[a-z]+$")] = "a"
    verdict: Literal["FRAUD", "NOT_FRAUD"] = "FRAUD"
    texts: Annotated[list[str], Field(max_length=2)] = []
    members: dict[str, Any] = {}
    even: int = 2

    @field_validator("even")
    @classmethod
    def _is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError(f"{value} is odd")
        return value


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"number": "x"}, "'x' is not a whole number"),
        ({"number": 1.5}, "1.5 is not a whole number"),
        ({"number": None}, "null is not a whole number"),
        ({"number": 0}, "0 is below the minimum 1"),
        ({"number": 2**63}, "9223372036854775808 is above the maximum 9223372036854775807"),
        ({"share": "much"}, "'much' is not a number"),
        ({"share": 0}, "0 is not above 0"),
        ({"share": 1.5}, "1.5 is not below 1.5"),
        ({"flag": "perhaps"}, "'perhaps' is not true or false"),
        ({"text": 7}, "7 is not a text"),
        ({"text": ""}, "has 0 characters, at least 1 are required"),
        ({"text": "long"}, "has 4 characters, at most 3 are allowed"),
        ({"code": "A1"}, "'A1' does not match the pattern ^[a-z]+$"),
        ({"verdict": "maybe"}, "'maybe' is not one of 'FRAUD' or 'NOT_FRAUD'"),
        ({"texts": "a"}, "'a' is not a list"),
        ({"texts": ["a", "b", "c"]}, "has 3 entries, at most 2 are allowed"),
        ({"members": [1]}, "a list is not an object"),
        ({"even": 3}, "3 is odd"),
        ({"other": 1}, "is not a known member"),
    ],
)
def test_a_fault_is_a_sentence(members: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError) as found:
        Sample.model_validate(members)
    (fault,) = found.value.errors()
    assert fault_text(fault) == text


def test_a_missing_member_and_an_unforeseen_fault() -> None:
    assert fault_text({"type": "missing", "msg": "Field required", "input": {}}) == "is missing"
    unforeseen = {"type": "date_type", "msg": "Input should be a valid date", "input": "x"}
    assert fault_text(unforeseen) == "'x' should be a valid date"

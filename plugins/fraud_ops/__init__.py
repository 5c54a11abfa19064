"""Operations of the detector in Airflow: observe, assess, act.

`hooks` do all I/O and return an `observation`. `health` assesses it and `act` derives the next action. Both are pure.
`triggers` wait, `operators` and `sensors` do one thing each, and `notifiers` raise alarms.
"""

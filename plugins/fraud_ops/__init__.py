"""Operations of the detector in Airflow: observe, judge, act.

`hooks` do all I/O, `observation` is what they saw, `health` judges it and `act` decides what follows, both pure;
`triggers` wait, `operators` and `sensors` do one thing each, `notifiers` tell people.
"""

"""Operations that Airflow and the control plane share, without Airflow: observe, assess, alarm, deliver.

`observer` reads what a detector reports and returns an `observation`. The `verdicts` assess it and derive the next
action: they are pure. `delivery` sends alarms and notifications.
"""

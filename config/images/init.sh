#!/bin/sh
# Runs before all other services: creates Airflow's database and its first user, and Kafka's topics, users and rights. It may run again.
set -eu
airflow db migrate
# Only in a new database: later, a person decides which DAGs are paused.
if ! airflow dags details fraud_detector >/dev/null 2>&1; then
  airflow dags reserialize
  airflow dags unpause --yes --treat-dag-id-as-regex '^fraud_(detector|topics|seed_rules|warm_up|archive|nightly_reevaluation|checkpoint_drill)$'
fi
# The password goes through stdin, because other users can read arguments.
if ! airflow users list --output plain | awk '{ print $2 }' | grep -qx "$FRAUD_ADMIN_USER"; then
  printf '%s\n%s\n' "$FRAUD_ADMIN_PASSWORD" "$FRAUD_ADMIN_PASSWORD" | airflow users create --role Admin \
    --username "$FRAUD_ADMIN_USER" --firstname "$FRAUD_ADMIN_USER" --lastname admin --email "$FRAUD_ADMIN_EMAIL"
fi
fraud kafka topics apply
fraud kafka acls users
fraud kafka acls apply

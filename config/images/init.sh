#!/bin/sh
# Runs before all other services: creates Airflow's database and its first user, and Kafka's topics, users and rights. It may run again.
set -eu
airflow db migrate
# The password goes through stdin, because other users can read arguments.
if ! airflow users list --output plain | awk '{ print $2 }' | grep -qx "$FRAUD_ADMIN_USER"; then
  printf '%s\n%s\n' "$FRAUD_ADMIN_PASSWORD" "$FRAUD_ADMIN_PASSWORD" | airflow users create --role Admin \
    --username "$FRAUD_ADMIN_USER" --firstname "$FRAUD_ADMIN_USER" --lastname admin --email "$FRAUD_ADMIN_EMAIL"
fi
fraud topics apply
fraud acls users
fraud acls apply

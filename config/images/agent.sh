#!/bin/sh
# Starts the agent of docker-compose.yml with these arguments. The agent needs the key for intents, and the passwords of agent and
# detector in Kafka, in files. /tmp belongs to this container only.
set -eu
umask 077
keys=/tmp/intent-keys
printf '%s\n' "$FRAUD_INTENT_KEY" >"$keys"
mkdir -p /tmp/kafka
# write_properties COMPONENT PASSWORD
write_properties() {
  cat >"/tmp/kafka/$1.properties" <<END
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.username=fraud-$1
sasl.password=$2
END
}
write_properties agent "$FRAUD_KAFKA_AGENT_PASSWORD"
write_properties detector "$FRAUD_KAFKA_DETECTOR_PASSWORD"
unset FRAUD_INTENT_KEY FRAUD_KAFKA_AGENT_PASSWORD FRAUD_KAFKA_DETECTOR_PASSWORD
exec fraud detector agent --intent-keys "$keys" "$@"

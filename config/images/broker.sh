#!/bin/sh
# Starts Kafka in docker-compose.yml. The first start formats the storage with the administrator's SCRAM password, because the
# image's own start cannot add a user. The arguments are the image's own start.
set -eu
umask 077
folder=/tmp/kafka
password=$FRAUD_KAFKA_ADMIN_PASSWORD
unset FRAUD_KAFKA_ADMIN_PASSWORD
login=org.apache.kafka.common.security.scram.ScramLoginModule
as_admin="$login required username=\"admin\" password=\"$password\";"
mkdir -p "$folder"
# For the health check.
cat >"$folder/admin.properties" <<END
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=$as_admin
END
if [ ! -f "$KAFKA_LOG_DIRS/meta.properties" ]; then
  cat >"$folder/format.properties" <<END
process.roles=$KAFKA_PROCESS_ROLES
node.id=$KAFKA_NODE_ID
listeners=$KAFKA_LISTENERS
advertised.listeners=$KAFKA_ADVERTISED_LISTENERS
listener.security.protocol.map=$KAFKA_LISTENER_SECURITY_PROTOCOL_MAP
inter.broker.listener.name=$KAFKA_INTER_BROKER_LISTENER_NAME
controller.listener.names=$KAFKA_CONTROLLER_LISTENER_NAMES
controller.quorum.voters=$KAFKA_CONTROLLER_QUORUM_VOTERS
log.dirs=$KAFKA_LOG_DIRS
END
  # A file of arguments, because other users of the machine can read the arguments of a process.
  cat >"$folder/format.arguments" <<END
-cp "/opt/kafka/libs/*" kafka.tools.StorageTool format --cluster-id=$CLUSTER_ID --config=$folder/format.properties
"--add-scram=SCRAM-SHA-512=[name=admin,password=$password]"
END
  # Its output has the salted password.
  java "@$folder/format.arguments" >/dev/null
  rm "$folder/format.arguments"
fi
export KAFKA_LISTENER_NAME_INSIDE_SCRAM___SHA___512_SASL_JAAS_CONFIG="$as_admin"
export KAFKA_LISTENER_NAME_HOST_SCRAM___SHA___512_SASL_JAAS_CONFIG="$login required;"
exec "$@"

#!/bin/sh
# Starts the agent of docker-compose.yml with these arguments. The agent needs the key for intents in a file. /tmp belongs to this
# container only.
set -eu
umask 077
keys=/tmp/intent-keys
printf '%s\n' "$FRAUD_INTENT_KEY" >"$keys"
unset FRAUD_INTENT_KEY
exec fraud agent run --intent-keys "$keys" "$@"

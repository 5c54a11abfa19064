#!/bin/sh
# Starts an executor of Spark on Kubernetes, as the entry point of Spark's own image does. Spark passes everything in the environment;
# its Java options are in SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1 and so on.
set -eu
number=0
set --
while eval "option=\${SPARK_JAVA_OPT_$number-}" && [ -n "$option" ]; do
  set -- "$@" "$option"
  number=$((number + 1))
done
spark=$(python -c 'import pyspark; print(*pyspark.__path__)')
exec java "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$spark/jars/*" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
  --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
  --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"

#!/bin/sh
# The first process of the spark image. Spark on Kubernetes starts its pods with one word and variables:
#
#   driver ARGUMENTS…     spark-submit with them, in client mode: this pod is the driver
#   executor              the executor's backend, as SPARK_* variables say
#   anything else         is run as it stands: `python -m iggy_spark.sink_job …`, `spark-submit …`
#
# tini is the parent: it passes signals on and collects what Spark's children leave.
set -eu

fail() {
    echo "spark-entrypoint: $1" >&2
    exit 64
}

require() {
    for name in "$@"; do
        printenv "$name" >/dev/null || fail "$name is not set: it comes from Spark's scheduler; do not start executors by hand"
    done
}

# Sets `options` to the quoted words of SPARK_JAVA_OPT_0, _1, …: they may hold spaces.
java_options() {
    options=""
    count=0
    while value=$(printenv "SPARK_JAVA_OPT_$count"); do
        options="$options '$(printf '%s' "$value" | sed "s/'/'\\\\''/g")'"
        count=$((count + 1))
    done
}

# spark-submit does this by itself; an executor is plain Java.
executor_classpath() {
    classpath="${SPARK_CLASSPATH:-}${SPARK_CLASSPATH:+:}$SPARK_HOME/jars/*"
    if [ -n "${SPARK_CONF_DIR:-}" ]; then classpath="$SPARK_CONF_DIR:$classpath"; fi
    if [ -n "${HADOOP_CONF_DIR:-}" ]; then classpath="$HADOOP_CONF_DIR:$classpath"; fi
}

[ $# -gt 0 ] || fail "say what to run: 'driver' and 'executor' are for Spark, any other command is run as it stands"

. "$(dirname "$(readlink -f "$0")")/user.sh"

case "$1" in
driver)
    shift
    require SPARK_DRIVER_BIND_ADDRESS
    set -- "$SPARK_HOME/bin/spark-submit" \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
        --deploy-mode client "$@"
    ;;
executor)
    require SPARK_DRIVER_URL SPARK_EXECUTOR_ID SPARK_EXECUTOR_CORES SPARK_EXECUTOR_MEMORY \
        SPARK_APPLICATION_ID SPARK_EXECUTOR_POD_IP SPARK_EXECUTOR_POD_NAME SPARK_RESOURCE_PROFILE_ID
    java_options
    executor_classpath
    eval "set -- $options"
    set -- "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@" \
        "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classpath" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" --podName "$SPARK_EXECUTOR_POD_NAME" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID"
    ;;
esac

exec tini -s -- "$@"

# Sourced before Java starts. A cluster may run the pod as a user that the image has never heard of; Hadoop, inside Spark,
# refuses to start for somebody without a name. The root is read-only, so the name comes from a list of our own.
if ! getent passwd "$(id -u)" >/dev/null; then
    NSS_WRAPPER_PASSWD=$(mktemp) # below TMPDIR or /tmp, which Spark needs anyway
    NSS_WRAPPER_GROUP=/etc/group
    { cat /etc/passwd && echo "spark-$(id -u):x:$(id -u):$(id -g)::/tmp:/usr/sbin/nologin"; } >"$NSS_WRAPPER_PASSWD"
    LD_PRELOAD="libnss_wrapper.so${LD_PRELOAD:+ $LD_PRELOAD}"
    export NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP LD_PRELOAD
fi

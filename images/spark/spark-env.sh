# Read by every spark-submit, also by the one that PySpark starts for itself.
. /opt/iggykube/bin/user.sh

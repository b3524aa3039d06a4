# Sourced by the build stages: what the builder's machine hands in as secrets, so that none of it stays in a layer.
#   pip          pip's configuration (index, proxy)        maven        Maven's settings.xml (mirror, proxy)
#   ca           certificates to trust, one file           java-ca      the same for Java
if [ -s /run/secrets/pip ]; then export PIP_CONFIG_FILE=/run/secrets/pip; fi
if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca SSL_CERT_FILE=/run/secrets/ca; fi
MAVEN="mvn --batch-mode --quiet"
if [ -s /run/secrets/maven ]; then MAVEN="$MAVEN --settings /run/secrets/maven"; fi
if [ -s /run/secrets/java-ca ]; then export MAVEN_OPTS="-Djavax.net.ssl.trustStore=/run/secrets/java-ca"; fi
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_INPUT=1

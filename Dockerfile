# The images of IggyKube, each a stage: broker, operator, spark; on request spark-4.1, spark-4.2. docs/images.md tells what is in them.
#
#   make images                                                    with buildah, podman or docker, whatever is there
#   docker build --target broker --tag iggykube/broker:0.1.0 .     by hand
#
# No stage names an address: packages come from where the machine's own configuration says (docs/images.md, "Behind a proxy").
ARG BASE=debian:bookworm-slim

# What all begin with, with Debian's updates of the day that `make images ARGS=--force` last changed the variable.
FROM ${BASE} AS base
ARG REFRESHED=never
RUN apt-get update --quiet \
    && DEBIAN_FRONTEND=noninteractive apt-get upgrade --yes --quiet \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends ca-certificates python3 \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/debconf/*-old
ENV PATH=/opt/iggykube/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1

# Compilers and installers stay here.
FROM base AS tools
RUN apt-get update --quiet \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends \
        gcc libc6-dev python3-dev python3-venv
WORKDIR /src
RUN python3 -m venv /opt/iggykube
COPY images/steps/install-chosen images/steps/machine.sh images/steps/move-spark images/steps/trim images/steps/

# Which packages each image gets, from the lock. PyArrow brings a header that the kernel is compiled with.
FROM base AS chosen
WORKDIR /src
COPY requirements.lock pyproject.toml images/steps/locked.py ./
COPY images/spark-4.1/pyspark.lock spark-4.1.lock
COPY images/spark-4.2/pyspark.lock spark-4.2.lock
RUN mkdir /chosen \
    && python3 locked.py packages setuptools wheel >/chosen/tools \
    && python3 locked.py packages cython msgspec pyarrow xxhash >/chosen/code \
    && python3 locked.py extra broker archive quic >/chosen/broker \
    && python3 locked.py extra operator >/chosen/operator \
    && python3 locked.py extra spark sinks >/chosen/spark \
    && python3 locked.py extra spark instead spark-4.1.lock >/chosen/spark-4.1 \
    && python3 locked.py extra spark instead spark-4.2.lock >/chosen/spark-4.2

# Our own code as it is laid over the libraries, with the compiled kernel: without it the build fails.
FROM tools AS code
COPY --from=chosen /chosen/tools /chosen/code /chosen/
RUN --mount=type=secret,id=pip --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache/pip \
    images/steps/install-chosen tools code
COPY LICENSE README.md pyproject.toml setup.py ./
COPY wire wire
COPY broker broker
# The operator's package has a link to them.
COPY crds crds
COPY operator operator
COPY spark spark
COPY cli cli
RUN python -m pip install --quiet --no-index --no-deps --no-build-isolation --root /code . \
    && PYTHONPATH=/code/opt/iggykube/lib/python3.11/site-packages python -P -c \
        'from iggy_wire import kernel; assert kernel.COMPILED, "the kernel was not compiled"'

FROM tools AS broker-libraries
COPY --from=chosen /chosen/tools /chosen/broker /chosen/
RUN --mount=type=secret,id=pip --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache/pip \
    images/steps/install-chosen tools broker && images/steps/trim

FROM tools AS operator-libraries
COPY --from=chosen /chosen/tools /chosen/operator /chosen/
RUN --mount=type=secret,id=pip --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache/pip \
    images/steps/install-chosen tools operator && images/steps/trim

FROM tools AS spark-libraries
COPY --from=chosen /chosen/tools /chosen/spark /chosen/
RUN --mount=type=secret,id=pip --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache/pip \
    images/steps/install-chosen tools spark && images/steps/trim keep-pip && images/steps/move-spark

FROM tools AS spark-4.1-libraries
COPY --from=chosen /chosen/tools /chosen/spark-4.1 /chosen/
RUN --mount=type=secret,id=pip --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache/pip \
    images/steps/install-chosen tools spark-4.1 && images/steps/trim keep-pip && images/steps/move-spark

FROM tools AS spark-4.2-libraries
COPY --from=chosen /chosen/tools /chosen/spark-4.2 /chosen/
RUN --mount=type=secret,id=pip --mount=type=secret,id=ca --mount=type=cache,target=/root/.cache/pip \
    images/steps/install-chosen tools spark-4.2 && images/steps/trim keep-pip && images/steps/move-spark

# What Spark runs on. The folder: Java's package links a page into it, and the slim base has none.
FROM base AS java
RUN mkdir --parents /usr/share/man/man1 \
    && apt-get update --quiet \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends \
        libnss-wrapper openjdk-17-jre-headless tini \
    && apt-get clean && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/debconf/*-old

FROM java AS maven
RUN apt-get update --quiet \
    && DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends maven
WORKDIR /src
COPY images/steps/fetch-jars images/steps/machine.sh ./

# s3a:// for Spark.
FROM maven AS spark-jars
COPY images/spark/pom.xml images/spark/jars.sha256 ./
RUN --mount=type=secret,id=maven --mount=type=secret,id=java-ca --mount=type=cache,target=/root/.m2/repository \
    ./fetch-jars

# The same for Spark 4.1, with Iceberg and Delta tables.
FROM maven AS spark-4.1-jars
COPY images/spark-4.1/pom.xml images/spark-4.1/jars.sha256 ./
RUN --mount=type=secret,id=maven --mount=type=secret,id=java-ca --mount=type=cache,target=/root/.m2/repository \
    ./fetch-jars

# And for Spark 4.2, with Delta tables.
FROM maven AS spark-4.2-jars
COPY images/spark-4.2/pom.xml images/spark-4.2/jars.sha256 ./
RUN --mount=type=secret,id=maven --mount=type=secret,id=java-ca --mount=type=cache,target=/root/.m2/repository \
    ./fetch-jars

FROM base AS broker
ARG VERSION
LABEL org.opencontainers.image.title="iggykube/broker" \
    org.opencontainers.image.description="The IggyKube message broker, compatible with Apache Iggy." \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.base.name="debian:bookworm-slim"
# Anybody's group may write there, so that it is of use to any user; in a cluster a volume lies over it.
RUN groupadd --gid 10001 iggy \
    && useradd --uid 10001 --gid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin iggy \
    && install --directory --owner=10001 --group=0 --mode=2770 /data
COPY --from=broker-libraries /opt/iggykube /opt/iggykube
COPY --from=code /code/opt/iggykube/lib /opt/iggykube/lib
COPY --from=code /code/opt/iggykube/bin/iggy-broker /opt/iggykube/bin/
# In a container, loopback would be reached by nobody.
ENV IGGY_SYSTEM_PATH=/data \
    IGGY_TCP_ADDRESS=0.0.0.0:8090 \
    IGGY_HTTP_ADDRESS=0.0.0.0:3000 \
    IGGY_WEBSOCKET_ADDRESS=0.0.0.0:8092 \
    IGGY_MONITORING_ADDRESS=0.0.0.0:9099
EXPOSE 3000 8090 8092 9099
STOPSIGNAL SIGTERM
WORKDIR /
USER 10001:10001
ENTRYPOINT ["iggy-broker"]

FROM base AS operator
ARG VERSION
LABEL org.opencontainers.image.title="iggykube/operator" \
    org.opencontainers.image.description="The Kubernetes operator of IggyKube." \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.base.name="debian:bookworm-slim"
RUN groupadd --gid 10001 iggy \
    && useradd --uid 10001 --gid 10001 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin iggy
COPY --from=operator-libraries /opt/iggykube /opt/iggykube
COPY --from=code /code/opt/iggykube/lib /opt/iggykube/lib
COPY --from=code /code/opt/iggykube/bin/iggy-operator /opt/iggykube/bin/
EXPOSE 8080
STOPSIGNAL SIGTERM
WORKDIR /
USER 10001:10001
ENTRYPOINT ["iggy-operator"]

# What all Spark images have.
FROM java AS spark-base
RUN groupadd --gid 185 spark \
    && useradd --uid 185 --gid 185 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin spark \
    && mkdir /opt/spark \
    && install --directory --owner=185 --group=0 --mode=2775 /opt/spark/work-dir
ENV SPARK_HOME=/opt/spark
STOPSIGNAL SIGTERM
WORKDIR /opt/spark/work-dir

# One layer, the last one of each.
FROM scratch AS spark-code
COPY --from=code /code/opt/iggykube/lib /opt/iggykube/lib
COPY images/spark/sink_job.py /opt/iggykube/
COPY images/spark/user.sh /opt/iggykube/bin/
COPY images/spark/entrypoint.sh /opt/iggykube/bin/spark-entrypoint
COPY images/spark/spark-env.sh /opt/spark/conf/

FROM spark-base AS spark
ARG VERSION
LABEL org.opencontainers.image.title="iggykube/spark" \
    org.opencontainers.image.description="Spark with the data source, the sink job and the sinks of IggyKube." \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.base.name="debian:bookworm-slim"
COPY --from=spark-libraries /opt/spark /opt/spark
COPY --from=spark-jars /jars /opt/spark/jars
COPY --from=spark-libraries /opt/iggykube /opt/iggykube
COPY --from=spark-code /opt /opt
USER 185:185
ENTRYPOINT ["spark-entrypoint"]

FROM spark-base AS spark-4.1
ARG VERSION
LABEL org.opencontainers.image.title="iggykube/spark-4.1" \
    org.opencontainers.image.description="Spark 4.1 with Iceberg and Delta tables and the data source of IggyKube." \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.base.name="debian:bookworm-slim"
COPY --from=spark-4.1-libraries /opt/spark /opt/spark
COPY --from=spark-4.1-jars /jars /opt/spark/jars
COPY --from=spark-4.1-libraries /opt/iggykube /opt/iggykube
COPY --from=spark-code /opt /opt
USER 185:185
ENTRYPOINT ["spark-entrypoint"]

FROM spark-base AS spark-4.2
ARG VERSION
LABEL org.opencontainers.image.title="iggykube/spark-4.2" \
    org.opencontainers.image.description="Spark 4.2 with Delta tables and the data source of IggyKube." \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.base.name="debian:bookworm-slim"
COPY --from=spark-4.2-libraries /opt/spark /opt/spark
COPY --from=spark-4.2-jars /jars /opt/spark/jars
COPY --from=spark-4.2-libraries /opt/iggykube /opt/iggykube
COPY --from=spark-code /opt /opt
USER 185:185
ENTRYPOINT ["spark-entrypoint"]

"""Departures in tables, by Spark SQL: from a topic into one of Iceberg and one of Delta.

For the image iggykube/spark-4.1; `tables.conf` beside this file has the settings. What is there
already is left alone, so the program may be started again at any time.
"""

import argparse

from pyspark.sql import SparkSession

FLIGHT = "carrier STRING, origin STRING, dep_delay INT"

parser = argparse.ArgumentParser()
parser.add_argument("--servers", required=True, help="host:port of the broker's Service")
parser.add_argument("--credentials", default="/etc/iggy", help="where the Secret is mounted")
parser.add_argument("--iceberg", default="lake.flights.departures", help="name of the table")
parser.add_argument("--delta", required=True, help="folder or address of the other table")
parser.add_argument("--checkpoint", required=True, help="the same for the place of its query")
given = parser.parse_args()

spark = SparkSession.builder.appName("tables").getOrCreate()
source = {
    "servers": given.servers,
    "credentialsPath": given.credentials,
    "stream": "flights",
    "topic": "departures",
    "startingOffsets": "earliest",
    "payloadFormat": "json",
    "payloadSchema": FLIGHT,
}

# Iceberg: what the topic has now and the table has not.
flights = spark.read.format("iggy").options(**source).load()
flights.select("value.*", "partition", "offset").createOrReplaceTempView("flights")
spark.sql(
    f"CREATE TABLE IF NOT EXISTS {given.iceberg} ({FLIGHT}, partition INT, offset BIGINT)"
    " USING iceberg"
)
spark.sql(
    f"MERGE INTO {given.iceberg} AS old USING flights AS new"
    " ON old.partition = new.partition AND old.offset = new.offset"
    " WHEN NOT MATCHED THEN INSERT *"
)

# Delta: a stream that goes on where it was. On Spark 4.1 a run that ends by itself is one batch: it
# takes all that is there if nothing limits it.
unlimited = {"maxOffsetsPerTrigger": "0", "maxBytesPerTrigger": "0"}
(
    spark.readStream.format("iggy")
    .options(**source, **unlimited)
    .load()
    .select("value.*", "partition", "offset")
    .writeStream.format("delta")
    .option("checkpointLocation", given.checkpoint)
    .trigger(availableNow=True)
    .start(given.delta)
    .awaitTermination()
)

"""Departures that were late, by carrier: from a topic into Parquet files."""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit

FLIGHT = "carrier STRING, origin STRING, dep_delay INT"

parser = argparse.ArgumentParser()
parser.add_argument("--servers", required=True, help="host:port of the broker's Service")
parser.add_argument("--credentials", default="/etc/iggy", help="where the Secret is mounted")
parser.add_argument("--target", required=True, help="folder or address of the files")
parser.add_argument("--checkpoint", required=True, help="the same for the query's place")
parser.add_argument("--minutes", type=int, default=15, help="how late is late")
parser.add_argument("--once", action="store_true", help="read what is there, then end")
given = parser.parse_args()

spark = SparkSession.builder.appName("delays").getOrCreate()
flights = (
    spark.readStream.format("iggy")
    .option("servers", given.servers)
    .option("credentialsPath", given.credentials)  # read anew each time: may be rotated
    .option("stream", "flights")
    .option("topic", "departures")
    .option("startingOffsets", "earliest")
    .option("consumerGroup", "delays")  # shows progress and lag on the broker
    .option("payloadFormat", "json")
    .option("payloadSchema", FLIGHT)
    .load()
)
delays = flights.where(col("value.dep_delay") >= lit(given.minutes)).select(
    "value.*", "timestamp", "partition", "offset"
)
writer = (
    delays.writeStream.format("parquet")
    .partitionBy("carrier")
    .option("path", given.target)
    .option("checkpointLocation", given.checkpoint)
)
trigger = {"availableNow": True} if given.once else {"processingTime": "30 seconds"}
writer.trigger(**trigger).start().awaitTermination()

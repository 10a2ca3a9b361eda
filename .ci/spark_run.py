"""The part of .ci/spark that asks Spark and `ringtap query` the same.

usage: spark_run.py RINGTAP STORE VIEW
"""

import csv
import io
import subprocess
import sys
import time

from pyspark.sql import SparkSession

# Two workers with a processor and 1,024 MiB each.
MASTER = "local-cluster[2,1,1024]"
# Both engines understand these statements; HEX is each one's function for the digits of an address.
QUESTIONS = {
    "sums": "SELECT count(*), CAST(sum(packets) AS BIGINT), CAST(sum(bytes) AS BIGINT), "
    "CAST(sum(reverse_bytes) AS BIGINT) FROM flows",
    "times": "SELECT min(CAST(first AS BIGINT)), max(CAST(last AS BIGINT)), count(reverse_first) FROM flows",
    "folders": "SELECT CAST(date AS VARCHAR(10)) AS day, hour, exporter, count(*) FROM flows GROUP BY date, hour, exporter "
    "ORDER BY day, hour, exporter",
    "protocols": "SELECT protocol, count(*), CAST(sum(bytes) AS BIGINT) FROM flows GROUP BY protocol ORDER BY protocol",
    "hosts": "SELECT HEX AS host, CAST(sum(bytes) AS BIGINT) AS total, count(DISTINCT dst) FROM flows GROUP BY src "
    "ORDER BY total DESC, host LIMIT 100",
    "ports": "SELECT dst_port, count(*) AS flows, max(max_length) FROM flows WHERE dst_port IS NOT NULL GROUP BY dst_port "
    "ORDER BY flows DESC, dst_port LIMIT 100",
}


def of_ringtap(ringtap, store, question):
    """Returns the rows of `ringtap query`, as texts."""
    statement = question.replace("HEX", "lower(encode(src, 'hex'))")
    command = [ringtap, "query", "--store", store, "--format", "csv", "--memory", "1G", statement]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return list(csv.reader(io.StringIO(done.stdout)))[1:]


def of_spark(spark, question):
    """Returns the rows of Spark, as texts."""
    rows = spark.sql(question.replace("HEX", "lower(hex(src))")).collect()
    return [["" if value is None else str(value) for value in row] for row in rows]


def main():
    ringtap, store, view = sys.argv[1:]
    builder = SparkSession.builder.master(MASTER).appName("ringtap")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with open(view, encoding="utf-8") as file:
        lines = [line for line in file if not line.startswith("--")]
    for statement in "".join(lines).split(";"):
        if statement.strip():
            spark.sql(statement)
    wrong = 0
    for name, question in QUESTIONS.items():
        begun = time.monotonic()
        ours = of_ringtap(ringtap, store, question)
        between = time.monotonic()
        theirs = of_spark(spark, question)
        ended = time.monotonic()
        same = ours == theirs and len(ours) > 0
        wrong += not same
        print(f"{name}: {len(ours)} rows, {'the same' if same else 'DIFFERENT'}; ringtap query "
              f"{between - begun:.2f} s, Spark {ended - between:.2f} s")
        if not same:
            print(f"  ringtap query: {ours[:5]}\n  Spark: {theirs[:5]}")
    workers = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    print(f"Spark {spark.version} with {workers} workers")
    spark.stop()
    return wrong > 0 or workers != 2


if __name__ == "__main__":
    sys.exit(main())

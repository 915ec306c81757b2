"""Company control inside of a PySpark job: a DataFrame goes in, a view comes out.

spark-submit examples/company_control/job.py
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

import caladan as cal

HERE = Path(__file__).parent


def main(spark: SparkSession) -> DataFrame:
    """Who controls the most companies, as the job goes on to use it."""
    shares = spark.read.csv(
        str(HERE / "facts" / "shares.csv"), schema="Owner string, Company string, Percent int"
    )
    held = shares.where("Percent > 0")
    with cal.connect(spark, views=True) as db:
        db.add("shares", held)
        db.run(HERE / "program.dl")
        return spark.sql(
            """
            SELECT c.X AS owner, count(*) AS controlled, sum(s.Percent) AS direct
            FROM control c LEFT JOIN shares s ON s.Owner = c.X AND s.Company = c.Y
            GROUP BY c.X ORDER BY controlled DESC, owner
            """
        )


if __name__ == "__main__":
    main(SparkSession.builder.getOrCreate()).show()

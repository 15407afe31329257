-- One row per aeroplane: its delays in time order, as many as it flew. Lists become a jagged tensor.
SELECT tailnum, arr_delays, dest_changes
FROM (
    SELECT tailnum,
           array_agg(arr_delay ORDER BY time_hour, sched_dep_time) AS arr_delays,
           count(DISTINCT dest) AS dest_changes
    FROM 'examples/data/flights.parquet'
    WHERE tailnum IS NOT NULL AND arr_delay IS NOT NULL
    GROUP BY tailnum
)
ORDER BY tailnum

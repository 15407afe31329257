-- One row per aeroplane: its delays in time order, as many as it flew. Lists become a jagged tensor.
SELECT tailnum,
       array_agg(arr_delay ORDER BY time_hour, sched_dep_time, flight) AS arr_delays,
       max(arr_delay) AS worst
FROM 'examples/data/flights.parquet'
WHERE tailnum IS NOT NULL AND arr_delay IS NOT NULL
GROUP BY tailnum
ORDER BY tailnum

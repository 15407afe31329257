-- The last four arrival delays of the same aeroplane: a fixed-size list becomes a dense [n, 4] tensor.
SELECT tailnum, arrow_cast([d4, d3, d2, d1], 'FixedSizeList(4, Float32)') AS last_delays, arr_delay
FROM (
    SELECT tailnum, time_hour, sched_dep_time, arr_delay,
           lag(arr_delay, 1) OVER plane AS d1, lag(arr_delay, 2) OVER plane AS d2,
           lag(arr_delay, 3) OVER plane AS d3, lag(arr_delay, 4) OVER plane AS d4
    FROM 'examples/data/flights.parquet'
    WHERE arr_delay IS NOT NULL AND tailnum IS NOT NULL AND carrier = 'AS'
    WINDOW plane AS (PARTITION BY tailnum ORDER BY time_hour, sched_dep_time)
)
WHERE d4 IS NOT NULL
ORDER BY tailnum, time_hour, sched_dep_time

-- Each aeroplane's first delays as a dense tensor, the month of its first flight as a class, and a split that stays.
SELECT tailnum, tensor_shape(pad_list(truncate_list(delays, 8), 8, -1), [2, 4]) AS first_delays,
       one_hot(month - 1, 12) AS month, array_length(delays) AS flights, shuffle_key(7, tailnum) % 10 < 8 AS is_train
FROM (
    SELECT tailnum, array_agg(arr_delay ORDER BY time_hour, sched_dep_time) AS delays,
           CAST(date_part('month', min(time_hour)) AS INT) AS month
    FROM 'examples/data/flights.parquet'
    WHERE arr_delay IS NOT NULL AND tailnum IS NOT NULL
    GROUP BY tailnum
)
ORDER BY tailnum

-- A training set in one query: numbers with masks, what the aeroplane did before, a label, and the
-- strings to look at afterwards.
SELECT *
FROM tensordict((
    WITH history AS (
        SELECT *, array_agg(arr_delay) OVER (
                      PARTITION BY tailnum ORDER BY time_hour, sched_dep_time, flight
                      ROWS BETWEEN 8 PRECEDING AND 1 PRECEDING) AS earlier
        FROM 'examples/data/flights.parquet'
        WHERE tailnum IS NOT NULL
    )
    SELECT h.distance, CAST(h.sched_dep_time AS FLOAT) AS sched_dep_time,
           named_struct('temp', w.temp, 'wind_speed', w.wind_speed, 'gust', w.wind_gust, 'visib', w.visib) AS weather,
           h.earlier, h.arr_delay > 15 AS late, h.tailnum, h.dest, h.time_hour, h.flight
    FROM history h
    LEFT JOIN 'examples/data/weather.parquet' w USING (origin, time_hour)
    WHERE h.month = 1 AND h.arr_delay IS NOT NULL
), nulls => 'mask')
ORDER BY time_hour, flight, tailnum

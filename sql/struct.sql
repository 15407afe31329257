-- A struct column becomes a nested tensordict, its masks nested alike.
SELECT *
FROM tensordict((
    SELECT time_hour, named_struct('origin', origin, 'dest', dest, 'distance', distance) AS route,
           named_struct('departure', dep_delay, 'arrival', arr_delay) AS delay
    FROM 'examples/data/flights.parquet'
    WHERE carrier = 'HA'
), nulls => 'mask')
ORDER BY time_hour

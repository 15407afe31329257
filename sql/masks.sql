-- Numbers with nulls: values filled, and a mask per column that tells which rows were known.
SELECT *
FROM tensordict((SELECT time_hour, flight, dep_delay, arr_delay, air_time, distance
                 FROM 'examples/data/flights.parquet'), nulls => 'mask')
ORDER BY time_hour, flight

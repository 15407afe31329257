-- Booleans become bool tensors: was the flight cancelled, was it over a quarter of an hour late?
SELECT distance, dep_time IS NULL AS cancelled, coalesce(arr_delay > 15, false) AS late
FROM 'examples/data/flights.parquet'
WHERE distance IS NOT NULL
ORDER BY time_hour, flight, tailnum

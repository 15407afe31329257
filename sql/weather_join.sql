-- Each flight with the weather of its hour at its airport.
SELECT *
FROM tensordict((
    SELECT time_hour, f.flight, f.dep_delay, f.distance, w.temp, w.humid, w.wind_speed, w.precip, w.visib
    FROM 'examples/data/flights.parquet' f
    JOIN 'examples/data/weather.parquet' w USING (origin, time_hour)
    WHERE f.dep_delay IS NOT NULL AND f.month = 6
), nulls => 'mask', mask_key => 'known')
ORDER BY time_hour, flight

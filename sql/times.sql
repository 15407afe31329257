-- A timestamp is no number until SQL makes it one: seconds, hour of the day on a circle, weekday.
SELECT to_unixtime(time_hour) AS unix_seconds,
       CAST(sin(2 * pi() * date_part('hour', time_hour) / 24) AS FLOAT) AS hour_sin,
       CAST(cos(2 * pi() * date_part('hour', time_hour) / 24) AS FLOAT) AS hour_cos,
       date_part('dow', time_hour) AS weekday
FROM 'examples/data/weather.parquet'
WHERE origin = 'JFK'
ORDER BY time_hour

-- Strings stay beside the tensors, row by row, as Arrow has them.
SELECT f.flight, f.dest, l.name AS carrier, p.manufacturer, p.seats
FROM 'examples/data/flights.parquet' f
JOIN 'examples/data/airlines.parquet' l USING (carrier)
JOIN 'examples/data/planes.parquet' p USING (tailnum)
WHERE f.month = 12 AND f.day = 24
ORDER BY f.flight, f.dest, f.sched_dep_time

-- What a query would give, told without running it.
SELECT path, arrow_type, kind, dtype, shape, mask_path
FROM tensordict_schema((
    SELECT tailnum, array_agg(arr_delay) AS delays, named_struct('n', count(*), 'mean', avg(arr_delay)) AS stats
    FROM 'examples/data/flights.parquet' GROUP BY tailnum
), nulls => 'mask')

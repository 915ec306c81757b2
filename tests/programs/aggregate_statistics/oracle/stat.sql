SELECT Region, median(X), quantile_cont(Y, 0.9), coalesce(var_samp(X), 'nan'::DOUBLE),
  coalesce(stddev_samp(Y), 'nan'::DOUBLE), var_pop(X), stddev_pop(Y), coalesce(corr(X, Y), 'nan'::DOUBLE)
FROM m GROUP BY Region

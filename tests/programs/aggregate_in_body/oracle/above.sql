SELECT P, (SELECT count(*) FROM pay AS other WHERE other.V > pay.V) FROM pay

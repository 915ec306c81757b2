-- Expressions that DuckDB and Spark must answer alike, in value and type: one on a line, over the
-- table t of test_expressions.py. `-- refused` marks those that embedded refuses by name.

-- section: values
1
1000
3000000000
-5
1.5
0.1 + 0.2
1e3
'text'
'it''s'
true
NULL
CAST(NULL AS INT)
DATE '2024-02-29'
TIMESTAMP '2024-02-29 12:34:56.789'
I
L
F
X
S
D
M
N
Q
H
Y

-- section: arithmetic
I + 1
I + L
I + X
I + F
Y + H
Y + 1
L - I
-I
-X
-N
+I
I * 2
I * X
I / 2
I / 4
L / I2
X / 2
X / I2
F / 2
I div 2
I div I2
L div 3
-7 div 2
X div 1 -- refused
I % 3
I % I2
-7 % 3
7 % -3
X % 2
-7.5 % 2
mod(I, 3)
mod(-7, 3)
mod(X, 2)
pmod(I, 3)
pmod(-7, 3)
pmod(7, -3)
pmod(-7.5, 2)
pmod(X, 2)
I & 3
I | 8
I ^ 5
~I
shiftleft(I, 2) -- refused
shiftright(I, 1) -- refused
shiftrightunsigned(I, 1) -- refused
abs(I)
abs(X)
abs(L)
abs(F)
abs(N)
sign(I)
sign(X)
sign(L)
signum(X)
signum(I)
negative(I)
positive(I)
round(X)
round(X, 1)
round(X, 2)
round(1.005, 2)
round(2.5)
round(-2.5)
round(3.5)
round(0.285, 2)
round(1e15, 2)
round(I)
round(I, -1)
round(L, -2)
round(125, -1)
round(-125, -1)
round(X, -1)
round(2.675, 2)
round(1.45, 1)
bround(X) -- refused
bround(2.5) -- refused
bround(3.5, 0) -- refused
floor(X)
floor(-1.5)
floor(I)
floor(L)
floor(F)
ceil(X)
ceil(-1.5)
ceil(I)
ceiling(X)
floor(X, 1) -- refused
trunc(X, 1) -- refused
sqrt(abs(X))
sqrt(4)
cbrt(27)
cbrt(X)
power(2, 10)
power(I, 2)
pow(2.0, 0.5)
exp(1)
exp(0)
expm1(0.5) -- refused
ln(2)
log(10)
log(2, 8)
log2(8)
log10(1000)
log1p(1) -- refused
sin(1)
cos(1)
tan(1)
asin(0.5)
acos(0.5)
atan(0.5)
atan2(1, 2)
sinh(1)
cosh(1)
tanh(0.5)
cot(1)
sec(1)
csc(1)
degrees(1)
radians(180)
pi()
e()
hypot(3, 4)
greatest(I, 3)
greatest(I, I2, 0)
greatest(X, 0.5)
greatest(I, X)
least(I, 3)
least(I, NULL)
greatest(NULL, I)
least(S, 'm')
greatest(D, DATE '2024-01-01')
factorial(5)
factorial(I)
rint(2.5)
rint(X)
width_bucket(5, 0, 10, 5) -- refused
bit_count(I)
bit_count(7)
hex(255)
hex(I)
bin(13)
bin(I)
conv('100', 2, 10) -- refused
isnan(X)
nanvl(X, 0.0)
isnan(CAST('NaN' AS DOUBLE))
nanvl(CAST('NaN' AS DOUBLE), 1.0)
CAST('NaN' AS DOUBLE) = CAST('NaN' AS DOUBLE)
CAST('Infinity' AS DOUBLE) > X
try_add(I, 1)
try_divide(I, 0)
try_subtract(I, 1)
try_multiply(I, 2)
try_divide(I, I2)
I + NULL
NULL + 1
rand() < 1
random() < 1
length(uuid())

-- section: comparisons
I = 3
I <> 3
I != 3
I < 3
I <= X
I > L
I >= I2
I <=> NULL
I <=> 3
NULL <=> NULL
S = 'abc'
S < 'b'
S > 'Z'
D < DATE '2024-01-01'
M > TIMESTAMP '2024-01-01 00:00:00'
D = M
D < M
I = '3'
N > 1
N = 1.5
Q = true
Q AND I > 0
Q OR I > 0
NOT Q
I BETWEEN 0 AND 5
I NOT BETWEEN 0 AND 5
S BETWEEN 'a' AND 'c'
I IN (1, 3, 7)
I NOT IN (1, 3)
I IN (1, NULL)
S IN ('abc', 'x')
X IN (1.5, 2)
I IS NULL
I IS NOT NULL
Q IS TRUE
Q IS NOT TRUE
Q IS FALSE
I IS DISTINCT FROM I2
I IS NOT DISTINCT FROM I2
equal_null(I, I2)
isnull(I)
isnotnull(I)
(I = 3) = Q
I = X
CAST(I AS DOUBLE) = L

-- section: conditionals
CASE WHEN I > 0 THEN 'p' WHEN I < 0 THEN 'n' ELSE 'z' END
CASE WHEN I > 0 THEN 1 END
CASE I WHEN 3 THEN 'three' WHEN 7 THEN 'seven' ELSE 'other' END
CASE WHEN I > 0 THEN 1 ELSE 2.5 END
CASE WHEN I > 0 THEN I ELSE L END
CASE WHEN I > 0 THEN D ELSE DATE '2000-01-01' END
CASE WHEN Q THEN S ELSE 'no' END
if(I > 0, 'p', 'n')
if(Q, I, I2)
if(Q, I, X)
iff(Q, I, I2) -- refused
coalesce(I, 0)
coalesce(S, 'none')
coalesce(I, I2, 0)
coalesce(I, X)
coalesce(NULL, I)
ifnull(I, 0)
nvl(I, 0)
nvl(S, 'x')
nvl2(I, 'some', 'none')
nvl2(I, 1, 2)
nullif(I, 3)
nullif(S, 'abc')
nullif(I, I2)
zeroifnull(I)
nullifzero(I)
decode(I, 3, 'three', 7, 'seven', 'other') -- refused

-- section: casts
CAST(I AS STRING)
CAST(L AS STRING)
CAST(X AS INT)
CAST(X AS BIGINT)
CAST(-2.7 AS INT)
CAST(2.7 AS INT)
CAST(F AS SMALLINT)
CAST(I AS DOUBLE)
CAST(I AS FLOAT)
CAST(X AS FLOAT)
CAST(I AS BIGINT)
CAST(H AS INT)
CAST(I AS BOOLEAN)
CAST(0 AS BOOLEAN)
CAST(X AS BOOLEAN)
CAST(Q AS INT)
CAST(Q AS STRING)
CAST(Q AS DOUBLE)
CAST('3' AS INT)
CAST(' 3 ' AS INT)
CAST('+3' AS INT)
CAST('-3' AS BIGINT)
CAST('2.5' AS DOUBLE)
CAST(' 2.5 ' AS DOUBLE)
CAST('1e3' AS DOUBLE)
CAST('true' AS BOOLEAN)
CAST('yes' AS BOOLEAN)
CAST('t' AS BOOLEAN)
CAST('n' AS BOOLEAN)
CAST('0' AS BOOLEAN)
CAST('2024-02-03' AS DATE)
CAST(' 2024-02-03 ' AS DATE)
CAST('2024-2-3' AS DATE)
CAST('2024-02' AS DATE)
CAST('2024' AS DATE)
CAST('2024-02-03 04:05:06' AS DATE)
CAST('2024-02-03 04:05:06' AS TIMESTAMP)
CAST('2024-02-03T04:05:06' AS TIMESTAMP)
CAST('2024-02-03 04:05:06.123456' AS TIMESTAMP)
CAST('2024-02-03' AS TIMESTAMP)
CAST('2024-02-03 04:05' AS TIMESTAMP)
CAST(D AS STRING)
CAST(M AS STRING)
CAST(TIMESTAMP '2024-01-02 03:04:05' AS STRING)
CAST(TIMESTAMP '2024-01-02 03:04:05.5' AS STRING)
CAST(M AS DATE)
CAST(D AS TIMESTAMP)
CAST(X AS STRING)
CAST(X * 1e9 AS STRING)
CAST(X / 1e6 AS STRING)
CAST(1e300 AS STRING)
CAST(CAST('NaN' AS DOUBLE) AS STRING)
CAST(CAST(0.00012 AS FLOAT) AS STRING)
CAST(1.5 AS STRING)
CAST(F AS STRING)
CAST(N AS STRING)
CAST(CAST(1.5 AS DECIMAL(10, 2)) AS STRING)
CAST(I AS DECIMAL(10, 2))
CAST(X AS DECIMAL(10, 2))
CAST('1.235' AS DECIMAL(10, 2))
CAST('1.5' AS DECIMAL(10, 0))
CAST(2.5 AS DECIMAL(10, 0))
CAST(-2.5 AS DECIMAL(10, 0))
CAST(N AS INT)
CAST(N AS DOUBLE)
CAST(N AS DECIMAL(12, 1))
CAST(N AS BIGINT)
CAST(S AS STRING)
CAST(S AS BINARY)
CAST(I AS DECIMAL)
I::STRING
'7'::INT
INT('7')
STRING(7)
DOUBLE(I)
BIGINT(I)
DATE('2024-02-03')
BOOLEAN('true')
try_cast('x' AS INT)
try_cast('2.7' AS INT)
try_cast('7' AS INT)
try_cast('x' AS DATE)
try_cast('x' AS DOUBLE)
try_cast(3000000000 AS INT)
CAST(300 AS SMALLINT)
CAST(1 AS TINYINT)
CAST(M AS BIGINT) -- refused
CAST(1700000000 AS TIMESTAMP) -- refused

-- section: strings
upper(S)
lower(S)
ucase(S)
lcase(S)
length(S)
len(S)
char_length(S)
character_length(S)
octet_length(S)
bit_length(S)
S || '!'
S || I
concat(S, 'x')
concat(S, I)
concat('a', 'b', 'c')
concat(S)
concat_ws('-', S, 'x')
concat_ws('-', S, NULL, 'x')
concat_ws(',', 'a')
substring(S, 2)
substring(S, 2, 3)
substring(S, 0, 2)
substring(S, 1, 0)
substring(S, -2)
substring(S, -2, 1)
substring(S, -9, 3)
substring(S, -9, 6)
substring(S, 0)
substring(S, I2, 2)
substring(S, 2, -1)
substr(S, 2, 2)
substring(S FROM 2 FOR 2)
substring(S FROM 2)
left(S, 2)
left(S, -1)
left(S, 0)
right(S, 2)
right(S, -1)
right(S, 0)
right(S, 99)
trim(S)
trim('  x  ')
ltrim('  x  ')
rtrim('  x  ')
btrim('  x  ')
trim(BOTH 'x' FROM 'xxaxx')
trim(LEADING 'x' FROM 'xxaxx')
trim(TRAILING 'x' FROM 'xxaxx')
trim('x' FROM 'xxaxx')
ltrim('x', 'xxa')
rtrim('x', 'axx')
btrim('xyaxy', 'xy')
trim(concat(chr(9), 'x', chr(10)))
replace(S, 'l', 'L')
replace(S, 'l')
replace(S, '', 'x')
reverse(S)
repeat(S, 2)
repeat('ab', 0)
repeat('ab', -1)
lpad(S, 7, '*')
rpad(S, 7, '*')
lpad(S, 3, '*')
lpad(S, 3)
rpad(S, 7)
lpad('ab', 5, 'xyz')
lpad('ab', 5, '')
lpad('ab', -1, 'x')
initcap('hello wORLD') -- refused
initcap(S) -- refused
instr(S, 'l')
instr(S, '')
instr('abc', 'z')
locate('l', S)
locate('l', 'hello', 4)
locate('', 'abc')
position('l' IN S)
position('l', S)
ascii('A')
ascii(S)
ascii('')
chr(65)
char(65)
chr(321)
space(3)
contains(S, 'l')
startswith(S, 'H')
endswith(S, 'o')
S LIKE 'H%'
S LIKE '%l%'
S LIKE '_b_'
S NOT LIKE '%l%'
S LIKE 'abc'
P LIKE 'a\%b'
P LIKE 'a\_b'
P LIKE 'a\\b'
P LIKE 'a!%b' ESCAPE '!'
P LIKE '50\%'
P LIKE S
S LIKE ''
S ILIKE 'h%'
S LIKE concat('%', S)
S RLIKE 'l+'
S RLIKE '^H'
S REGEXP 'o$'
regexp_like(S, 'l')
S NOT RLIKE 'l'
regexp_replace(S, 'l+', 'L')
regexp_replace('a1b22', '[0-9]+', '#')
regexp_replace('ab', '(a)(b)', '$2$1')
regexp_extract('a12b', '([a-z])([0-9]+)', 2)
regexp_extract('a12b', '([a-z])([0-9]+)')
regexp_extract('zzz', '([0-9]+)', 1)
regexp_extract('a12b', '[0-9]+', 0)
regexp_count(S, 'l')
regexp_substr('a12b', '[0-9]+')
concat('ab', chr(10)) RLIKE 'b$'
concat('ab', chr(13)) RLIKE 'b$'
concat('ab', chr(13), chr(10)) RLIKE 'b$'
concat('ab', chr(13), chr(10)) RLIKE '\r$'
concat('ab', chr(10), chr(10)) RLIKE 'b$'
concat('ab', chr(10), 'c') RLIKE 'b$'
concat('ab', chr(10)) RLIKE '^(a(b$|c)|[$]$)'
concat('ab', chr(10)) RLIKE 'ab[$]'
'a$b' RLIKE 'a\$b'
'a$b' RLIKE 'a[$]b'
concat('a', chr(10), 'b') RLIKE '(?s)a.b'
concat('a', chr(10), 'b') RLIKE 'a.b'
regexp_like(upper(concat('ab', chr(10))), '(?i)b$')
regexp_replace(concat('ab ', chr(10), chr(10)), '\s+$', '')
regexp_replace(S, 'o$', '0')
regexp_extract(S, '(.)$', 1)
concat('ab', chr(10)) RLIKE '(?m)b$' -- refused
concat('ab', chr(10)) RLIKE '(b$)[^x]' -- refused
concat('ab', chr(10)) RLIKE 'b$[^x]' -- refused
'ab' RLIKE 'a(?s:.)' -- refused
regexp_instr('a12b', '[0-9]+') -- refused
translate('abcba', 'ab', 'xy')
translate('abcba', 'abc', 'x')
overlay('abcdef' PLACING 'XX' FROM 3)
overlay('abcdef' PLACING 'XX' FROM 3 FOR 1)
split_part('a,b,c', ',', 2)
split_part('a,b,c', ',', 9)
split_part('a,b,c', ',', -1)
substring_index('a.b.c', '.', 2)
substring_index('a.b.c', '.', -1)
substring_index('a.b.c', '.', 0)
substring_index('abc', '.', 3)
split(S, 'l') -- refused
format_number(1234.5, 2) -- refused
format_string('%d', I) -- refused
printf('%d', I) -- refused
soundex(S) -- refused
levenshtein('kitten', 'sitting')
levenshtein(NULL, 'a')
levenshtein('', 'abc')
md5('abc')
sha1('abc')
sha('abc')
sha2('abc', 256)
crc32('abc') -- refused
hash(I) -- refused
xxhash64(I) -- refused
base64('abc') -- refused
to_number('12', '99') -- refused
find_in_set('b', 'a,b,c')
elt(2, 'a', 'b')
sentences('a b') -- refused
ascii('é')
length('é')
octet_length('é')
upper('straße')
lower('ÀÉ')
reverse('aé')
reverse('éa')
reverse('👨‍👩‍👧')
reverse('')
reverse(CAST(NULL AS STRING))
encode('abc', 'UTF-8') -- refused
quote('a') -- refused
unhex('4142')
hex('AB')
to_char(I, '999') -- refused
char_length('')
trim('')
url_encode('a b') -- refused
mask('abc') -- refused
luhn_check('79927398713') -- refused
is_valid_utf8('a') -- refused

-- section: dates
year(D)
month(D)
day(D)
dayofmonth(D)
dayofweek(D)
dayofyear(D)
weekday(D)
weekofyear(D)
quarter(D)
year(M)
month(M)
day(M)
hour(M)
minute(M)
second(M)
dayofweek(M)
weekday(M)
quarter(M)
weekofyear(DATE '2021-01-03')
weekofyear(DATE '2024-12-30')
extract(YEAR FROM D)
extract(MONTH FROM D)
extract(DAY FROM D)
extract(DOW FROM D)
extract(DAYOFWEEK FROM D)
extract(DOW_ISO FROM D)
extract(DOY FROM D)
extract(WEEK FROM D)
extract(QUARTER FROM D)
extract(YEAROFWEEK FROM D)
extract(HOUR FROM M)
extract(MINUTE FROM M)
extract(SECOND FROM M)
extract(YEAR FROM M)
extract(DOW FROM M)
date_part('year', D)
date_part('dow', D)
date_part('second', M)
datepart('month', D)
date_add(D, 1)
date_add(D, -1)
date_add(D, I)
date_sub(D, 1)
dateadd(D, 3)
date_add(M, 1)
date_diff(D, DATE '2024-01-01')
datediff(D, DATE '2024-01-01')
datediff(M, D)
datediff(DAY, DATE '2024-01-01', D)
datediff(MONTH, DATE '2024-01-31', D)
dateadd(DAY, 3, D)
dateadd(MONTH, 1, D)
dateadd(HOUR, 5, M)
timestampadd(HOUR, 2, M)
timestampadd(MONTH, 1, M)
timestampadd(DAY, 1, M)
timestampdiff(DAY, DATE '2024-03-01', D)
timestampdiff(HOUR, TIMESTAMP '2024-01-01 00:00:00', M)
timestampdiff(MONTH, TIMESTAMP '2024-01-31 00:00:00', M)
timestampdiff(YEAR, TIMESTAMP '2024-03-01 00:00:00', M)
timestampdiff(MINUTE, M, TIMESTAMP '2024-01-01 00:00:00')
timestampdiff(SECOND, M, TIMESTAMP '2024-01-01 00:00:00')
timestampdiff(WEEK, M, TIMESTAMP '2024-01-01 00:00:00')
timestampdiff(QUARTER, M, TIMESTAMP '2024-01-01 00:00:00')
timestampdiff(DAY, TIMESTAMP '2024-01-02 12:00:00', TIMESTAMP '2024-01-01 13:00:00')
add_months(D, 1)
add_months(D, -1)
add_months(DATE '2024-01-31', 1)
add_months(M, 1)
D + INTERVAL 1 DAY
D - INTERVAL 1 DAY
D + INTERVAL '1' DAY
D + INTERVAL 1 MONTH
D + INTERVAL '2' YEAR
D + INTERVAL 1 WEEK
D + INTERVAL 1 HOUR
D - INTERVAL '1' MONTH
M + INTERVAL 1 HOUR
M + INTERVAL 1 DAY
M - INTERVAL 1 MONTH
M + INTERVAL 90 SECOND
M + INTERVAL '1' YEAR
INTERVAL 1 DAY + D
D + 1
D - 1
D - DATE '2024-01-01' -- refused
M - M -- refused
months_between(D, DATE '2024-01-15') -- refused
last_day(D)
last_day(M)
next_day(D, 'MON')
trunc(D, 'MM')
trunc(D, 'MONTH')
trunc(D, 'YEAR')
trunc(D, 'YYYY')
trunc(D, 'QUARTER')
trunc(D, 'WEEK')
date_trunc('month', M)
date_trunc('MONTH', D)
date_trunc('day', M)
date_trunc('hour', M)
date_trunc('year', M)
date_trunc('week', M)
date_trunc('quarter', M)
date_trunc('minute', M)
date_trunc('second', M)
to_date('2024-02-03')
to_date('2024-02-03', 'yyyy-MM-dd')
to_date('03/02/2024', 'dd/MM/yyyy')
to_date(M)
to_timestamp('2024-02-03 04:05:06')
to_timestamp('2024-02-03 04:05:06', 'yyyy-MM-dd HH:mm:ss')
to_timestamp('20240203', 'yyyyMMdd')
date_format(D, 'yyyy-MM-dd')
date_format(M, 'yyyy-MM-dd HH:mm:ss')
date_format(M, 'dd/MM/yy')
date_format(D, 'yyyyMM')
date_format(D, 'EEEE') -- refused
date_format(D, 'MMM') -- refused
make_date(2024, 2, 3)
make_date(2000 + I2, 2, 3)
make_timestamp(2024, 2, 3, 4, 5, 6)
unix_timestamp(M)
unix_timestamp(D)
unix_timestamp('2024-02-03 04:05:06')
unix_timestamp('2024-02-03', 'yyyy-MM-dd')
to_unix_timestamp('2024-02-03 04:05:06')
from_unixtime(0)
from_unixtime(1700000000)
from_unixtime(1700000000, 'yyyy-MM-dd')
unix_date(D)
unix_seconds(M) -- refused
date_from_unix_date(19000)
timestamp_seconds(0) -- refused
current_date() > D
current_date = current_date()
current_timestamp() > M
now() > M
dayname(D)
monthname(D)
D IN (DATE '2024-02-29')
date_format(NULL, 'yyyy')
greatest(D, DATE '2024-02-01')
to_utc_timestamp(M, 'UTC') -- refused
window(M, '1 day') -- refused

-- section: decimals
N + 1
N + N
N - 1
N * 2
N + CAST(1 AS DECIMAL(10, 2))
CAST(I AS DECIMAL(10, 2)) + CAST(I2 AS DECIMAL(5, 1))
CAST(I AS DECIMAL(10, 2)) * CAST(I2 AS DECIMAL(5, 1))
CAST(I AS DECIMAL(10, 2)) / CAST(I2 AS DECIMAL(5, 1))
CAST(I AS DECIMAL(10, 2)) / 3
CAST(I AS DECIMAL(10, 2)) % CAST(I2 AS DECIMAL(5, 1))
CAST(I AS DECIMAL(10, 2)) div 2
CAST(I AS DECIMAL(10, 2)) - L
CAST(I AS DECIMAL(10, 2)) + X
CAST(I AS DECIMAL(10, 2)) * 0.5
CAST(I AS DECIMAL(10, 2)) + Y
N * N -- refused
N / 3
N + X
abs(CAST(-1.5 AS DECIMAL(10, 2)))
-CAST(-1.5 AS DECIMAL(10, 2))
sign(CAST(-1.5 AS DECIMAL(10, 2)))
round(CAST(1.255 AS DECIMAL(10, 3)), 2)
round(CAST(1.255 AS DECIMAL(10, 3)))
round(CAST(-2.5 AS DECIMAL(10, 1)))
floor(CAST(-1.5 AS DECIMAL(10, 2)))
ceil(CAST(1.5 AS DECIMAL(10, 2)))
floor(N)
ceil(N)
round(N, 1)
round(N)
pmod(CAST(-7 AS DECIMAL(10, 2)), 3)
mod(CAST(-7 AS DECIMAL(10, 2)), 3)
sqrt(CAST(4 AS DECIMAL(10, 2)))
power(CAST(2 AS DECIMAL(10, 2)), 2)
greatest(CAST(2 AS DECIMAL(10, 2)), 3)
coalesce(N, 0)
coalesce(CAST(I AS DECIMAL(10, 2)), X)
if(Q, N, 0)
CASE WHEN Q THEN CAST(1 AS DECIMAL(10, 2)) ELSE 2 END
CASE WHEN Q THEN CAST(1 AS DECIMAL(10, 2)) ELSE 2.5 END
CAST(1 AS DECIMAL(10, 2)) = 1
CAST(1 AS DECIMAL(10, 2)) < 1.5
CAST(1 AS DECIMAL(10, 2)) IN (1, 2)
N BETWEEN 0 AND 10
nullif(CAST(1 AS DECIMAL(10, 2)), 1)
CAST(12345678901234567890 AS DECIMAL(38, 0)) * 10
N * CAST(I2 AS DECIMAL(4, 1))
(N + 1) * 2 - N
N + I
N + L

-- section: aggregates
count(*)
count(1)
count(I)
count(DISTINCT I)
count(DISTINCT I, I2) -- refused
sum(I)
sum(L)
sum(X)
sum(F)
sum(Y)
sum(DISTINCT I)
avg(I)
avg(X)
avg(L)
mean(I)
avg(DISTINCT I)
min(I)
max(I)
min(S)
max(S)
min(D)
max(M)
min(X)
max(Q)
min(N)
sum(N)
avg(N)
sum(CAST(I AS DECIMAL(10, 2)))
avg(CAST(I AS DECIMAL(10, 2)))
count(N)
count_if(I > 0)
bool_and(Q)
bool_or(Q)
every(Q)
some(Q)
any(Q) -- refused
stddev(X)
stddev(I)
stddev_samp(X)
stddev_pop(X)
std(X)
variance(X)
var_samp(X)
var_pop(X)
var_pop(I)
covar_pop(X, I)
covar_samp(X, I)
corr(X, I)
corr(G, I)
corr(G, G)
regr_slope(I, G)
skewness(X) -- refused
kurtosis(X) -- refused
kurtosis(I) -- refused
median(I)
median(X)
percentile(I, 0.5)
percentile(X, 0.25)
percentile(I, 0.9)
percentile_cont(0.5) WITHIN GROUP (ORDER BY X)
percentile_disc(0.5) WITHIN GROUP (ORDER BY X)
percentile_approx(I, 0.5) -- refused
approx_percentile(I, 0.5) -- refused
approx_count_distinct(I) -- refused
mode(Q) -- refused
max_by(S, K)
min_by(S, K)
first(S) -- refused
last(S) -- refused
first_value(S) -- refused
any_value(S) -- refused
collect_list(I) -- refused
collect_set(I) -- refused
array_agg(I) -- refused
string_agg(S, ',') -- refused
listagg(S, ',') -- refused
bit_and(I)
bit_or(I)
bit_xor(I)
sum(I) FILTER (WHERE I > 0)
count(*) FILTER (WHERE Q)
max(I) - min(I)
sum(I) / count(*)
sum(X) / count(X)
sum(CASE WHEN I > 0 THEN 1 ELSE 0 END)
sum(I * X)
coalesce(sum(I), 0)
round(avg(X), 2)
sum(I) + 1
regr_slope(X, I)
regr_intercept(X, I)
regr_count(X, I)
regr_r2(X, I)
regr_avgx(X, I)
product(I) -- refused
grouping(I) -- refused
try_sum(I) -- refused
try_avg(I) -- refused
max(length(S))
round(sum(X), 1)
CAST(avg(X) AS INT)
CAST(sum(I) AS STRING)
floor(avg(I))
upper(max(S))
year(max(D))
max(D) + INTERVAL 1 DAY
datediff(max(D), min(D))
abs(min(I))
sign(sum(I))
substring(max(S), 1, 2)
round(sum(X) / count(*), 3)
sum(I) div 2
concat(max(S), '-', count(*))
max(I) % 2
if(sum(I) > 0, 'p', 'n')
coalesce(max(S), '')
round(avg(N), 2)
sum(DISTINCT X)
stddev(DISTINCT I)
max(CAST(I AS STRING))
min(CAST(I AS DECIMAL(10, 2)))

-- section: windows
row_number() OVER (ORDER BY K)
row_number() OVER (PARTITION BY Q ORDER BY K)
rank() OVER (ORDER BY G)
dense_rank() OVER (ORDER BY G)
percent_rank() OVER (ORDER BY K)
cume_dist() OVER (ORDER BY G)
ntile(3) OVER (ORDER BY K)
lag(I) OVER (ORDER BY K)
lag(I, 2) OVER (ORDER BY K)
lag(I, 1, 0) OVER (ORDER BY K)
lead(I) OVER (ORDER BY K)
lead(S, 1, 'none') OVER (ORDER BY K)
first_value(I) OVER (ORDER BY K)
last_value(I) OVER (ORDER BY K)
nth_value(I, 2) OVER (ORDER BY K)
sum(I) OVER (ORDER BY K)
sum(I) OVER (PARTITION BY G)
sum(I) OVER (ORDER BY K ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
sum(X) OVER (ORDER BY K ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
avg(I) OVER (PARTITION BY G)
count(*) OVER (PARTITION BY G)
count(I) OVER (ORDER BY G)
max(S) OVER (PARTITION BY G)
min(I) OVER (ORDER BY K ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
sum(I) OVER (ORDER BY G RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)
rank() OVER (ORDER BY I)
rank() OVER (ORDER BY I DESC)
row_number() OVER (ORDER BY S, K)
sum(N) OVER (PARTITION BY G)
avg(N) OVER (PARTITION BY G)
stddev(X) OVER (PARTITION BY G)
lag(N) OVER (ORDER BY K)
first(I) OVER (ORDER BY K)
last(I) OVER (ORDER BY K)
sum(I) FILTER (WHERE Q) OVER (PARTITION BY G)
I - lag(I) OVER (ORDER BY K)
round(avg(X) OVER (PARTITION BY G), 2)
datediff(D, lag(D) OVER (ORDER BY K))
D - INTERVAL 1 DAY = lag(D) OVER (ORDER BY K)
CAST(sum(I) OVER (PARTITION BY G) AS STRING)

-- section: errors
CAST('x' AS INT)
CAST('2.7' AS INT)
CAST('' AS INT)
CAST('1e3' AS INT)
CAST('x' AS DOUBLE)
CAST('x' AS DATE)
CAST('2024-13-01' AS DATE)
CAST('maybe' AS BOOLEAN)
CAST(3000000000 AS INT)
CAST(300 AS TINYINT)
CAST(1e20 AS BIGINT)
CAST('abc' AS DECIMAL(10, 2))
CAST(12345 AS DECIMAL(4, 1))
1 / 0
1 % 0
1 div 0
pmod(1, 0)
1.5 / 0
X % 0
1.5 % 0
X / 0
N / 0
I div 0
P LIKE 'a\b'
2147483647 + 1
9223372036854775807 + 1
2147483647 * 2
-2147483648 - 1
abs(-2147483648)
CAST(I AS DATE)
CAST(D AS INT)
D + X
S + 1
to_date('x', 'yyyy-MM-dd')
make_date(2024, 13, 1)
nonsense(I)
sum(S)
to_timestamp('x')
sqrt('x')
length(Z9)
elt(9, 'a', 'b')

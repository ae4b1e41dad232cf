/*
** test_units.c: sizes, counts, shares and durations as text and back.
*/
#include <string.h>

#include "../../report/units.h"
#include "../tap.h"

#define KIB 1024ll
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

static const char *bytes_text(int64_t n)
{
    static char text[TIDE_R_UNIT_MAX];
    return tideR_bytes_text(n, text);
}

static const char *count_text(int64_t n)
{
    static char text[TIDE_R_UNIT_MAX];
    return tideR_count_text(n, text);
}

static const char *share_text(int64_t part, int64_t whole)
{
    static char text[TIDE_R_UNIT_MAX];
    return tideR_share_text(part, whole, text);
}

static const char *duration_text(uint64_t ns)
{
    static char text[TIDE_R_UNIT_MAX];
    return tideR_duration_text(ns, text);
}

/* -1: it was refused. */
static int64_t bytes_of(const char *text)
{
    uint64_t n = 4711;
    if (tideR_bytes_parse(text, &n) == TIDE_OK)
        return (int64_t)n;
    CHECK_EQ(n, 4711);
    return -1;
}

static int64_t count_of(const char *text)
{
    uint64_t n = 4711;
    if (tideR_count_parse(text, &n) == TIDE_OK)
        return (int64_t)n;
    CHECK_EQ(n, 4711);
    return -1;
}

static int64_t duration_of(const char *text)
{
    uint64_t n = 4711;
    if (tideR_duration_parse(text, &n) == TIDE_OK)
        return (int64_t)n;
    CHECK_EQ(n, 4711);
    return -1;
}

TEST(units_bytes_have_three_digits)
{
    CHECK_STR(bytes_text(0), "0 B");
    CHECK_STR(bytes_text(1023), "1023 B");
    CHECK_STR(bytes_text(1024), "1.00 KiB");
    CHECK_STR(bytes_text(1536), "1.50 KiB");
    CHECK_STR(bytes_text(10 * KIB), "10.0 KiB");
    CHECK_STR(bytes_text(100 * KIB), "100 KiB");
    CHECK_STR(bytes_text(5 * GIB / 2), "2.50 GiB");
    CHECK_STR(bytes_text(-1536), "-1.50 KiB");
    CHECK_STR(bytes_text(INT64_MAX), "8.00 EiB");
    CHECK_STR(bytes_text(INT64_MIN), "-8.00 EiB");
}

TEST(units_rounding_goes_to_the_next_unit)
{
    CHECK_STR(bytes_text(MIB - 1), "1.00 MiB");
    CHECK_STR(bytes_text(1023 * KIB), "1023 KiB");
    CHECK_STR(bytes_text(1023 * KIB + 511), "1023 KiB");
    CHECK_STR(bytes_text(1023 * KIB + 512), "1.00 MiB");
    CHECK_STR(bytes_text(10 * KIB - 1), "10.0 KiB");
    CHECK_STR(bytes_text(100 * KIB - 1), "100 KiB");
    CHECK_STR(duration_text(999499), "999 us");
    CHECK_STR(duration_text(999500), "1.00 ms");
    CHECK_STR(duration_text(59949999999u), "59.9 s");
    CHECK_STR(duration_text(59950000000u), "1 min 00 s");
}

TEST(units_bytes_fit_a_column)
{
    for (unsigned shift = 0; shift < 63; shift++)
        for (int64_t d = -2; d <= 2; d++) {
            const int64_t n = (1ll << shift) + d;
            CHECK(strlen(bytes_text(n)) <= 8);
            CHECK(strlen(count_text(n)) <= 9);
        }
}

TEST(units_counts_have_separators)
{
    CHECK_STR(count_text(0), "0");
    CHECK_STR(count_text(999), "999");
    CHECK_STR(count_text(1000), "1,000");
    CHECK_STR(count_text(1234567), "1,234,567");
    CHECK_STR(count_text(9999999), "9,999,999");
    CHECK_STR(count_text(10000000), "10.0 M");
    CHECK_STR(count_text(999499999), "999 M");
    CHECK_STR(count_text(999500000), "1.00 G");
    CHECK_STR(count_text(-12345), "-12,345");
    CHECK_STR(count_text(INT64_MAX), "9.22 E");
}

TEST(units_shares_never_hide_something)
{
    CHECK_STR(share_text(1, 2), "50.0%");
    CHECK_STR(share_text(0, 7), "0.0%");
    CHECK_STR(share_text(1, 1000000), "<0.1%");
    CHECK_STR(share_text(1, 0), "-");
    CHECK_STR(share_text(1, 1), "100.0%");
}

TEST(units_durations)
{
    CHECK_STR(duration_text(0), "0 ns");
    CHECK_STR(duration_text(999), "999 ns");
    CHECK_STR(duration_text(1500), "1.50 us");
    CHECK_STR(duration_text(2310000000u), "2.31 s");
    CHECK_STR(duration_text(182000000000u), "3 min 02 s");
    CHECK_STR(duration_text(3720000000000u), "1 h 02 min");
}

TEST(units_bytes_are_read)
{
    CHECK_EQ(bytes_of("0"), 0);
    CHECK_EQ(bytes_of("100"), 100);
    CHECK_EQ(bytes_of("100 B"), 100);
    CHECK_EQ(bytes_of("10K"), 10 * KIB);
    CHECK_EQ(bytes_of("10k"), 10 * KIB);
    CHECK_EQ(bytes_of("1.5MiB"), 3 * MIB / 2);
    CHECK_EQ(bytes_of(".5 gi"), GIB / 2);
    CHECK_EQ(bytes_of("2 kB"), 2000);
    CHECK_EQ(bytes_of("3MB"), 3000000);
    CHECK_EQ(bytes_of("1T"), 1024 * GIB);
}

TEST(units_what_is_no_size_is_refused)
{
    static const char *const wrong[] = {
        "",     "K",     "-1",   "+1",    "1e3",  "0x10",      "inf",
        "nan",  "1.2.3", ".",    "10Q",   "10KK", "10 K B",    "1 0",
        "10K ", " 10K",  "9e99", "1,000", "%",    "99999999T",
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_EQ(bytes_of(wrong[i]), -1);
}

TEST(units_texts_read_back_within_their_digits)
{
    for (int64_t n = 1; n < 1ll << 50; n = n * 7 / 3 + 1) {
        const int64_t got = bytes_of(bytes_text(n));
        CHECK(got >= 0);
        const int64_t error = got > n ? got - n : n - got;
        CHECK(error <= n / 190); /* half of the last of three digits */
        if (n < 10000000)
            CHECK_EQ(count_of(count_text(n)), n);
    }
}

TEST(units_counts_are_read)
{
    CHECK_EQ(count_of("20"), 20);
    CHECK_EQ(count_of("1,000"), 1000);
    CHECK_EQ(count_of("12,345,678"), 12345678);
    CHECK_EQ(count_of("10k"), 10000);
    CHECK_EQ(count_of("1.5 M"), 1500000);
    CHECK_EQ(count_of("1,00"), -1);
    CHECK_EQ(count_of("1,0000"), -1);
    CHECK_EQ(count_of(",100"), -1);
    CHECK_EQ(count_of("1234,567"), -1);
    CHECK_EQ(count_of("all"), -1);
    CHECK_EQ(count_of(""), -1);
}

TEST(units_durations_are_read)
{
    CHECK_EQ(duration_of("5"), 5000000000);
    CHECK_EQ(duration_of("5s"), 5000000000);
    CHECK_EQ(duration_of("100 ms"), 100000000);
    CHECK_EQ(duration_of("1.5us"), 1500);
    CHECK_EQ(duration_of("2min"), 120000000000);
    CHECK_EQ(duration_of("1h"), 3600000000000);
    CHECK_EQ(duration_of("1 day"), -1);
    CHECK_EQ(duration_of("-1s"), -1);
}

TEST(units_shares_are_read)
{
    double share = -1;
    CHECK_EQ(tideR_share_parse("0.5%", &share), TIDE_OK);
    CHECK(share == 0.005);
    CHECK_EQ(tideR_share_parse("100%", &share), TIDE_OK);
    CHECK(share == 1.0);
    CHECK_EQ(tideR_share_parse("101%", &share), TIDE_ERR_ARG);
    CHECK_EQ(tideR_share_parse("5", &share), TIDE_ERR_ARG);
    CHECK_EQ(tideR_share_parse("%", &share), TIDE_ERR_ARG);
    CHECK(share == 1.0);
}

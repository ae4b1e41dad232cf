/*
** test_options.c: the option string: values, quotes, messages, patterns.
*/
#include "../../common/options.h"

#include <limits.h>
#include <signal.h>
#include <string.h>

#include "../tap.h"

/* Parses over the defaults; the message is "" when all is well. */
static const char *parse(const char *text, struct tide_options *options)
{
    static char why[200];
    why[0] = '\0';
    tideC_options_default(options);
    const enum tide_err err =
        tideC_options_parse(text, options, why, sizeof why);
    CHECK((err == TIDE_OK) == (why[0] == '\0'));
    CHECK(err == TIDE_OK || err == TIDE_ERR_ARG);
    return why;
}

static void check_defaults(const struct tide_options *o)
{
    CHECK_STR(o->out, "%n.%p.tide");
    CHECK_EQ(o->report, TIDE_REPORT_NONE);
    CHECK_EQ(o->top, 20);
    CHECK_EQ(o->start, TIDE_START_AUTO);
    CHECK_EQ(o->backend, TIDE_BACKEND_ARENA);
    CHECK_EQ(o->chunks, 100);
    CHECK_EQ(o->nodes, 4194304);
    CHECK_EQ(o->limit, 0);
    CHECK_EQ(o->signal, 0);
    CHECK_EQ(o->on_signal, TIDE_ON_SIGNAL_TOGGLE);
    CHECK(!o->quiet);
    CHECK(!o->sniff);
    CHECK_EQ(o->log, 0);
    CHECK_STR(o->log_file, "");
    CHECK_EQ(o->warn_rate, 4 << 20);
    CHECK_EQ(o->warn_heap, 0);
    CHECK_STR(o->targets, "");
}

TEST(options_have_the_documented_defaults)
{
    struct tide_options o;
    memset(&o, 0x5a, sizeof o);
    tideC_options_default(&o);
    check_defaults(&o);
}

TEST(options_one_alone_and_nothing_mean_the_defaults)
{
    struct tide_options o;
    CHECK_STR(parse("", &o), "");
    check_defaults(&o);
    CHECK_STR(parse("1", &o), "");
    check_defaults(&o);
    CHECK_STR(parse(" , ,", &o), "");
    check_defaults(&o);
}

TEST(options_sizes_have_units)
{
    struct tide_options o;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"limit=0", 0},
        {"limit=1", 1},
        {"limit=12345B", 12345},
        {"limit=64K", 65536},
        {"limit=64k", 65536},
        {"limit=3MB", 3145728},
        {"limit=3MiB", 3145728},
        {"limit=2G", UINT64_C(2147483648)},
        {"limit=1TiB", UINT64_C(1099511627776)},
        {"limit=18446744073709551615", UINT64_MAX},
    };
    static const char *const bad[] = {
        "limit=M",
        "limit=-1",
        "limit=1.5M",
        "limit=1MX",
        "limit=1iB",
        "limit=99999999999999999999",
        "limit=1KB ,limit=1P",
        "limit=17179869184G",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK_STR(parse(good[i].text, &o), "");
        CHECK_EQ(o.limit, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(parse(bad[i], &o)[0] != '\0');
    CHECK_STR(parse("limit=64Q", &o),
              "option 'limit' takes a size such as 64M, not '64Q'");
    CHECK_STR(parse("limit=", &o), "option 'limit' needs a value: SIZE");
}

TEST(options_signals_have_names)
{
    struct tide_options o;
    CHECK_STR(parse("signal=USR1,on_signal=save", &o), "");
    CHECK_EQ(o.signal, SIGUSR1);
    CHECK_EQ(o.on_signal, TIDE_ON_SIGNAL_SAVE);
    CHECK_STR(parse("signal=SIGPROF", &o), "");
    CHECK_EQ(o.signal, SIGPROF);
    CHECK_STR(parse("signal=none", &o), "");
    CHECK_EQ(o.signal, 0);
    CHECK_STR(parse("signal=KILL", &o),
              "option 'signal' takes none|HUP|USR1|USR2|PROF, not 'KILL'");
    CHECK_STR(parse("signal=SIG", &o),
              "option 'signal' takes none|HUP|USR1|USR2|PROF, not 'SIG'");
    CHECK_STR(parse("on_signal=", &o), "option 'on_signal' needs a value: "
                                       "toggle|start|stop|save|mark|reset");
}

TEST(options_every_key_is_read)
{
    struct tide_options o;
    CHECK_STR(parse("out=a.tide,report=json,top=0,start=manual,"
                    "backend=system,chunks=7,nodes=1000,quiet=yes,sniff=on,"
                    "states=apart,"
                    "targets=a.rules",
                    &o),
              "");
    CHECK_STR(o.out, "a.tide");
    CHECK_EQ(o.report, TIDE_REPORT_JSON);
    CHECK_EQ(o.top, 0);
    CHECK_EQ(o.start, TIDE_START_MANUAL);
    CHECK_EQ(o.backend, TIDE_BACKEND_SYSTEM);
    CHECK_EQ(o.chunks, 7);
    CHECK_EQ(o.nodes, 1000);
    CHECK(o.quiet && o.sniff);
    CHECK_EQ(o.states, TIDE_STATES_APART);
    CHECK_STR(o.targets, "a.rules");
}

TEST(options_what_is_not_named_is_kept)
{
    struct tide_options o;
    char why[80];
    CHECK_STR(parse("top=5,quiet", &o), "");
    CHECK_EQ(tideC_options_parse("report=html", &o, why, sizeof why), TIDE_OK);
    CHECK_EQ(o.top, 5);
    CHECK(o.quiet);
    CHECK_EQ(o.report, TIDE_REPORT_HTML);
    CHECK_EQ(tideC_options_parse("top=6,top=7", &o, why, sizeof why), TIDE_OK);
    CHECK_EQ(o.top, 7);
}

TEST(options_blanks_around_keys_and_values_are_ignored)
{
    struct tide_options o;
    CHECK_STR(parse("  top = 8 , out = a b.tide ", &o), "");
    CHECK_EQ(o.top, 8);
    CHECK_STR(o.out, "a b.tide");
}

TEST(options_switches_take_words)
{
    struct tide_options o;
    static const char *const on[] = {"quiet", "quiet=1", "quiet=on",
                                     "quiet=true", "quiet=yes"};
    static const char *const off[] = {"quiet=0", "quiet=off", "quiet=false",
                                      "quiet=no"};
    for (size_t i = 0; i < sizeof on / sizeof on[0]; i++) {
        CHECK_STR(parse(on[i], &o), "");
        CHECK(o.quiet);
    }
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        char why[80];
        o.quiet = true;
        CHECK_EQ(tideC_options_parse(off[i], &o, why, sizeof why), TIDE_OK);
        CHECK(!o.quiet);
    }
    CHECK_STR(parse("quiet=perhaps", &o),
              "option 'quiet' takes yes or no, not 'perhaps'");
}

TEST(options_quotes_hold_commas)
{
    struct tide_options o;
    CHECK_STR(parse("out=\"a,b=c.tide\",top=3", &o), "");
    CHECK_STR(o.out, "a,b=c.tide");
    CHECK_EQ(o.top, 3);
    CHECK_STR(parse("out=\"  kept  \"", &o), "");
    CHECK_STR(o.out, "  kept  ");
    CHECK_STR(parse("top=\"4\"", &o), "");
    CHECK_EQ(o.top, 4);
    CHECK_STR(parse("out=\"say \"\"hi\"\".tide\"", &o), "");
    CHECK_STR(o.out, "say \"hi\".tide");
    CHECK_STR(parse("out=a\"b,c\"d", &o), "");
    CHECK_STR(o.out, "a\"b,c\"d");
    CHECK_STR(parse("top=1,out=\"a,b", &o),
              "no closing quote after 'out=\"a,b'");
}

TEST(options_an_empty_out_means_memory_only)
{
    struct tide_options o;
    CHECK_STR(parse("out=", &o), "");
    CHECK_STR(o.out, "");
    CHECK_STR(parse("out=\"\"", &o), "");
    CHECK_STR(o.out, "");
    CHECK_STR(parse("out", &o), "option 'out' needs a value: FILE");
}

TEST(options_unknown_keys_are_named)
{
    struct tide_options o;
    CHECK_STR(parse("tops=3", &o),
              "unknown option 'tops'; did you mean 'top'?");
    CHECK_STR(parse("reprot=text", &o),
              "unknown option 'reprot'; did you mean 'report'?");
    CHECK_STR(parse("colour=red", &o),
              "unknown option 'colour'; 'tidemark help options' lists them");
    CHECK_STR(parse("x", &o),
              "unknown option 'x'; 'tidemark help options' lists them");
    CHECK_STR(parse("=3", &o),
              "unknown option ''; 'tidemark help options' lists them");
    CHECK_STR(parse("TOP=3", &o),
              "unknown option 'TOP'; 'tidemark help options' lists them");
}

TEST(options_numbers_are_numbers)
{
    struct tide_options o;
    CHECK_STR(parse("top=abc", &o), "option 'top' takes a number, not 'abc'");
    CHECK_STR(parse("top=-1", &o), "option 'top' takes a number, not '-1'");
    CHECK_STR(parse("top=1 2", &o), "option 'top' takes a number, not '1 2'");
    CHECK_STR(parse("top=", &o), "option 'top' needs a value: N");
    CHECK_STR(parse("top", &o), "option 'top' needs a value: N");
    CHECK_STR(parse("top=4294967295", &o), "");
    CHECK_EQ(o.top, 4294967295u);
    CHECK_STR(parse("top=4294967296", &o),
              "option 'top' takes a number from 0 to 4294967295, "
              "not '4294967296'");
    CHECK_STR(parse("top=99999999999999999999999999", &o),
              "option 'top' takes a number from 0 to 4294967295, "
              "not '99999999999999999999999999'");
    CHECK_STR(parse("nodes=63", &o),
              "option 'nodes' takes a number from 64 to 134217728, not '63'");
}

TEST(options_choices_are_listed)
{
    struct tide_options o;
    CHECK_STR(parse("report=pdf", &o),
              "option 'report' takes none|text|json|html, not 'pdf'");
    CHECK_STR(parse("start=", &o), "option 'start' needs a value: auto|manual");
    CHECK_STR(parse("backend=aren", &o),
              "option 'backend' takes arena|system, not 'aren'");
}

TEST(options_a_path_that_is_too_long_is_refused)
{
    struct tide_options o;
    char text[TIDE_OPT_PATH_MAX + 8];
    memset(text, 'a', sizeof text);
    memcpy(text, "out=", 4);
    text[4 + TIDE_OPT_PATH_MAX - 1] = '\0';
    CHECK_STR(parse(text, &o), "");
    CHECK_EQ(strlen(o.out), TIDE_OPT_PATH_MAX - 1);
    text[4 + TIDE_OPT_PATH_MAX - 1] = 'a';
    text[4 + TIDE_OPT_PATH_MAX] = '\0';
    CHECK_STR(parse(text, &o), "option 'out' is longer than 1023 bytes");
}

TEST(options_messages_fit_whatever_the_input)
{
    struct tide_options o;
    char text[5000], why[40];
    memset(text, 'k', sizeof text);
    text[sizeof text - 1] = '\0';
    why[sizeof why - 1] = 'x';
    CHECK_EQ(tideC_options_parse(text, &o, why, sizeof why - 1), TIDE_ERR_ARG);
    CHECK_EQ(strlen(why), sizeof why - 2);
    CHECK_EQ(why[sizeof why - 1], 'x');
}

TEST(options_table_is_complete)
{
    const struct tide_option_row *row = tideC_options_table();
    struct tide_options o;
    size_t n = 0;
    for (; row->name != NULL; row++, n++) {
        char text[80], why[80];
        CHECK(row->value[0] != '\0' && row->meaning[0] != '\0');
        snprintf(text, sizeof text, "%s=%s", row->name, row->default_text);
        tideC_options_default(&o);
        CHECK_EQ(tideC_options_parse(text, &o, why, sizeof why), TIDE_OK);
        check_defaults(&o);
    }
    CHECK_EQ(n, 19);
}

static const char *expand(const char *pattern, const char *program)
{
    static char out[64];
    CHECK_EQ(tideC_options_expand(pattern, 4711, program, out, sizeof out),
             TIDE_OK);
    return out;
}

TEST(options_patterns_are_expanded)
{
    CHECK_STR(expand("%n.%p.tide", "lua5.4"), "lua5.4.4711.tide");
    CHECK_STR(expand("/tmp/%n", "/usr/bin/lua5.4"), "/tmp/lua5.4");
    CHECK_STR(expand("100%%.%p%p", "x"), "100%.47114711");
    CHECK_STR(expand("plain", "x"), "plain");
    CHECK_STR(expand("", "x"), "");
    CHECK_STR(expand("%n", ""), "unknown");
    CHECK_STR(expand("%n", "dir/"), "unknown");
}

TEST(options_bad_patterns_are_refused)
{
    char out[8] = "before";
    CHECK_EQ(tideC_options_expand("%x", 1, "p", out, sizeof out), TIDE_ERR_ARG);
    CHECK_EQ(tideC_options_expand("a%", 1, "p", out, sizeof out), TIDE_ERR_ARG);
    CHECK_EQ(tideC_options_expand("12345678", 1, "p", out, sizeof out),
             TIDE_ERR_NOMEM);
    CHECK_EQ(tideC_options_expand("1234567", 1, "p", out, sizeof out), TIDE_OK);
    CHECK_STR(out, "1234567");
    CHECK_EQ(tideC_options_expand("%p", INT_MAX, "p", out, sizeof out),
             TIDE_ERR_NOMEM);
    CHECK_EQ(tideC_options_expand("", 1, "p", out, 0), TIDE_ERR_NOMEM);
}

TEST(options_files_have_known_letters_alone)
{
    static const char *const keys[] = {"out", "log_file"};
    static const char *const bad[] = {"%z", "a%", "%p.%%%", "%P"};
    struct tide_options o;
    char text[64], wanted[96];
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            snprintf(text, sizeof text, "%s=%s", keys[k], bad[i]);
            snprintf(wanted, sizeof wanted,
                     "option '%s' takes a file with %%p, %%n and %%%% alone, "
                     "not '%s'",
                     keys[k], bad[i]);
            CHECK_STR(parse(text, &o), wanted);
        }
        snprintf(text, sizeof text, "%s=%%n%%%%%%p%%n", keys[k]);
        CHECK_STR(parse(text, &o), "");
    }
    CHECK_STR(parse("targets=100%z", &o), "");
}

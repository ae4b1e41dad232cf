/*
** control.c: commands from outside, and the signal.
**
** The profile's header page has a place for one command (struct
** tide_p_control).  Whoever may write the file puts it there; the process looks
** at its number on slow calls of the allocator, carries it out and answers.  No
** socket, no thread, nothing on the fast path.
**
** The file's mode is 0600: who may command is who may read the profile, the
** user that the process had when it began, and root.  All that can be asked for
** is in the table below; a save goes into the profile's own folder under a name
** that ends in .tide, so that nothing else can be overwritten.  What stands in
** the block is copied and checked before it is used.
**
** The handler of the signal counts and makes the next allocation a slow one;
** all the rest happens there.
*/
#include "session.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SAVES_MAX 10000u

/* A command while it is carried out. */
struct command {
    struct tide_session *session;
    struct tide_heap *heap; /* that found it */
    char argument[TIDE_P_CONTROL_TEXT];
    char answer[TIDE_P_CONTROL_TEXT];
};

static struct tide_p_control *control_of(struct tide_session *s)
{
    return tideP_control(tideP_writer_header(s->writer));
}

void tideT_control_open(struct tide_session *s)
{
    struct tide_p_control *control = control_of(s);
    memset(control, 0, sizeof *control);
    control->is_off = s->is_off;
    control->signal = (uint32_t)(s->has_signal ? s->options.signal : 0);
    s->control_seen = 0;
    s->signals_seen = s->signals;
    for (struct tide_heap *h = s->heaps; h != NULL; h = h->next)
        h->control_seen = 0;
}

/* ---- what can be asked for ---- */

static void switch_all(struct tide_session *s, bool is_off)
{
    s->is_off = is_off;
    control_of(s)->is_off = is_off;
    for (struct tide_heap *h = s->heaps; h != NULL; h = h->next)
        tideT_heap_switch(h);
}

void tideT_session_switch(struct tide_session *s, bool is_off)
{
    tideT_lock(&s->lock);
    switch_all(s, is_off);
    tideT_unlock(&s->lock);
}

static enum tide_err do_start(struct command *c)
{
    switch_all(c->session, false);
    snprintf(c->answer, sizeof c->answer, "recording");
    return TIDE_OK;
}

static enum tide_err do_stop(struct command *c)
{
    switch_all(c->session, true);
    snprintf(c->answer, sizeof c->answer, "not recording");
    return TIDE_OK;
}

/* Each heap on its own thread, when it looks; those in no use at once. */
static enum tide_err do_reset(struct command *c)
{
    struct tide_session *s = c->session;
    unsigned n_later = 0;
    s->n_resets++;
    for (struct tide_heap *h = s->heaps; h != NULL; h = h->next) {
        n_later += !h->is_idle && h != c->heap;
        if (!h->is_idle)
            continue;
        tideT_heap_reset(h);
        h->n_resets = s->n_resets;
    }
    snprintf(c->answer, sizeof c->answer, "counting anew");
    if (n_later > 0)
        snprintf(c->answer, sizeof c->answer,
                 "counting anew; %u more states when they allocate", n_later);
    return TIDE_OK;
}

/* A plain name, which gets .tide where it lacks it.  False: it is none. */
static bool is_plain_name(const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if (name[i] == '/' || (unsigned char)name[i] < 0x20)
            return false;
    return n > 0 && name[0] != '.' && n < NAME_MAX - 16;
}

static bool has_suffix(const char *name, size_t n)
{
    const size_t tail = sizeof TIDE_P_SUFFIX - 1;
    return n > tail && strcmp(name + n - tail, TIDE_P_SUFFIX) == 0;
}

/* The name in the folder of the profile; false: it does not fit. */
static bool place_beside(const char *profile, const char *name, char *out,
                         size_t out_bytes)
{
    const char *slash = strrchr(profile, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - profile) + 1;
    const int n = snprintf(out, out_bytes, "%.*s%s%s", folder, profile, name,
                           has_suffix(name, strlen(name)) ? "" : TIDE_P_SUFFIX);
    return n > 0 && (size_t)n < out_bytes;
}

static enum tide_err save_as(struct command *c, const char *name)
{
    struct tide_session *s = c->session;
    const char *profile = tideP_writer_path(s->writer);
    char path[PATH_MAX];
    if (!is_plain_name(name) ||
        !place_beside(profile, name, path, sizeof path)) {
        snprintf(c->answer, sizeof c->answer,
                 "a name is needed, without a folder: it goes where the "
                 "profile is");
        return TIDE_ERR_ARG;
    }
    if (strcmp(path, profile) == 0) {
        snprintf(c->answer, sizeof c->answer, "that is the profile itself");
        return TIDE_ERR_ARG;
    }
    tideT_session_settle(s);
    const enum tide_err err = tideP_writer_save(s->writer, path);
    snprintf(c->answer, sizeof c->answer, "%.460s",
             err == TIDE_OK ? path : strerror(errno));
    return err;
}

static enum tide_err do_save(struct command *c)
{
    return save_as(c, c->argument);
}

static enum tide_err do_mark(struct command *c)
{
    const size_t n = strlen(c->argument);
    bool is_whole = true;
    if (n == 0) {
        snprintf(c->answer, sizeof c->answer, "a label is needed");
        return TIDE_ERR_ARG;
    }
    for (struct tide_heap *h = c->session->heaps; h != NULL; h = h->next)
        is_whole = tideT_mark_label(h, c->argument, n) && is_whole;
    snprintf(c->answer, sizeof c->answer,
             is_whole ? "marked" : "no room for more marks");
    return is_whole ? TIDE_OK : TIDE_ERR_NOMEM;
}

static enum tide_err do_nothing(struct command *c)
{
    snprintf(c->answer, sizeof c->answer, "withdrawn");
    return TIDE_OK;
}

static enum tide_err (*const commands[TIDE_P_COMMAND_COUNT_])(
    struct command *) = {
    [TIDE_P_COMMAND_NONE] = do_nothing, [TIDE_P_COMMAND_START] = do_start,
    [TIDE_P_COMMAND_STOP] = do_stop,    [TIDE_P_COMMAND_RESET] = do_reset,
    [TIDE_P_COMMAND_SAVE] = do_save,    [TIDE_P_COMMAND_MARK] = do_mark,
};

/* Somebody else may write to the block at any time: copies, then looks. */
static void read_argument(const struct tide_p_control *control,
                          struct command *c)
{
    memcpy(c->argument, control->argument, sizeof c->argument);
    c->argument[sizeof c->argument - 1] = '\0';
}

static void carry_out(struct command *c, uint32_t number)
{
    struct tide_p_control *control = control_of(c->session);
    const uint32_t what = __atomic_load_n(&control->command, __ATOMIC_RELAXED);
    enum tide_err err = TIDE_ERR_ARG;
    read_argument(control, c);
    snprintf(c->answer, sizeof c->answer, "no such command");
    if (what < TIDE_P_COMMAND_COUNT_)
        err = commands[what](c);
    memcpy(control->answer, c->answer, sizeof control->answer);
    control->result = (uint32_t)err;
    TIDE_PUBLISH(&control->answered, number);
}

/* ---- the signal ---- */

/* "app.1234.tide" is saved as "app.1234.save1.tide" and so on. */
static void save_numbered(struct command *c)
{
    const char *profile = tideP_writer_path(c->session->writer);
    const char *slash = strrchr(profile, '/');
    const char *base = slash == NULL ? profile : slash + 1;
    size_t n = strlen(base);
    if (has_suffix(base, n))
        n -= sizeof TIDE_P_SUFFIX - 1;
    for (uint32_t i = c->session->n_saves + 1; n > 0 && i < SAVES_MAX; i++) {
        char name[NAME_MAX + 1], path[PATH_MAX];
        snprintf(name, sizeof name, "%.*s.save%u%s",
                 n < NAME_MAX - 32 ? (int)n : NAME_MAX - 32, base, i,
                 TIDE_P_SUFFIX);
        if (!place_beside(profile, name, path, sizeof path) ||
            access(path, F_OK) == 0)
            continue;
        c->session->n_saves = i;
        save_as(c, name);
        return;
    }
}

static void act_on_signal(struct command *c, uint32_t n_times)
{
    struct tide_session *s = c->session;
    switch (s->options.on_signal) {
    case TIDE_ON_SIGNAL_TOGGLE:
        if (n_times % 2 != 0)
            switch_all(s, !s->is_off);
        break;
    case TIDE_ON_SIGNAL_START:
        do_start(c);
        break;
    case TIDE_ON_SIGNAL_STOP:
        do_stop(c);
        break;
    case TIDE_ON_SIGNAL_SAVE:
        save_numbered(c);
        break;
    case TIDE_ON_SIGNAL_MARK:
        snprintf(c->argument, sizeof c->argument, "signal");
        do_mark(c);
        break;
    case TIDE_ON_SIGNAL_RESET:
        do_reset(c);
        break;
    }
}

/* A commander sends it with a word, so that it is known to ask for no more. */
static bool is_wake_up(const siginfo_t *info)
{
    return info->si_code == SI_QUEUE &&
           (uint32_t)info->si_value.sival_int == TIDE_P_CONTROL_WAKE;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    const int old_errno = errno;
    for (struct tide_session *s = tideT_sessions(); s != NULL; s = s->next) {
        if (!s->has_signal || (int)s->options.signal != number)
            continue;
        if (!is_wake_up(info))
            __atomic_fetch_add(&s->signals, 1, __ATOMIC_RELAXED);
        for (struct tide_heap *h = TIDE_OBSERVE(&s->heaps); h != NULL;
             h = h->next) {
            h->is_woken = true;
            h->store.small_max = 0;
        }
    }
    errno = old_errno;
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 &&
           action->sa_sigaction == on_signal;
}

/* True when the signal is ours to take: nobody else has taken it. */
static bool is_free(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 &&
           (is_ours(&now) ||
            ((now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL));
}

bool tideT_signal_take(struct tide_session *s)
{
    const int number = (int)s->options.signal;
    struct sigaction ours = {.sa_sigaction = on_signal,
                             .sa_flags = SA_RESTART | SA_SIGINFO};
    sigemptyset(&ours.sa_mask);
    if (number == 0)
        return true;
    s->has_signal = is_free(number) && sigaction(number, &ours, NULL) == 0;
    return s->has_signal;
}

/* Whoever has set a handler since then keeps it. */
void tideT_signal_give_back(struct tide_session *s)
{
    const int number = (int)s->options.signal;
    struct sigaction now;
    if (!s->has_signal)
        return;
    s->has_signal = false;
    for (struct tide_session *o = tideT_sessions(); o != NULL; o = o->next)
        if (o->has_signal && o->options.signal == s->options.signal)
            return;
    if (sigaction(number, NULL, &now) == 0 && is_ours(&now))
        signal(number, SIG_IGN); /* one that is under way must not end us */
}

/* ---- looking ---- */

static bool try_lock(int *lock)
{
    return __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) == 0;
}

static void look(struct tide_heap *h)
{
    struct tide_session *s = h->session;
    struct command c = {.session = s, .heap = h};
    const uint32_t n_signals = __atomic_load_n(&s->signals, __ATOMIC_RELAXED);
    const uint32_t number = TIDE_OBSERVE(&control_of(s)->request);
    if (number != s->control_seen) {
        s->control_seen = number;
        carry_out(&c, number);
    }
    if (n_signals != s->signals_seen) {
        const uint32_t n_times = n_signals - s->signals_seen;
        s->signals_seen = n_signals;
        act_on_signal(&c, n_times);
    }
    h->control_seen = number;
}

void tideT_control_look(struct tide_heap *h)
{
    struct tide_session *s = h->session;
    const int old_errno = errno;
    h->is_woken = false;
    if (s->is_finished) {
        h->control_seen = *h->request;
    } else if (try_lock(&s->lock)) { /* else somebody else looks already */
        look(h);
        tideT_unlock(&s->lock);
    }
    if (h->n_resets != s->n_resets && !h->is_closing) {
        h->n_resets = s->n_resets;
        tideT_heap_reset(h);
    }
    tideA_store_settle(&h->store);
    errno = old_errno;
}

/*
** assert.c: prints a failed assertion with write(2) only, then aborts.
*/
#include "assert.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        abort();
}

void tideC_assert_failed(const char *text, const char *file, int line)
{
    char digits[16];
    int i = (int)sizeof digits;
    digits[--i] = '\0';
    do {
        digits[--i] = (char)('0' + line % 10);
        line /= 10;
    } while (line > 0 && i > 0);
    say("tidemark: assertion failed: ");
    say(text);
    say(" (");
    say(file);
    say(":");
    say(digits + i);
    say(")\n");
    abort();
}

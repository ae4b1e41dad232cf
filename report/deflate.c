/*
** deflate.c: a stream that writes what it gets deflated (raw, without a
** header) and in base64.
**
** Base64 makes four letters of three bytes: up to two bytes wait for the next
** ones.
*/
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "page_impl.h"

#define OUT_BYTES 49152u

struct packer {
    FILE *to;
    z_stream z;
    unsigned char waiting[3];
    unsigned n_waiting;
    unsigned char out[OUT_BYTES];
};

static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Writes three bytes, of which the last ones may be missing. */
static void put_group(FILE *to, const unsigned char *b, unsigned n)
{
    char text[4];
    text[0] = letters[b[0] >> 2];
    text[1] = letters[(b[0] & 3) << 4 | b[1] >> 4];
    text[2] = n > 1 ? letters[(b[1] & 15) << 2 | b[2] >> 6] : '=';
    text[3] = n > 2 ? letters[b[2] & 63] : '=';
    fwrite(text, 1, sizeof text, to);
}

static void put_base64(struct packer *p, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        p->waiting[p->n_waiting++] = bytes[i];
        if (p->n_waiting == 3) {
            put_group(p->to, p->waiting, 3);
            p->n_waiting = 0;
        }
    }
}

/* Deflates what is there; everything to the end when mode is Z_FINISH. */
static void pack(struct packer *p, int mode)
{
    int result;
    do {
        p->z.next_out = p->out;
        p->z.avail_out = OUT_BYTES;
        result = deflate(&p->z, mode);
        put_base64(p, p->out, OUT_BYTES - p->z.avail_out);
    } while (p->z.avail_out == 0 && result == Z_OK);
}

static ssize_t write_packed(void *cookie, const char *bytes, size_t n)
{
    struct packer *p = cookie;
    p->z.next_in = (unsigned char *)(uintptr_t)bytes;
    p->z.avail_in = (unsigned)n;
    pack(p, Z_NO_FLUSH);
    return ferror(p->to) ? 0 : (ssize_t)n;
}

static int close_packed(void *cookie)
{
    struct packer *p = cookie;
    p->z.next_in = NULL;
    p->z.avail_in = 0;
    pack(p, Z_FINISH);
    if (p->n_waiting > 0) {
        memset(p->waiting + p->n_waiting, 0, 3 - p->n_waiting);
        put_group(p->to, p->waiting, p->n_waiting);
    }
    const int status = fflush(p->to) != 0 || ferror(p->to) ? -1 : 0;
    deflateEnd(&p->z);
    free(p);
    return status;
}

FILE *tideR_deflate_open(FILE *to)
{
    static const cookie_io_functions_t functions = {.write = write_packed,
                                                    .close = close_packed};
    struct packer *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    p->to = to;
    if (deflateInit2(&p->z, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK) {
        free(p);
        return NULL;
    }
    FILE *file = fopencookie(p, "w", functions);
    if (file == NULL) {
        deflateEnd(&p->z);
        free(p);
        return NULL;
    }
    setvbuf(file, NULL, _IOFBF, 65536);
    return file;
}

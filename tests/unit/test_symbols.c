/*
** test_symbols.c: names of places in machine code, in this very program, and in
** files that are not what they should be; and what models make of them.
*/
#include "../../report/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../report/model.h"
#include "../tap.h"
#include "scratch.h"
#include "synthetic.h"

static volatile int g_sink;

/* What is looked for: a function of this program. */
static __attribute__((noinline, noclone)) int known_function(int n)
{
    g_sink += n;
    return g_sink;
}

/* ---- profiles with one object ---- */

static struct syn_heap g_heap;
static struct tide_writer *g_writer;

static struct tide_p_object *object_at(uint32_t i)
{
    return (struct tide_p_object *)(void *)g_heap.sections[TIDE_P_OBJECTS]
               .base +
           i;
}

/* A heap with object 1 at a path; its bias and build id are made up. */
static void begin(const char *path)
{
    CHECK_EQ(tideP_writer_open(NULL, &g_writer), TIDE_OK);
    syn_fill_header(tideP_writer_header(g_writer));
    syn_heap_open(g_writer, &g_heap);
    CHECK_EQ(syn_object(&g_heap, path), 1);
}

/* A function that is a place in object 1. */
static uint32_t add_place(enum tide_p_what what, uint64_t address)
{
    const uint32_t func = syn_func(&g_heap, what, "x.so", "", 0, 0);
    syn_func_at(&g_heap, func)->object = 1;
    syn_func_at(&g_heap, func)->address = address;
    return func;
}

static const char *finish(void)
{
    const char *path = scratch_path("symbols.tide");
    syn_heap_close(&g_heap);
    CHECK_EQ(tideP_writer_save(g_writer, path), TIDE_OK);
    CHECK_EQ(tideP_writer_close(g_writer), TIDE_OK);
    return path;
}

static void read_id(const char *note, size_t bytes, struct tide_p_object *o)
{
    ElfW(Nhdr) head;
    while (bytes >= sizeof head) {
        memcpy(&head, note, sizeof head);
        const size_t whole = sizeof head + ((head.n_namesz + 3u) & ~3u) +
                             ((head.n_descsz + 3u) & ~3u);
        if (head.n_type == NT_GNU_BUILD_ID &&
            head.n_descsz <= sizeof o->build_id) {
            o->build_id_bytes = head.n_descsz;
            memcpy(o->build_id, note + sizeof head + 4, head.n_descsz);
        }
        note += whole;
        bytes -= whole < bytes ? whole : bytes;
    }
}

/* The first object is the program. */
static int read_program(struct dl_phdr_info *info, size_t bytes, void *object)
{
    struct tide_p_object *o = object;
    (void)bytes;
    o->bias = info->dlpi_addr;
    o->build_id_bytes = 0;
    memset(o->build_id, 0, sizeof o->build_id);
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_NOTE)
            read_id((const char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr,
                    info->dlpi_phdr[i].p_memsz, o);
    return 1;
}

static void begin_with_program(void)
{
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(n > 0);
    path[n] = '\0';
    begin(path);
    dl_iterate_phdr(read_program, object_at(1));
}

/* ---- questions ---- */

struct answer {
    char name[200];
    char file[400];
    char missing[256];
    uint32_t line;
    bool is_vm;
};

static struct answer ask(const char *path, uint32_t func)
{
    struct tide_profile *profile;
    struct tide_p_problem problem;
    struct tide_symbols *symbols;
    struct tide_r_symbol found;
    struct answer answer = {.line = 0};
    size_t at = 0;
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(tideR_symbols_open(false, &symbols), TIDE_OK);
    tideR_symbols_find(symbols, view, &view->funcs[func], &found);
    if (found.name != NULL)
        snprintf(answer.name, sizeof answer.name, "%s", found.name);
    if (found.file != NULL)
        snprintf(answer.file, sizeof answer.file, "%s", found.file);
    answer.line = found.line;
    answer.is_vm = found.is_vm;
    if (tideR_symbols_missing(symbols, &at, answer.missing,
                              sizeof answer.missing))
        CHECK(!tideR_symbols_missing(symbols, &at, answer.missing,
                                     sizeof answer.missing));
    tideR_symbols_close(symbols);
    tideP_reader_close(profile);
    return answer;
}

static uint64_t address_of_known(void)
{
    int (*f)(int) = known_function;
    uint64_t address = 0;
    memcpy(&address, &f, sizeof f);
    CHECK(f(1) > 0);
    return address;
}

static bool has_symbols(const struct answer *answer)
{
    return strstr(answer->missing, "without libdwfl") == NULL;
}

TEST(symbols_name_a_function_of_this_program)
{
    begin_with_program();
    const uint32_t func = add_place(TIDE_P_C, address_of_known());
    const struct answer answer = ask(finish(), func);
    if (!has_symbols(&answer))
        SKIP("built without libdwfl");
    CHECK_STR(answer.name, "known_function");
    CHECK_STR(answer.missing, "");
    if (answer.line != 0) {
        CHECK(strstr(answer.file, "test_symbols.c") != NULL);
        CHECK(answer.line > 20 && answer.line < 40);
    }
}

TEST(symbols_name_the_function_that_a_call_returns_to)
{
    begin_with_program();
    const uint32_t at = add_place(TIDE_P_NATIVE, address_of_known() + 1);
    const struct answer answer = ask(finish(), at);
    if (!has_symbols(&answer))
        SKIP("built without libdwfl");
    CHECK_STR(answer.name, "known_function");
}

TEST(symbols_a_call_at_a_functions_end_is_not_of_the_next_one)
{
    begin_with_program();
    const uint32_t at = add_place(TIDE_P_NATIVE, address_of_known());
    const struct answer answer = ask(finish(), at);
    CHECK(strcmp(answer.name, "known_function") != 0);
}

TEST(symbols_another_build_gives_no_names)
{
    begin_with_program();
    if (object_at(1)->build_id_bytes == 0)
        SKIP("this program has no build id");
    object_at(1)->build_id[3] ^= 1;
    const uint32_t func = add_place(TIDE_P_C, address_of_known());
    const struct answer answer = ask(finish(), func);
    if (!has_symbols(&answer))
        SKIP("built without libdwfl");
    CHECK_STR(answer.name, "");
    CHECK(strstr(answer.missing, ": not the build that ran") != NULL);
}

TEST(symbols_a_file_that_is_not_there)
{
    begin("/nowhere/lib\n.so");
    const uint32_t func = add_place(TIDE_P_C, 0x10100);
    const struct answer answer = ask(finish(), func);
    if (!has_symbols(&answer))
        SKIP("built without libdwfl");
    CHECK_STR(answer.name, "");
    CHECK_STR(answer.missing, "lib\n.so: not on this machine");
}

TEST(symbols_no_pipe_and_no_device_is_opened)
{
    const char *path = scratch_path("pipe.so");
    CHECK(mkfifo(path, 0600) == 0);
    begin(path);
    const uint32_t func = add_place(TIDE_P_C, 0x10100);
    const struct answer answer = ask(finish(), func);
    if (!has_symbols(&answer))
        SKIP("built without libdwfl");
    CHECK_STR(answer.missing, "pipe.so: not on this machine");
    begin("/dev/zero");
    const uint32_t zero = add_place(TIDE_P_C, 0x10100);
    CHECK_STR(ask(finish(), zero).missing, "zero: not on this machine");
}

TEST(symbols_a_file_that_is_no_code)
{
    const char *path = scratch_path("text.so");
    scratch_write(path, "\177ELF but not really", 19);
    begin(path);
    const uint32_t func = add_place(TIDE_P_NATIVE, 0x10100);
    const struct answer answer = ask(finish(), func);
    if (!has_symbols(&answer))
        SKIP("built without libdwfl");
    CHECK_STR(answer.missing, "text.so: no file of code");
}

TEST(symbols_lua_is_what_the_profile_says_it_is)
{
    begin("/nowhere/x.so");
    object_at(1)->vm_start = 0x10200;
    object_at(1)->vm_end = 0x10300;
    const uint32_t before = add_place(TIDE_P_NATIVE, 0x10200);
    const uint32_t first = add_place(TIDE_P_NATIVE, 0x10201);
    const uint32_t last = add_place(TIDE_P_NATIVE, 0x10300);
    const uint32_t behind = add_place(TIDE_P_NATIVE, 0x10301);
    const char *path = finish();
    CHECK(!ask(path, before).is_vm);
    CHECK(ask(path, first).is_vm);
    CHECK(ask(path, last).is_vm);
    CHECK(!ask(path, behind).is_vm);
}

/* ---- models ---- */

static uint32_t add_bytes(uint32_t node, uint64_t bytes)
{
    struct tide_p_cell *cell =
        syn_cell_at(&g_heap, syn_cell(&g_heap, node, TIDE_KIND_TABLE));
    cell->alloc_bytes = bytes;
    cell->alloc_blocks = 1;
    return node;
}

static uint64_t own_of(const struct tide_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->n_funcs; i++)
        if (strcmp(tideR_strtab_text(&model->strings, model->funcs[i].name),
                   name) == 0)
            return model->funcs[i].own.alloc_bytes;
    return UINT64_MAX;
}

/*
** main:3 -> c -> place 0x10100 -> Lua's own 0x10210; 100, 20 and 3 bytes; and
** two places of one function, which the unwind tables know.
*/
static const char *make_mixed(void)
{
    begin("/nowhere/x.so");
    object_at(1)->vm_start = 0x10200;
    object_at(1)->vm_end = 0x10300;
    const uint32_t main = syn_func(&g_heap, TIDE_P_MAIN, "@a.lua", "", 0, 9);
    const uint32_t c = syn_func(&g_heap, TIDE_P_C, "x.so", "m.f", 0, 0);
    const uint32_t place = add_place(TIDE_P_NATIVE, 0x10100);
    const uint32_t vm = add_place(TIDE_P_NATIVE, 0x10210);
    const uint32_t one = add_place(TIDE_P_NATIVE, 0x10430);
    const uint32_t two = add_place(TIDE_P_NATIVE, 0x10450);
    syn_func_at(&g_heap, one)->lastline = 0x30;
    syn_func_at(&g_heap, two)->lastline = 0x50;
    const uint32_t top = syn_node(&g_heap, 0, main, 3);
    const uint32_t below = add_bytes(syn_node(&g_heap, top, c, 0), 100);
    const uint32_t deep = add_bytes(syn_node(&g_heap, below, place, 0), 20);
    add_bytes(syn_node(&g_heap, deep, vm, 0), 3);
    add_bytes(syn_node(&g_heap, below, one, 0), 7);
    add_bytes(syn_node(&g_heap, below, two, 0), 8);
    return finish();
}

TEST(symbols_models_leave_lua_out_and_keep_its_bytes)
{
    struct tide_model *model;
    struct tide_p_problem problem;
    CHECK_EQ(tideR_model_open(make_mixed(), &model, &problem), TIDE_OK);
    CHECK_EQ(model->n_nodes, 5); /* root, main, c, two functions of x.so */
    CHECK_EQ(own_of(model, "m.f"), 100);
    CHECK_EQ(own_of(model, "x.so+0xff"), 23);
    CHECK_EQ(own_of(model, "x.so+0x400"), 15);
    CHECK_EQ(model->totals.alloc_bytes, 138);
    CHECK_EQ(model->lines[1].counts.alloc_bytes, 138);
    CHECK_EQ(model->unattributed.alloc_bytes, 0);
    tideR_model_close(model);
}

TEST(symbols_a_function_without_a_name_is_of_its_object)
{
    struct tide_model *model;
    struct tide_p_problem problem;
    begin("/nowhere/lua5.4");
    const uint32_t c = add_place(TIDE_P_C, 0x10100);
    syn_func_at(&g_heap, c)->source = syn_string(&g_heap, "lua5.4");
    add_bytes(syn_node(&g_heap, 0, c, 0), 100);
    CHECK_EQ(tideR_model_open(finish(), &model, &problem), TIDE_OK);
    CHECK_EQ(own_of(model, "lua5.4+0x100"), 100);
    const struct tide_r_func *func = &model->funcs[model->n_funcs - 1];
    CHECK_STR(
        tideR_strtab_text(&model->strings, model->groups[func->group].name),
        "lua5.4");
    tideR_model_close(model);
}

TEST(symbols_models_show_lua_when_asked_to)
{
    const struct tide_r_options options = {.shows_internals = true};
    struct tide_model *model;
    struct tide_p_problem problem;
    CHECK_EQ(tideR_model_open_with(make_mixed(), &options, &model, &problem),
             TIDE_OK);
    CHECK_EQ(model->n_nodes, 6);
    CHECK_EQ(own_of(model, "x.so+0xff"), 20);
    CHECK_EQ(own_of(model, "x.so+0x20f"), 3);
    CHECK_EQ(model->totals.alloc_bytes, 138);
    tideR_model_close(model);
}

TEST(symbols_models_say_which_objects_are_missing)
{
    struct tide_model *model;
    struct tide_p_problem problem;
    bool is_said = false;
    CHECK_EQ(tideR_model_open(make_mixed(), &model, &problem), TIDE_OK);
    for (uint32_t i = 0; i < model->n_findings; i++)
        is_said = is_said || strncmp(model->findings[i].text,
                                     "C code has no names here: ", 26) == 0;
    CHECK(is_said);
    tideR_model_close(model);
}

/* What weft doctor reads in programs: true of ELF files made here and of this test itself, and harmless whatever a file says. */
#include "cli/elf.h"
#include "cli/program.h"

#include "base/rand.h"

#include <elf.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

enum { BASE = 0x400000, STRINGS = 1024, DYNAMIC = 512, BYTES = 2048 };

/* A file of one segment that is loaded at BASE: its strings are at STRINGS and its dynamic section at DYNAMIC. */
struct file {
	uint8_t bytes[BYTES];
	unsigned segments, entries;
	size_t string_bytes;
};

static Elf64_Ehdr *head_of(struct file *f)
{
	return (Elf64_Ehdr *)(void *)f->bytes;
}

static Elf64_Phdr *segment_of(struct file *f, unsigned i)
{
	return (Elf64_Phdr *)(void *)(f->bytes + sizeof(Elf64_Ehdr)) + i;
}

static void add_segment(struct file *f, uint32_t type, uint64_t offset, uint64_t bytes)
{
	*segment_of(f, f->segments++) = (Elf64_Phdr){ .p_type = type, .p_offset = offset, .p_vaddr = BASE + offset,
		.p_filesz = bytes };
	head_of(f)->e_phnum = (uint16_t)f->segments;
}

static void add_entry(struct file *f, int64_t tag, uint64_t value)
{
	Elf64_Dyn d = { .d_tag = tag, .d_un.d_val = value };

	memcpy(f->bytes + DYNAMIC + f->entries++ * sizeof(d), &d, sizeof(d));
}

static uint64_t add_string(struct file *f, const char *text)
{
	uint64_t at = f->string_bytes;

	memcpy(f->bytes + STRINGS + at, text, strlen(text) + 1);
	f->string_bytes += strlen(text) + 1;
	return at;
}

/* Dynamic, of this machine, and with libc. */
static struct file make_program(void)
{
	struct file f = { .string_bytes = 1 };
	Elf64_Ehdr *h = head_of(&f);

	memcpy(h->e_ident, ELFMAG, SELFMAG);
	h->e_ident[EI_CLASS] = ELFCLASS64;
	h->e_machine = MACHINE;
	h->e_phoff = sizeof(*h);
	h->e_phentsize = sizeof(Elf64_Phdr);
	add_segment(&f, PT_INTERP, STRINGS, 1);
	add_segment(&f, PT_LOAD, 0, BYTES);
	add_segment(&f, PT_DYNAMIC, DYNAMIC, STRINGS - DYNAMIC);
	add_entry(&f, DT_NEEDED, add_string(&f, "libc.so.6"));
	add_entry(&f, DT_STRTAB, BASE + STRINGS);
	return f;
}

static struct elf read_bytes(const void *bytes, size_t size)
{
	int fd = memfd_create("elf", MFD_CLOEXEC);
	struct elf e;

	assert_int_equal(write(fd, bytes, size), size);
	elf_read(fd, &e);
	close(fd);
	return e;
}

static void foresee(const struct elf *e, bool sees, const char *says)
{
	const char *what, *next;

	assert_int_equal(program_foresee(e, &what, &next), sees);
	assert_non_null(strstr(what, says));
	assert_int_equal(next == NULL, sees);
}

static void what_is_linked_is_seen(void **state)
{
	struct file f = make_program();
	struct elf e = read_bytes(f.bytes, BYTES);

	assert_true(e.is_elf && e.has_interpreter && !e.is_other_machine);
	assert_false(e.needs_verbs || e.needs_asan || e.has_rpath || e.has_own_verbs || e.is_go);
	foresee(&e, true, "does not name libibverbs");
	add_entry(&f, DT_NEEDED, add_string(&f, "libibverbs.so.1"));
	e = read_bytes(f.bytes, BYTES);
	assert_true(e.needs_verbs && !e.needs_asan);
	foresee(&e, true, "needs libibverbs.so.1 and gets weft's");
	add_entry(&f, DT_RPATH, add_string(&f, "/opt/lib"));
	e = read_bytes(f.bytes, BYTES);
	assert_true(e.has_rpath);
	foresee(&e, true, "DT_RPATH");
	add_entry(&f, DT_NEEDED, add_string(&f, "libasan.so.8"));
	e = read_bytes(f.bytes, BYTES);
	assert_true(e.needs_asan);
	foresee(&e, true, "AddressSanitizer");
	/* what comes behind the end counts for nothing */
	f = make_program();
	add_entry(&f, DT_NULL, 0);
	add_entry(&f, DT_NEEDED, add_string(&f, "libibverbs.so.1"));
	assert_false(read_bytes(f.bytes, BYTES).needs_verbs);
}

static void what_is_inside_is_seen(void **state)
{
	static uint8_t large[200000];
	static const char verbs[] = "libibverbs: Warning: no userspace device-specific driver found for %s";
	struct file f = make_program();
	struct elf e;

	memcpy(large, f.bytes, BYTES);
	/* at every place around the border of two reads */
	for (size_t at = 65400; at < 65600; at++) {
		memset(large + BYTES, 0, sizeof(large) - BYTES);
		memcpy(large + at, verbs, sizeof(verbs));
		assert_true(read_bytes(large, sizeof(large)).has_own_verbs);
	}
	e = read_bytes(large, sizeof(large));
	foresee(&e, false, "statically");
	memset(large + BYTES, 0, sizeof(large) - BYTES);
	memcpy(large + 150000, "\xff Go buildinf:", 14);
	e = read_bytes(large, sizeof(large));
	assert_true(e.is_go && !e.has_own_verbs);
	foresee(&e, false, "Go");
}

static void what_cannot_be_reached_is_seen(void **state)
{
	struct file f = make_program();

	segment_of(&f, 0)->p_type = PT_NOTE;
	assert_false(read_bytes(f.bytes, BYTES).has_interpreter);
	head_of(&f)->e_machine = EM_S390;
	assert_true(read_bytes(f.bytes, BYTES).is_other_machine);
	f.bytes[EI_CLASS] = ELFCLASS32;
	assert_true(read_bytes(f.bytes, BYTES).is_other_machine);
	f.bytes[1] = 'X';
	assert_false(read_bytes(f.bytes, BYTES).is_elf);
	assert_false(read_bytes("#!/bin/sh\n", 10).is_elf);
	assert_false(read_bytes("", 0).is_elf);
}

static void a_device_is_no_program(void **state)
{
	int fd = open("/dev/zero", O_RDONLY);
	struct elf e;

	elf_read(fd, &e);
	assert_false(e.is_elf);
	close(fd);
	elf_read(-1, &e);
	assert_false(e.is_elf);
}

static void lies_do_no_harm(void **state)
{
	static const uint64_t values[] = { 0, 1, 0x7f, BYTES - 1, BYTES, 0xffffffff, 1ull << 62, INT64_MAX, 1ull << 63,
		UINT64_MAX };
	struct rand r;

	rand_seed(&r, 3);
	for (size_t cut = 0; cut < BYTES; cut += 7) {
		struct file f = make_program();

		read_bytes(f.bytes, cut);
	}
	for (unsigned i = 0; i < 20000; i++) {
		struct file f = make_program();
		uint64_t value = values[rand_u64(&r) % (sizeof(values) / sizeof(*values))];

		add_entry(&f, DT_NEEDED, value);
		memcpy(f.bytes + EI_NIDENT + rand_u64(&r) % (DYNAMIC + 96 - EI_NIDENT), &value, 1 + rand_u64(&r) % 8);
		head_of(&f)->e_machine = MACHINE;
		read_bytes(f.bytes, BYTES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_linked_is_seen),
		cmocka_unit_test(what_is_inside_is_seen),
		cmocka_unit_test(what_cannot_be_reached_is_seen),
		cmocka_unit_test(a_device_is_no_program),
		cmocka_unit_test(lies_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

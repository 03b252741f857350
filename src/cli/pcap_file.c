#include "cli/pcap_file.h"

#include "cli/cli.h"
#include "impair/pcapng.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NO_INTERFACE = -1, LINKS = 2, OWNERS_MOST = 4096 };	/* our choice: as many processes as weftd has slots for */

enum { STOP_MS = 2000 };	/* our choice: for a slow reader */

/* A process of the records, and its interfaces: by device, and whether it is InfiniBand. */
struct owner {
	struct owner *next;
	uint32_t pid;
	struct trace_process says;
	int64_t interface[IMPAIR_DEVICES][LINKS];
};

struct pcap_file {
	FILE *to;			/* owned: of this descriptor, by write_some */
	int fd;				/* owned, unless it is the standard output */
	bool is_regular;
	int stop;			/* owned: pcap_file_stop_on; -1: there is none */
	const char *path;		/* borrowed */
	uint64_t limit, bytes, frames;
	wtime epoch;
	uint32_t interfaces, owner_count;
	bool is_full;
	int err;			/* errno of the first write that failed; 0: none */
	struct owner *owners;		/* owned */
};

static bool write_block(struct pcap_file *f, const uint8_t *block, size_t bytes)
{
	if (f->is_full || f->err)
		return false;
	if (f->limit && f->bytes + bytes > f->limit) {
		f->is_full = true;
		return false;
	}
	errno = 0;
	if (fwrite(block, 1, bytes, f->to) != bytes)
		f->err = errno ? errno : EIO;
	else
		f->bytes += bytes;
	return !f->err;
}

/* What is no regular file may wait for its reader. False: it is not ready some time after the capture was to end. */
static bool await_reader(const struct pcap_file *f)
{
	struct pollfd p[] = { { .fd = f->fd, .events = POLLOUT }, { .fd = f->stop, .events = POLLIN } };

	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	if (!p[0].revents)
		poll(p, 1, STOP_MS);
	if (!p[0].revents)
		errno = ETIMEDOUT;
	return p[0].revents;
}

/* As cookie_io_functions_t has it. A pipe that is ready takes PIPE_BUF bytes without waiting. */
static ssize_t write_some(void *arg, const char *data, size_t bytes)
{
	const struct pcap_file *f = arg;
	size_t done = 0;

	while (done < bytes && !f->err && (f->is_regular || await_reader(f))) {
		size_t most = bytes - done < PIPE_BUF || f->is_regular ? bytes - done : PIPE_BUF;
		ssize_t n = write(f->fd, data + done, most);

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			break;
	}
	return (ssize_t)done;
}

/* A pipe or a device that somebody named is written, and not truncated. */
static bool open_file(struct pcap_file *f, const char *path)
{
	static const cookie_io_functions_t io = { .write = write_some };
	struct stat st;

	f->fd = strcmp(path, "-") == 0 ? STDOUT_FILENO : open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	if (f->fd < 0 || fstat(f->fd, &st))
		return false;
	f->is_regular = S_ISREG(st.st_mode);
	if (f->is_regular && f->fd != STDOUT_FILENO && ftruncate(f->fd, 0))
		return false;
	f->to = fopencookie(f, "wb", io);
	return f->to;
}

static void close_fds(const struct pcap_file *f)
{
	if (f->fd >= 0 && f->fd != STDOUT_FILENO)
		close(f->fd);
	if (f->stop >= 0)
		close(f->stop);
}

void pcap_file_stop_on(struct pcap_file *f, int fd)
{
	f->stop = fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

int pcap_file_create(const char *path, uint64_t limit, struct pcap_file **f)
{
	uint8_t block[PCAPNG_BLOCK_MOST];
	struct pcap_file *made = calloc(1, sizeof(*made));

	if (!made)
		return cli_fail(NULL, "%s", strerror(ENOMEM));
	made->path = path;
	made->limit = limit;
	made->fd = made->stop = -1;
	if (!open_file(made, path)) {
		cli_fail("name a file that can be written", "%s: %s", path, strerror(errno));
		close_fds(made);
		free(made);
		return EXIT_FAILED;
	}
	write_block(made, block, pcapng_section("weft", block));
	*f = made;
	return EXIT_OK;
}

void pcap_file_set_epoch(struct pcap_file *f, wtime epoch)
{
	f->epoch = epoch;
}

static struct owner *find(const struct pcap_file *f, uint32_t pid)
{
	struct owner *o = f->owners;

	while (o && o->pid != pid)
		o = o->next;
	return o;
}

/* A process begins; or, with the same number, another one. */
static struct owner *begin(struct pcap_file *f, const struct trace_record *r)
{
	struct owner *o = find(f, r->pid);

	if (!o && f->owner_count == OWNERS_MOST)
		return NULL;
	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o) {
			f->err = ENOMEM;
			return NULL;
		}
		o->next = f->owners;
		f->owners = o;
		f->owner_count++;
	}
	o->pid = r->pid;
	if (!trace_get_process(&o->says, r))
		o->says = (struct trace_process){ 0 };
	for (int i = 0; i < IMPAIR_DEVICES; i++)
		o->interface[i][0] = o->interface[i][1] = NO_INTERFACE;
	return o;
}

/* The interface of this record's device; NO_INTERFACE: it could not be written. */
static int64_t interface_of(struct pcap_file *f, struct owner *o, const struct trace_record *r)
{
	enum pcapng_link link = pcapng_link_of(r->form);
	int64_t *interface = &o->interface[r->device][link == PCAPNG_ERF];
	char name[PCAPNG_TEXT], description[PCAPNG_TEXT];
	uint8_t block[PCAPNG_BLOCK_MOST];
	const struct trace_device *d = &o->says.device[r->device];

	if (*interface != NO_INTERFACE)
		return *interface;
	snprintf(name, sizeof(name), "%s/%s-%u", r->device < o->says.devices ? d->name : "?", o->says.program, r->pid);
	snprintf(description, sizeof(description), "%s of process %u, %s", r->device < o->says.devices ? d->protocol : "a device",
		 r->pid, o->says.program);
	if (write_block(f, block, pcapng_interface(link, name, description, block)))
		*interface = f->interfaces++;
	return *interface;
}

bool pcap_file_add(struct pcap_file *f, const struct trace_record *r)
{
	uint8_t block[PCAPNG_BLOCK_MOST];
	struct owner *o;
	int64_t interface;
	size_t bytes;

	o = r->kind == TRACE_PROCESS ? begin(f, r) : find(f, r->pid);
	if (r->kind == TRACE_PASSED && !o)
		o = begin(f, r);
	if (r->kind != TRACE_PASSED || !o)
		return !f->is_full && !f->err;
	interface = interface_of(f, o, r);
	if (interface == NO_INTERFACE)
		return false;
	bytes = pcapng_frame((uint32_t)interface, f->epoch + r->time, r->direction, r->form, r->data, r->bytes, block);
	if (!write_block(f, block, bytes))
		return false;
	f->frames++;
	return true;
}

void pcap_file_flush(struct pcap_file *f)
{
	errno = 0;
	if (fflush(f->to) && !f->err)
		f->err = errno ? errno : EIO;
}

uint64_t pcap_file_frames(const struct pcap_file *f)
{
	return f->frames;
}

uint32_t pcap_file_processes(const struct pcap_file *f)
{
	return f->owner_count;
}

uint64_t pcap_file_bytes(const struct pcap_file *f)
{
	return f->bytes;
}

bool pcap_file_is_full(const struct pcap_file *f)
{
	return f->is_full;
}

int pcap_file_close(struct pcap_file *f)
{
	int status = EXIT_OK;

	pcap_file_flush(f);
	fclose(f->to);
	close_fds(f);
	if (f->err == ETIMEDOUT)
		status = cli_fail("see that it is read", "%s ends early: nobody reads it", f->path);
	else if (f->err && f->err != EPIPE)
		status = cli_fail("see that its disk has room", "%s: %s", f->path, strerror(f->err));
	for (struct owner *o = f->owners, *next; o; o = next) {
		next = o->next;
		free(o);
	}
	free(f);
	return status;
}

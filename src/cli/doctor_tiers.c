/* How processes of one user may reach each other's memory here: each way is tried. Where none is open, all goes as packets,
 * so nothing of this is a failure. */
#include "cli/doctor.h"

#include "link/memfile.h"
#include "remap/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const size_t STRETCH_BYTES = 64 << 20;	/* the least that weft run --shared-heap works with */

static bool is_limited(int resource)
{
	struct rlimit l;

	return getrlimit(resource, &l) == 0 && l.rlim_cur != RLIM_INFINITY;
}

/* 0 or an errno. */
static int try_mapping(void)
{
	int fd = memfile_create_fixed("weft-doctor", STRETCH_BYTES), err;
	void *p;

	if (fd < 0)
		return -fd;
	p = mmap(NULL, STRETCH_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	err = p == MAP_FAILED ? errno : 0;
	if (!err)
		munmap(p, STRETCH_BYTES);
	close(fd);
	return err;
}

void check_mapped(struct patient *p, struct finding *f)
{
	int err = is_limited(RLIMIT_FSIZE) ? EFBIG : try_mapping();

	(void)p;
	if (err)
		finding_say(f, WARNING,
		    is_limited(RLIMIT_FSIZE) ? "ulimit -f unlimited" : "allow memfd_create, and address space (ulimit -v)",
		    "peers cannot map each other's memory (%s): weft run --shared-heap has no effect", strerror(err));
	else if (is_limited(RLIMIT_AS))
		finding_say(f, WARNING, "ulimit -v unlimited",
		    "peers map each other's sealed memory files as long as address space (ulimit -v) lasts");
	else
		finding_say(f, FINE, NULL, "peers map sealed memory files and the blocks of weft run --shared-heap");
}

void check_remap(struct patient *p, struct finding *f)
{
	bool kernel_waits;
	int fd = is_limited(RLIMIT_FSIZE) ? -EFBIG : pages_open(&kernel_waits);

	(void)p;
	if (fd == -EFBIG)
		finding_say(f, WARNING, "ulimit -f unlimited", "weft run --remap has no effect: the size of files is limited");
	else if (fd == -EOPNOTSUPP)
		finding_say(f, WARNING, "Linux 6.4",
		    "weft run --remap has no effect: this kernel's userfaultfd cannot protect all pages");
	else if (fd < 0)
		finding_say(f, WARNING, "allow userfaultfd in the container's seccomp profile",
		    "weft run --remap has no effect: userfaultfd: %s", strerror(-fd));
	else if (kernel_waits)
		finding_say(f, FINE, NULL, "weft run --remap can move memory; system calls that write into it meanwhile wait");
	else
		finding_say(f, FINE, "sysctl vm.unprivileged_userfaultfd=1, should that matter",
		    "weft run --remap can move memory; system calls that write into it at that moment fail with EFAULT");
	if (fd >= 0)
		close(fd);
}

void check_memory_file(struct patient *p, struct finding *f)
{
	uint64_t word = 1, got = 0;
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	(void)p;
	if (fd < 0 || pread(fd, &got, sizeof(got), (off_t)(uintptr_t)&word) != sizeof(got))
		finding_say(f, WARNING, "mount /proc for its user to write; programs must be dumpable (prctl PR_SET_DUMPABLE)",
		    "/proc/self/mem: %s; private memory is reached by packets alone", strerror(errno));
	else
		finding_say(f, FINE, NULL, "processes hand their /proc/self/mem to peers that may trace them");
	if (fd >= 0)
		close(fd);
}

/* A child that waits to be looked into, for as long as its parent lives. */
static pid_t start_target(void)
{
	pid_t parent = getpid(), pid;

	fflush(NULL);	/* a closed pipe must end the parent before it has a child */
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			pause();
		_exit(0);
	}
	return pid;
}

/* One child looks into another, as a parent may do more than a peer. Its errno, or 0. */
static int try_process_vm(void)
{
	static const uint64_t word = 1;
	pid_t target = start_target(), reader;
	int status = 0;

	reader = fork();
	if (reader == 0) {
		uint64_t got;
		struct iovec local = { &got, sizeof(got) }, remote = { (void *)(uintptr_t)&word, sizeof(word) };

		_exit(process_vm_readv(target, &local, 1, &remote, 1, 0) == sizeof(got) ? 0 : errno);
	}
	if (reader > 0)
		waitpid(reader, &status, 0);
	if (target > 0) {
		kill(target, SIGKILL);
		waitpid(target, NULL, 0);
	}
	return target > 0 && reader > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : EAGAIN;
}

static int read_number(const char *path, const char *format)
{
	FILE *f = fopen(path, "re");
	char line[128];
	int number = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, format, &number) == 1)
			break;
	if (f)
		fclose(f);
	return number;
}

void check_process_vm(struct patient *p, struct finding *f)
{
	int err = try_process_vm(), scope = read_number("/proc/sys/kernel/yama/ptrace_scope", "%d");

	(void)p;
	if (err == 0)
		finding_say(f, FINE, NULL, "processes of one user reach each other by process_vm_writev");
	else if (scope > 0)
		finding_say(f, WARNING, "sysctl kernel.yama.ptrace_scope=0, or WEFT_MEMORY=user (man weftd)",
		    "Yama's ptrace_scope is %d: processes get nothing of each other's memory, and data goes as packets", scope);
	else if (read_number("/proc/self/status", "Seccomp: %d"))
		finding_say(f, WARNING, "allow process_vm_readv and process_vm_writev in the container's seccomp profile",
		    "a filter of system calls forbids process_vm_writev (%s): large transfers take the memory file, which costs "
		    "about twice the time", strerror(err));
	else
		finding_say(f, WARNING, NULL, "process_vm_readv: %s; large transfers take the memory file", strerror(err));
}

/* weft doctor: one table of checks; each looks at one thing and says what it found and what to do. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/doctor.h"
#include "cli/environment.h"
#include "cli/output.h"
#include "cli/program.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

struct patient {
	struct places places;
	struct rundir dir;
	const char *program;	/* NULL: none named */
	bool is_served;
};

void finding_say(struct finding *f, enum verdict verdict, const char *next, const char *format, ...)
{
	va_list ap;

	f->verdict = verdict;
	f->next = next;
	va_start(ap, format);
	vsnprintf(f->text, sizeof(f->text), format, ap);
	va_end(ap);
}

static void check_files(struct patient *p, struct finding *f)
{
	char verbs[4096 + 32];

	snprintf(verbs, sizeof(verbs), "%s/libibverbs.so.1", p->places.library_dir);
	if (access(p->places.weftd, X_OK))
		finding_say(f, FAILED, "build or install weft completely", "%s: %s", p->places.weftd, strerror(errno));
	else if (access(verbs, R_OK))
		finding_say(f, FAILED, "build or install weft completely", "%s: %s", verbs, strerror(errno));
	else if (access(p->places.shim, R_OK))
		finding_say(f, FAILED, "build or install weft completely", "%s: %s", p->places.shim, strerror(errno));
	else if (strpbrk(p->places.shim, ": "))
		finding_say(f, FAILED, "move it: LD_PRELOAD separates names by space and colon",
		    "%s has one of these in its name", p->places.library_dir);
	else
		finding_say(f, FINE, NULL, "weftd and the libraries in %s are there", p->places.library_dir);
}

static void check_directory(struct patient *p, struct finding *f)
{
	const char *why = NULL;
	int err = rundir_check(&p->dir, &why);

	if (err && err != -ENOENT)
		finding_say(f, FAILED, "remove it or make it yours alone (chmod 700), or set WEFT_DIR to another directory",
		    "%s: %s", p->dir.path, why);
	else
		finding_say(f, FINE, NULL, "%s%s", p->dir.path, err ? " will be made when needed" : "");
}

static void check_daemon(struct patient *p, struct finding *f)
{
	int fd = daemon_connect(&p->dir, CONTROL_COMMAND);
	bool was_running = fd >= 0;

	if (fd == -ENOENT)
		fd = daemon_start(&p->dir, CONTROL_COMMAND, false);
	p->is_served = fd >= 0;
	if (fd >= 0) {
		finding_say(f, FINE, NULL, was_running ? "it runs and answers" : "it starts and answers");
		close(fd);
	} else {
		finding_say(f, FAILED, "weftd --foreground shows why", "it cannot be reached or started");
	}
}

/* The one check of the whole: a dynamic program that reads a device file. */
static void check_preload(struct patient *p, struct finding *f)
{
	char guid[64] = "";
	int out[2], status = 0;
	ssize_t n = 0;
	pid_t pid;

	if (!p->is_served || pipe2(out, O_CLOEXEC)) {
		finding_say(f, FAILED, "see weftd above", "cannot be tried without weftd");
		return;
	}
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		close(STDERR_FILENO);
		environment_set(&(struct cli_options){ 0 }, &p->places, &p->dir);
		execlp("cat", "cat", "/sys/class/infiniband/weft0/node_guid", NULL);
		_exit(EXIT_NOT_FOUND);
	}
	close(out[1]);
	if (pid > 0) {
		n = read(out[0], guid, sizeof(guid) - 1);
		waitpid(pid, &status, 0);
	}
	close(out[0]);
	if (n > 0 && status == 0)
		finding_say(f, FINE, NULL, "a program started by weft run sees the device files");
	else
		finding_say(f, FAILED,
		    "look for a noexec or otherwise restricted file system under the libraries, and for a musl or static cat",
		    "the loader did not load the shim into a program: LD_PRELOAD is without effect");
}

static void check_memfd(struct patient *p, struct finding *f)
{
	int fd = memfd_create("weft-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)p;
	if (fd < 0)
		finding_say(f, FAILED, "allow memfd_create in the container's seccomp profile", "memory files cannot be made: %s",
		    strerror(errno));
	else if (ftruncate(fd, 4096) || fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW))
		finding_say(f, FAILED, "use Linux 5.1 or later", "memory files cannot be sealed: %s", strerror(errno));
	else
		finding_say(f, FINE, NULL, "memory files can be made and sealed");
	if (fd >= 0)
		close(fd);
}

static void check_shm(struct patient *p, struct finding *f)
{
	struct statvfs v;
	unsigned long long mib;

	(void)p;
	if (access("/dev/shm", W_OK) || statvfs("/dev/shm", &v)) {
		finding_say(f, WARNING, "mount a tmpfs there if UCX or Open MPI complain",
		    "/dev/shm: %s; weft does not use it, but UCX and Open MPI do", strerror(errno));
		return;
	}
	mib = (unsigned long long)v.f_bavail * v.f_frsize >> 20;
	if (mib < 64)
		finding_say(f, WARNING, "docker run --shm-size=1g, or a larger tmpfs",
		    "%llu MiB are free in /dev/shm; weft does not use it, but UCX and Open MPI do", mib);
	else
		finding_say(f, FINE, NULL, "%llu MiB are free (for UCX and Open MPI; weft does not use it)", mib);
}

static void check_descriptors(struct patient *p, struct finding *f)
{
	struct rlimit l;

	(void)p;
	if (getrlimit(RLIMIT_NOFILE, &l)) {
		finding_say(f, FAILED, NULL, "the limit cannot be read: %s", strerror(errno));
		return;
	}
	/* our choice: a channel takes one descriptor, a completion or event channel two */
	if (l.rlim_cur < 256)
		finding_say(f, WARNING, "ulimit -n 1024", "%llu descriptors are few for a program with many peers",
		    (unsigned long long)l.rlim_cur);
	else
		finding_say(f, FINE, NULL, "%llu descriptors per process", (unsigned long long)l.rlim_cur);
}

static void check_memlock(struct patient *p, struct finding *f)
{
	struct rlimit l = { 0 };

	(void)p;
	getrlimit(RLIMIT_MEMLOCK, &l);
	if (l.rlim_cur == RLIM_INFINITY)
		finding_say(f, FINE, NULL, "unlimited (weft locks no memory)");
	else
		finding_say(f, FINE, NULL, "%llu KiB, which does not matter: weft locks no memory",
		    (unsigned long long)l.rlim_cur >> 10);
}

static void check_hardware(struct patient *p, struct finding *f)
{
	DIR *d = opendir("/sys/class/infiniband");
	struct dirent *e;
	char name[64] = "";

	(void)p;
	while (d && (e = readdir(d))) {
		if (e->d_name[0] != '.')
			snprintf(name, sizeof(name), "%.60s", e->d_name);
	}
	if (d)
		closedir(d);
	if (*name && strncmp(name, "weft", 4) == 0 && getenv("WEFT_ROOT"))
		finding_say(f, FINE, NULL, "not looked for: this is itself a program of weft run");
	else if (*name)
		finding_say(f, WARNING, "start programs without weft run to use the real device",
		    "this machine has the RDMA device %s; programs of weft run see weft's devices instead", name);
	else
		finding_say(f, FINE, NULL, "this machine has none, so nothing is hidden");
}

/* The library's own name, such as libibverbs.so.1.14.44.0: the number before the last is rdma-core's version. */
static int library_version(const char *path)
{
	const char *dot = strstr(path, ".so.1.");
	int major, version;

	return dot && sscanf(dot, ".so.1.%d.%d", &major, &version) == 2 ? version : 0;
}

static void check_distribution(struct patient *p, struct finding *f)
{
	void *handle = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
	char path[4096] = "";
	struct link_map *map;
	int version;

	(void)p;
	if (!handle) {
		finding_say(f, FINE, NULL, "the distribution's libibverbs is not installed; programs get weft's");
		return;
	}
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) || !realpath(map->l_name, path))
		path[0] = '\0';
	version = library_version(path);
	dlclose(handle);
	/* the private interface to provider libraries is named for its version in each release */
	if (getenv("WEFT_ROOT") && strstr(path, "/lib/weft/"))
		finding_say(f, FINE, NULL, "not looked for: this is itself a program of weft run");
	else if (version == 44)
		finding_say(f, FINE, NULL, "%s is rdma-core 44, whose interface weft has", path);
	else
		finding_say(f, WARNING,
		    "if a program fails with a missing IBVERBS_PRIVATE version, use the programs of Debian 12",
		    "%s is of another release than rdma-core 44; programs linked with libmlx5 or libefa may not start", path);
}

static void check_program(struct patient *p, struct finding *f)
{
	char path[4096];
	enum program_fault fault;

	if (!p->program) {
		finding_say(f, FINE, NULL, "none named (weft doctor PROGRAM looks at one)");
		return;
	}
	fault = program_examine(p->program, path, sizeof(path));
	if (fault)
		finding_say(f, FAILED, program_next(fault), "%s: %s", p->program, program_cause(fault));
	else
		finding_say(f, FINE, NULL, "%.400s can be run with weft", path);
}

static const struct {
	const char *name;
	void (*check)(struct patient *p, struct finding *f);
} checks[] = {
	{ "files", check_files },
	{ "runtime directory", check_directory },
	{ "weftd", check_daemon },
	{ "LD_PRELOAD", check_preload },
	{ "memory files", check_memfd },
	{ "/dev/shm", check_shm },
	{ "descriptors", check_descriptors },
	{ "locked memory", check_memlock },
	{ "mapped memory", check_mapped },
	{ "remapped memory", check_remap },
	{ "memory file", check_memory_file },
	{ "process_vm", check_process_vm },
	{ "RDMA hardware", check_hardware },
	{ "libibverbs", check_distribution },
	{ "program", check_program },
};

static void print(const char *name, const struct finding *f)
{
	static const char *const verdicts[] = { [FINE] = "ok", [WARNING] = "warning", [FAILED] = "FAILED" };

	printf("%-18s %-8s %s\n", name, verdicts[f->verdict], f->text);
	if (f->next)
		printf("%-18s          next: %s\n", "", f->next);
}

static json_t *describe(const char *name, const struct finding *f)
{
	static const char *const verdicts[] = { [FINE] = "ok", [WARNING] = "warning", [FAILED] = "failed" };

	return json_pack("{s:s, s:s, s:s, s:s?}", "check", name, "verdict", verdicts[f->verdict],
			 "finding", f->text, "next", f->next);
}

int cli_doctor(const struct cli_options *o, int argc, char **argv)
{
	struct patient p = { .program = argc > 0 ? argv[0] : NULL };
	json_t *all = json_array();
	bool has_failed = false;

	if (places_find(&p.places) || rundir_choose(&p.dir, o->system)) {
		json_decref(all);
		return cli_fail("mount /proc; set WEFT_DIR to an absolute path of at most 95 bytes",
				"weft cannot find its own places");
	}
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		struct finding f = { 0 };

		checks[i].check(&p, &f);
		has_failed |= f.verdict == FAILED;
		if (o->json)
			json_array_append_new(all, describe(checks[i].name, &f));
		else
			print(checks[i].name, &f);
	}
	if (o->json)
		output_json(json_pack("{s:b, s:O}", "healthy", !has_failed, "checks", all));
	json_decref(all);
	return has_failed ? EXIT_FAILED : EXIT_OK;
}

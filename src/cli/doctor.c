/* weft doctor: one table of checks; each looks at one thing and says what it found and what to do. */
#include "cli/cli.h"
#include "cli/daemon.h"
#include "cli/doctor.h"
#include "cli/environment.h"
#include "cli/output.h"
#include "cli/program.h"
#include "control/devices.h"
#include "control/networks.h"
#include "link/memfile.h"
#include "link/udp_group.h"
#include "wire/header.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

struct patient {
	struct places places;
	struct rundir dir;
	const char *program;	/* NULL: none named */
	bool is_served;
	char holder[200];	/* of the port: what to do */
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
		finding_say(f, FAILED, rundir_advice(err), "%s: %s", p->dir.path, why);
	else
		finding_say(f, FINE, NULL, "%s%s", p->dir.path, err ? " will be made when needed" : "");
}

static void note_other(void *arg, const char *dir, uid_t owner)
{
	(void)dir;
	*(bool *)arg |= owner == geteuid();
}

/* Programs of two networks do not meet. */
static void check_networks(struct patient *p, struct finding *f)
{
	bool has_own = false;
	char others[400];

	networks_visit(p->dir.path, note_other, &has_own);
	if (!networks_describe(p->dir.path, others, sizeof(others)))
		finding_say(f, FINE, NULL, "no other weftd can be seen on this machine");
	else if (has_own)
		finding_say(f, WARNING, "weft down there, or the same WEFT_DIR for all programs that are to meet",
		    "this user has another weftd, whose programs do not meet those of %.90s: %s", p->dir.path, others);
	else
		finding_say(f, FINE, NULL, "there are others, whose programs do not meet those of this one: %s", others);
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

/* Opened for a moment: it is nobody's as long as no program has another host to reach, or a UD QP of weft1. */
static void check_wire(struct patient *p, struct finding *f)
{
	json_t *status = p->is_served ? daemon_status(daemon_connect(&p->dir, CONTROL_COMMAND)) : NULL;
	const json_t *wire = json_object_get(status, "wire");
	struct udp_group *group;
	int err;

	if (wire && output_number(wire, "port") == 0) {
		finding_say(f, WARNING, "weft run without --system",
		    "its weftd serves several users, and so has no way to other hosts");
	} else if (json_is_true(json_object_get(wire, "open"))) {
		finding_say(f, FINE, NULL, "UDP port %d is open to other hosts, for %lld processes", ROCE_PORT,
		    output_number(wire, "sockets"));
	} else if ((err = udp_group_open(ROCE_PORT, 1, &group)) == 0) {
		udp_group_close(group);
		finding_say(f, FINE, NULL, "UDP port %d is free; it is opened when a program has another host to reach, or "
		    "makes a UD QP of weft1", ROCE_PORT);
	} else if (err == -EADDRINUSE) {
		udp_port_holder(ROCE_PORT, p->holder, sizeof(p->holder));
		finding_say(f, WARNING, p->holder, "UDP port %d is another's, so programs reach no other hosts", ROCE_PORT);
	} else {
		finding_say(f, WARNING, "allow UDP sockets, as in a container's seccomp profile",
		    "UDP port %d cannot be opened: %s", ROCE_PORT, strerror(-err));
	}
	json_decref(status);
}

/* The one check of the whole: a dynamic program that reads a device file. */
static void check_preload(struct patient *p, struct finding *f)
{
	char guid[64] = "", path[64];
	struct control_table t;
	int out[2], status = 0;
	ssize_t n = 0;
	pid_t pid;

	if (!p->is_served || pipe2(out, O_CLOEXEC)) {
		finding_say(f, FAILED, "see weftd above", "cannot be tried without weftd");
		return;
	}
	control_table_names(p->dir.path, &t);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/node_guid", t.device[0].name);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		close(STDERR_FILENO);
		environment_set(&(struct cli_options){ 0 }, &p->places, &p->dir, 0);
		execlp("cat", "cat", path, NULL);
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
	int fd = memfile_create_fixed("weft-doctor", 4096);

	(void)p;
	if (fd < 0)
		finding_say(f, FAILED, "allow memfd_create in the container's seccomp profile",
		    "memory files cannot be made and sealed: %s", strerror(-fd));
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

/* abi/verbs/private.symbols has what the programs of these releases, and of those between, ask of libibverbs. */
#define OLDEST_RDMA_CORE 33
#define NEWEST_RDMA_CORE 56

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
	else if (version >= OLDEST_RDMA_CORE && version <= NEWEST_RDMA_CORE)
		finding_say(f, FINE, NULL, "%s is of rdma-core %d, whose programs weft serves", path, version);
	else
		finding_say(f, WARNING, "if a program misses an IBVERBS_PRIVATE version, build weft on this machine",
		    "%s is not of rdma-core %d to %d; programs linked with libmlx5 or libefa may not start", path,
		    OLDEST_RDMA_CORE, NEWEST_RDMA_CORE);
}

static void check_program(struct patient *p, struct finding *f)
{
	const char *what, *next;
	char path[4096];
	enum program_fault fault;
	struct elf e;

	if (!p->program) {
		finding_say(f, FINE, NULL, "none named (weft doctor PROGRAM looks at one)");
		return;
	}
	fault = program_examine(p->program, path, sizeof(path), &e);
	if (fault)
		finding_say(f, FAILED, program_next(fault), "%s: %s", p->program, program_cause(fault));
	else if (program_foresee(&e, &what, &next))
		finding_say(f, FINE, next, "%.300s %s", path, what);
	else
		finding_say(f, WARNING, next, "%.300s %s", path, what);
}

static const struct {
	const char *name;
	void (*check)(struct patient *p, struct finding *f);
} checks[] = {
	{ "files", check_files },
	{ "runtime directory", check_directory },
	{ "weftd", check_daemon },
	{ "other networks", check_networks },
	{ "other hosts", check_wire },
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

void finding_show(const struct finding *f, const char *name, json_t *all)
{
	if (all)
		json_array_append_new(all, describe(name, f));
	else
		print(name, f);
}

int cli_doctor(const struct cli_options *o, int argc, char **argv)
{
	struct patient p = { .program = argc > 0 ? argv[0] : NULL };
	json_t *all;
	bool has_failed = false;

	if (o->peer && argc) {
		cli_fail("weft doctor --peer HOST, or weft doctor PROGRAM", "one of a host and a program is wanted");
		return EXIT_USAGE;
	}
	if (o->peer)
		return doctor_peer(o);
	all = json_array();
	if (places_find(&p.places) || rundir_choose(&p.dir, o->system)) {
		json_decref(all);
		return cli_fail("mount /proc; set WEFT_DIR to an absolute path of at most 95 bytes",
				"weft cannot find its own places");
	}
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		struct finding f = { 0 };

		checks[i].check(&p, &f);
		has_failed |= f.verdict == FAILED;
		finding_show(&f, checks[i].name, o->json ? all : NULL);
	}
	if (o->json)
		has_failed |= output_json(json_pack("{s:b, s:O}", "healthy", !has_failed, "checks", all)) != EXIT_OK;
	json_decref(all);
	return has_failed ? EXIT_FAILED : EXIT_OK;
}

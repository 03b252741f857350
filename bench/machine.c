/* From /proc and /sys, and from what the programs say of their version. */
#include "bench/machine.h"

#include "bench/wire.h"
#include "commit.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#define BUSY_LOAD 0.5	/* our choice: less is what a machine does by itself */
#define BUSY_STEAL 0.01

static void add(struct machine *m, const char *name, const char *text)
{
	if (m->facts == MACHINE_FACTS || !*text)
		return;
	m->fact[m->facts].name = name;
	snprintf(m->fact[m->facts++].text, MACHINE_TEXT, "%s", text);
}

/* The file's first line. */
static bool read_line(const char *path, char *text, size_t room)
{
	FILE *file = fopen(path, "re");
	bool is_read = file && fgets(text, (int)room, file);

	if (file)
		fclose(file);
	if (is_read)
		text[strcspn(text, "\n")] = '\0';
	return is_read;
}

static void add_processor(struct machine *m, const struct trial *t)
{
	char line[512], model[256] = "unknown", text[MACHINE_TEXT], governor[64] = "";
	FILE *info = fopen("/proc/cpuinfo", "re");
	bool is_virtual = false;

	while (info && fgets(line, sizeof(line), info)) {
		if (sscanf(line, "model name : %255[^\n]", model) == 1)
			continue;
		is_virtual |= strncmp(line, "flags", 5) == 0 && strstr(line, " hypervisor");
	}
	if (info)
		fclose(info);
	snprintf(text, sizeof(text), "%s, %ld CPUs%s", model, sysconf(_SC_NPROCESSORS_ONLN),
		 is_virtual ? ", virtual machine" : "");
	add(m, "processor", text);
	snprintf(text, sizeof(text), "%d and %d", t->cpu[0], t->cpu[1]);
	add(m, "pinned to CPUs", text);
	snprintf(line, sizeof(line), "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", t->cpu[0]);
	if (read_line(line, governor, sizeof(governor)))
		add(m, "frequency governor", governor);
}

static void add_kernel(struct machine *m)
{
	struct utsname u;
	char text[MACHINE_TEXT];

	if (uname(&u))
		return;
	snprintf(text, sizeof(text), "%s %s %s", u.sysname, u.release, u.machine);
	add(m, "kernel", text);
	snprintf(text, sizeof(text), "%.1f GiB", (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / (1 << 30));
	add(m, "memory", text);
}

/* What the kernel does against faults of the processor, as far as that costs something. */
static void add_mitigations(struct machine *m)
{
	const char *folder = "/sys/devices/system/cpu/vulnerabilities";
	char path[512], says[256], text[MACHINE_TEXT] = "";
	DIR *dir = opendir(folder);
	struct dirent *e;
	size_t used = 0;

	while (dir && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		if (e->d_name[0] == '.' || !read_line(path, says, sizeof(says)) || strncmp(says, "Mitigation: ", 12))
			continue;
		says[strcspn(says, ";")] = '\0';
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s (%s)", used ? ", " : "", e->d_name, says + 12);
		if (used >= sizeof(text))
			break;
	}
	if (dir)
		closedir(dir);
	add(m, "mitigations", *text ? text : "none");
}

/* What it prints, from its first digit to the end of the line. */
static void add_version(struct machine *m, const struct trial *t, const char *name, const char *program, const char *command)
{
	static char output[TRIAL_OUTPUT];
	char *first;

	if (!trial_has_program(t, program) || !trial_capture(t, command, output, sizeof(output)))
		return;
	first = output + strcspn(output, "0123456789");
	first[strcspn(first, "\n")] = '\0';
	add(m, name, first);
}

static void add_load(struct machine *m)
{
	double load[1];
	char text[MACHINE_TEXT];

	if (getloadavg(load, 1) != 1)
		return;
	m->is_busy = load[0] > BUSY_LOAD;
	snprintf(text, sizeof(text), "%.2f at the start%s", load[0],
		 m->is_busy ? ": the machine had other work, so figures are noisy" : "");
	add(m, "load", text);
}

/* proc_stat(5): user nice system idle iowait irq softirq steal, in ticks since the machine began. */
static void read_ticks(unsigned long long *stolen, unsigned long long *ticks)
{
	unsigned long long at[8] = { 0 };
	char line[256] = "";

	*stolen = *ticks = 0;
	if (!read_line("/proc/stat", line, sizeof(line)) ||
	    sscanf(line, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &at[0], &at[1], &at[2], &at[3], &at[4], &at[5], &at[6],
		   &at[7]) != 8)
		return;
	*stolen = at[7];
	for (int i = 0; i < 8; i++)
		*ticks += at[i];
}

void machine_conclude(struct machine *m)
{
	unsigned long long stolen, ticks;
	char text[MACHINE_TEXT];
	double share;

	read_ticks(&stolen, &ticks);
	if (ticks <= m->ticks || stolen < m->stolen)
		return;
	share = (double)(stolen - m->stolen) / (double)(ticks - m->ticks);
	m->is_busy |= share > BUSY_STEAL;
	snprintf(text, sizeof(text), "%.1f %% of the CPUs' time went to other virtual machines", 100 * share);
	add(m, "stolen", text);
}

void machine_describe(struct machine *m, const struct trial *t)
{
	m->facts = 0;
	read_ticks(&m->stolen, &m->ticks);
	add_load(m);
	add_processor(m, t);
	add_kernel(m);
	add_mitigations(m);
	add(m, "compiler", "gcc-compatible " __VERSION__);
	add(m, "weft", WEFT_VERSION " (" WEFT_COMMIT ")");
	if (t->wire)
		add(m, "wire", WIRE_WHAT);
	add_version(m, t, "perftest", "ib_send_lat", "ib_send_lat --version");
	add_version(m, t, "UCX", "ucx_info", "ucx_info -v");
	add_version(m, t, "libfabric", "fi_info", "fi_info --version");
	if (t->wire) {
		add_version(m, t, "iperf3", "iperf3", "iperf3 --version");
		add_version(m, t, "sockperf", "sockperf", "sockperf --version");
		return;
	}
	add_version(m, t, "Open MPI", "mpirun", "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --version");
}

/* Are the two of one core, so that they share its units? */
static bool is_one_core(int a, int b)
{
	char path[128], of_a[128], of_b[128];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", a);
	if (!read_line(path, of_a, sizeof(of_a)))
		return false;
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", b);
	return read_line(path, of_b, sizeof(of_b)) && strcmp(of_a, of_b) == 0;
}

bool machine_choose_cpus(int cpu[2])
{
	int found = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return false;
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET((size_t)i, &set))
			continue;
		if (found == 0 || found == 1 || is_one_core(cpu[0], cpu[1]))
			cpu[found == 0 ? 0 : 1] = i;
		found++;
	}
	return found >= 2;
}

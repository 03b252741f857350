/* weft top: what ports, processes and QPs do in a second, again and again: on a terminal one screen that is written over, else
 * lines one after another. */
#include "cli/top.h"

#include "cli/output.h"
#include "control/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <termios.h>
#include <unistd.h>

enum { MESSAGES_MOST = 4096 };	/* bytes, our choice: of what was said meanwhile */

enum { CELL = 24, LINE = 512, MOST_ROWS = 10000, COUNT_MOST = 1000000 };

#define RATES \
	{ "sent_bytes_per_s", "SENT/s", TOP_BYTES, 9 }, { "received_bytes_per_s", "RECV/s", TOP_BYTES, 9 }, \
	{ "sent_messages_per_s", "MSGS/s", TOP_EVENTS, 8 }, { "received_messages_per_s", "RCVD/s", TOP_EVENTS, 8 }

static const struct top_column port_columns[] = {
	{ "device", "PORT", TOP_TEXT, -8 }, { "qps", "QPS", TOP_NUMBER, 6 }, RATES, { 0 },
};
static const struct top_column process_columns[] = {
	{ "pid", "PID", TOP_NUMBER, 8 }, { "program", "PROGRAM", TOP_TEXT, -15 }, { "qps", "QPS", TOP_NUMBER, 5 }, RATES,
	{ "lost_per_s", "LOST/s", TOP_EVENTS, 7 }, { 0 },
};
static const struct top_column qp_columns[] = {
	{ "pid", "PID", TOP_NUMBER, 7 }, { "device", "DEVICE", TOP_TEXT, -6 }, { "qpn", "QPN", TOP_HEX, 8 },
	{ "dest_qpn", "REMOTE", TOP_HEX, 8 },
	{ "path", "PATH", TOP_TEXT, -8 }, RATES, { 0 },
};

/* How many columns and rows the terminal has; a line more, or wider, would move the screen. */
struct size {
	int columns, rows;
};

static struct termios saved;
static bool is_saved;
static int messages = -1, terminal = -1;	/* while there is a screen: what was said, and where it goes afterwards */
static volatile sig_atomic_t ended, resized, stopped;

/* "1.23G" of at most 6 characters. */
static void put_quantity(double value, char *cell)
{
	static const char units[] = " KMGTP";
	unsigned unit = 0;

	for (; value >= 999.5 && unit < sizeof(units) - 2; unit++)
		value /= 1000;
	if (unit == 0)
		snprintf(cell, CELL, "%.0f", value);
	else
		snprintf(cell, CELL, "%.*f%c", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[unit]);
}

static void put_cell(const json_t *row, const struct top_column *c, char *cell)
{
	const json_t *value = json_object_get(row, c->member);

	if (c->kind == TOP_TEXT && json_is_string(value))
		output_plain(json_string_value(value), cell, CELL);
	else if (c->kind == TOP_NUMBER && json_is_integer(value))
		snprintf(cell, CELL, "%lld", (long long)json_integer_value(value));
	else if (c->kind == TOP_HEX && json_is_integer(value))
		snprintf(cell, CELL, "0x%06llx", (unsigned long long)json_integer_value(value));
	else if (json_is_real(value))
		put_quantity(json_real_value(value), cell);
	else
		snprintf(cell, CELL, "-");
}

/* Columns that do not fit are cut off. The line is cleared first: at its end the cursor may stand on the last column. */
static void print_line(FILE *to, const char *line, const struct size *size, bool is_screen)
{
	fprintf(to, is_screen ? "\033[K%.*s\n" : "%.*s\n", size->columns, line);
}

static void print_row(FILE *to, const json_t *row, const struct top_column *columns, const struct size *size, bool is_screen)
{
	char line[LINE], cell[CELL];
	int at = 0;

	for (const struct top_column *c = columns; c->member; c++) {
		int width = c->width < 0 ? -c->width : c->width;

		if (row)
			put_cell(row, c, cell);
		else
			snprintf(cell, sizeof(cell), "%s", c->title);
		at += snprintf(line + at, sizeof(line) - (size_t)at, c->width < 0 ? "%s%-*.*s" : "%s%*.*s", at ? " " : "", width,
			       width, cell);
	}
	print_line(to, line, size, is_screen);
}

/* A table of at most `most` lines, of which one is its head. How many. */
static int print_rows(FILE *to, const json_t *rows, const struct top_column *columns, int most, const struct size *size,
		      bool is_screen)
{
	int n = 0;
	const json_t *row;
	size_t i;

	if (most < 2 || !json_array_size(rows))
		return 0;
	print_row(to, NULL, columns, size, is_screen);
	json_array_foreach(rows, i, row) {
		if (++n >= most)
			break;
		print_row(to, row, columns, size, is_screen);
	}
	return n >= most ? most : n + 1;
}

static void print_all(FILE *to, const struct top_subject *subject, const json_t *rates, const struct size *size, bool is_screen)
{
	int left = size->rows - 1 - is_screen;	/* the cursor waits in the last line */
	char line[LINE];
	size_t said;

	subject->tell(rates, line, sizeof(line));
	said = strlen(line);
	snprintf(line + said, sizeof(line) - said, "%s", is_screen ? "; q ends" : "");
	print_line(to, line, size, is_screen);
	for (size_t i = 0; i < TOP_TABLES && subject->table[i].member; i++) {
		const json_t *rows = json_object_get(rates, subject->table[i].member);
		const json_t *next = i + 1 < TOP_TABLES ? json_object_get(rates, subject->table[i + 1].member) : NULL;
		/* what comes before the last table leaves it half of what is left */
		int most = i && left > 6 && json_array_size(next) ? left / 2 + 1 : left - 1;

		if (left < 3 || !json_array_size(rows))
			continue;
		print_line(to, "", size, is_screen);
		left -= 1 + print_rows(to, rows, subject->table[i].columns, most, size, is_screen);
	}
}

/* ---- the terminal ---- */

static void on_signal(int number)
{
	if (number == SIGWINCH)
		resized = 1;
	else if (number == SIGTSTP)
		stopped = 1;
	else
		ended = 1;
}

static struct size terminal_size(bool is_screen)
{
	struct winsize w;

	if (!is_screen)
		return (struct size){ LINE - 1, MOST_ROWS };
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_col || !w.ws_row)
		return (struct size){ 80, 24 };
	return (struct size){ w.ws_col < LINE ? w.ws_col : LINE - 1, w.ws_row };
}

/* What is said on the standard error, if that is a terminal, would be lost with the screen. It is kept for later. */
static void keep_messages(void)
{
	if (terminal >= 0 || !isatty(STDERR_FILENO))
		return;
	messages = memfd_create("weft-top", MFD_CLOEXEC);
	terminal = messages < 0 ? -1 : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (terminal >= 0)
		dup2(messages, STDERR_FILENO);
	else if (messages >= 0)
		close(messages);
}

/* The last of them. */
static void tell_messages(void)
{
	char text[MESSAGES_MOST];
	off_t bytes;
	ssize_t n;

	if (terminal < 0)
		return;
	dup2(terminal, STDERR_FILENO);
	close(terminal);
	bytes = lseek(messages, 0, SEEK_END);
	n = pread(messages, text, sizeof(text), bytes > MESSAGES_MOST ? bytes - MESSAGES_MOST : 0);
	fwrite(text, 1, n > 0 ? (size_t)n : 0, stderr);
	close(messages);
	messages = terminal = -1;
}

/* Keys come one by one and are not shown; the screen is another one, without cursor. */
static void screen_begin(void)
{
	struct termios raw;

	keep_messages();
	is_saved = tcgetattr(STDIN_FILENO, &saved) == 0;
	if (is_saved) {
		raw = saved;
		raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	}
	fputs("\033[?1049h\033[?25l", stdout);
}

static void screen_end(void)
{
	fputs("\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	if (is_saved)
		tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	tell_messages();
}

/* ^Z: the shell gets its terminal as it was, and fg brings the screen back. */
static void screen_stop(void)
{
	stopped = 0;
	screen_end();
	raise(SIGSTOP);
	screen_begin();
	resized = 1;
}

static void draw(const struct top_subject *subject, const json_t *rates, bool is_screen)
{
	const struct size size = terminal_size(is_screen);

	if (is_screen)
		fputs("\033[H", stdout);
	print_all(stdout, subject, rates, &size, is_screen);
	fputs(is_screen ? "\033[J" : "\n", stdout);
	fflush(stdout);
}

struct plan {
	const struct top_subject *subject;
	wtime interval;
	unsigned long count;	/* 0: without end */
	bool is_screen;
	sigset_t mask;		/* while it waits */
};

/* Until the time has passed; a screen of another size is drawn again. False: the user ends it. */
static bool wait_until(const struct plan *plan, wtime until, const json_t *rates)
{
	struct pollfd p = { .fd = plan->is_screen ? STDIN_FILENO : -1, .events = POLLIN };

	while (!ended) {
		wtime at = clock_now();
		struct timespec rest;
		char key;

		if (at >= until)
			return true;
		rest = (struct timespec){ (time_t)((until - at) / WTIME_S), (long)((until - at) % WTIME_S) };
		if (ppoll(&p, 1, &rest, &plan->mask) > 0) {
			ssize_t n = read(STDIN_FILENO, &key, 1);

			if (n <= 0)
				p.fd = -1;	/* nobody is at the keys */
			else if (key == 'q' || key == 'Q')
				return false;
		}
		if (stopped)
			screen_stop();
		if (resized && rates)
			draw(plan->subject, rates, plan->is_screen);
		resized = 0;
	}
	return false;
}

/* ---- */

static int show(const struct cli_options *o, const struct plan *plan, json_t *rates)
{
	if (!rates)
		return cli_fail("end programs that take much memory", "there is no memory for the answer");
	if (o->json)
		return output_json(json_incref(rates));
	draw(plan->subject, rates, plan->is_screen);
	return EXIT_OK;
}

static int loop(const struct cli_options *o, const struct plan *plan)
{
	struct rates_look before = { 0 }, after = { 0 };
	int status = plan->subject->look(o, &before);
	json_t *rates = NULL;

	for (unsigned long n = 0; status == EXIT_OK && (!plan->count || n < plan->count); n++) {
		if (!wait_until(plan, before.time + plan->interval, rates))
			break;
		status = plan->subject->look(o, &after);
		if (status != EXIT_OK)
			break;
		json_decref(rates);
		rates = plan->subject->between(&before, &after);
		rates_free(&before);
		before = after;
		after.processes = NULL;
		status = show(o, plan, rates);
		fflush(stdout);
	}
	rates_free(&before);
	json_decref(rates);
	return status;
}

static bool read_number(const char *text, double least, double most, double *number)
{
	char *end;

	*number = strtod(text, &end);
	return end != text && !*end && *number >= least && *number <= most;
}

static int read_plan(const struct cli_options *o, struct plan *plan)
{
	double interval = 1, count = 0;
	char next[80];

	snprintf(next, sizeof(next), "%s --interval 2 --count 3", plan->subject->command);

	if (o->interval && !read_number(o->interval, 0.1, 3600, &interval)) {
		cli_fail(next, "--interval %s is not a number of seconds from 0.1 to 3600", o->interval);
		return EXIT_USAGE;
	}
	if (o->count && (!read_number(o->count, 1, COUNT_MOST, &count) || count != (double)(unsigned long)count)) {
		cli_fail(next, "--count %s is not a number from 1 to %d", o->count, COUNT_MOST);
		return EXIT_USAGE;
	}
	plan->interval = (wtime)(interval * (double)WTIME_S);
	plan->count = (unsigned long)count;
	plan->is_screen = !o->json && !o->batch && isatty(STDOUT_FILENO);
	return EXIT_OK;
}

int top_run(const struct cli_options *o, const struct top_subject *subject)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP };
	struct sigaction action = { .sa_handler = on_signal };
	struct plan plan = { .subject = subject };
	sigset_t blocked;
	int status = read_plan(o, &plan), handled = (int)(sizeof(signals) / sizeof(signals[0]));

	if (status != EXIT_OK)
		return status;
	sigemptyset(&blocked);
	/* without a screen ^Z needs nothing of us */
	for (int i = 0; i < handled - !plan.is_screen; i++) {
		sigaddset(&blocked, signals[i]);
		sigaction(signals[i], &action, NULL);
	}
	/* they come while it waits, and nowhere else */
	sigprocmask(SIG_BLOCK, &blocked, &plan.mask);
	if (plan.is_screen)
		screen_begin();
	status = loop(o, &plan);
	if (plan.is_screen)
		screen_end();
	return status;
}

/* ---- weft top ---- */

static void tell(const json_t *rates, char *line, size_t room)
{
	snprintf(line, room, "weft top: %zu processes, %zu queue pairs, in %.1f s",
		 json_array_size(json_object_get(rates, "processes")), json_array_size(json_object_get(rates, "qps")),
		 json_real_value(json_object_get(rates, "interval_s")));
}

int cli_top(const struct cli_options *o, int argc, char **argv)
{
	static const struct top_subject programs = {
		"weft top", rates_look, rates_between, tell,
		{ { "ports", port_columns }, { "processes", process_columns }, { "qps", qp_columns } },
	};

	(void)argc, (void)argv;
	return top_run(o, &programs);
}

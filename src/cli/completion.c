/* weft completion: what a shell needs to complete weft's commands and options, made from the tables of the help. */
#include "cli/cli.h"
#include "cli/table.h"

#include <string.h>

static void print_names(void)
{
	const struct cli_command *c;

	for (size_t i = 0; (c = table_command(i)); i++)
		printf("%s%s", i ? " " : "", c->name);
}

/* "--device -d ..." */
static void print_words(const struct cli_command *c)
{
	struct table_option o;
	const char *before = "";

	for (size_t i = 0; table_option(c, i, &o); i++) {
		printf("%s--%s", before, o.name);
		if (o.letter)
			printf(" -%c", o.letter);
		before = " ";
	}
}

/* After the options come files, and PROGRAM is a command of the system. */
static void print_bash(void)
{
	const struct cli_command *c;

	printf("# bash completion for weft: source <(weft completion bash)\n_weft() {\n"
	       "\tlocal word=${COMP_WORDS[COMP_CWORD]}\n\tlocal words=\"");
	print_names();
	puts("\"\n\tif [ \"$COMP_CWORD\" -gt 1 ]; then\n\t\tcase ${COMP_WORDS[1]} in");
	for (size_t i = 0; (c = table_command(i)); i++) {
		printf("\t\t%s) words=\"", c->name);
		print_words(c);
		puts("\" ;;");
	}
	puts("\t\t*) words= ;;\n\t\tesac\n\t\tcase $word in\n\t\t-*) ;;\n\t\t*) COMPREPLY=(); return ;;\n\t\tesac\n\tfi\n"
	     "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n}\ncomplete -o default -F _weft weft");
}

static void print_zsh(void)
{
	const struct cli_command *c;

	printf("#compdef weft\n# zsh completion for weft: a file _weft in a folder of $fpath\n_weft() {\n"
	       "\tif (( CURRENT == 2 )); then\n\t\tcompadd -- ");
	print_names();
	puts("\n\t\treturn\n\tfi\n\tif [[ $PREFIX != -* ]]; then\n\t\t_files\n\t\treturn\n\tfi\n\tcase $words[2] in");
	for (size_t i = 0; (c = table_command(i)); i++) {
		printf("\t%s) compadd -- ", c->name);
		print_words(c);
		puts(" ;;");
	}
	puts("\tesac\n}\nif [[ $funcstack[1] == _weft ]]; then\n\t_weft \"$@\"\nelse\n\tcompdef _weft weft\nfi");
}

/* In single quotes fish knows \' and \\. */
static void print_fish_text(const char *text)
{
	putchar('\'');
	for (; *text; text++)
		printf(*text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
	putchar('\'');
}

static void print_fish(void)
{
	const struct cli_command *c;
	struct table_option o;

	puts("# fish completion for weft: weft completion fish >~/.config/fish/completions/weft.fish");
	for (size_t i = 0; (c = table_command(i)); i++) {
		printf("complete -c weft -f -n __fish_use_subcommand -a %s -d ", c->name);
		print_fish_text(c->summary);
		putchar('\n');
		for (size_t k = 0; table_option(c, k, &o); k++) {
			printf("complete -c weft -n '__fish_seen_subcommand_from %s' -l %s", c->name, o.name);
			if (o.letter)
				printf(" -s %c", o.letter);
			printf("%s -d ", o.argument && *o.argument != '[' ? " -r" : "");
			print_fish_text(o.help);
			putchar('\n');
		}
	}
}

int cli_completion(const struct cli_options *o, int argc, char **argv)
{
	static const struct { const char *name; void (*print)(void); } shells[] = {
		{ "bash", print_bash }, { "zsh", print_zsh }, { "fish", print_fish },
	};

	(void)o;
	for (size_t i = 0; argc == 1 && i < sizeof(shells) / sizeof(shells[0]); i++) {
		if (strcmp(argv[0], shells[i].name) == 0)
			return shells[i].print(), EXIT_OK;
	}
	cli_fail("weft completion bash, zsh or fish", argc == 1 ? "'%s' is not a shell that is known" : "one shell is wanted",
		 argc == 1 ? argv[0] : "");
	return EXIT_USAGE;
}

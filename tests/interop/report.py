"""What the guest's programs load by themselves, and the table of docs/interop.md."""

import glob
import subprocess

import rows

ARCH = '/usr/lib/x86_64-linux-gnu/'


def loaded_libraries():
	"""Paths of this host."""
	patterns = (ARCH + 'libibverbs/librxe-rdmav*.so', ARCH + 'ucx/libuct_ib.so.0', ARCH + 'ucx/libuct_rdmacm.so.0',
		    '/lib/x86_64-linux-gnu/libgcc_s.so.1', '/usr/libexec/coreutils/libstdbuf.so')
	return [path for pattern in patterns for path in glob.glob(pattern)]


def cell(results, program, server, net):
	"""How many of the rows are good, and what became of the others."""
	fates = [r['fate'] for name, r in results.items()
		 if (parts := name.split('-'))[0] == program and parts[1] == server and parts[4] == net]
	others = [f'{fates.count(fate)} {fate}' for fate in ('FAILED', 'stalled', 'skipped') if fate in fates]
	return ', '.join([f'{fates.count("good")} of {len(fates)}', *others]) if fates else ''


def markdown(results, kernel, accelerator):
	"""The table: a line for each program, a column for each side of the server and each network that was run."""
	commit = subprocess.run(['git', 'describe', '--always', '--dirty'], capture_output=True, text=True).stdout.strip()
	names = {name.split('-')[0] for name in results}
	columns = [(server, net) for net in rows.NETS for server in ('weft', 'rxe')
		   if any(cell(results, name, server, net) for name in names)]
	lines = [f'Commit {commit}, Linux {kernel} by QEMU ({accelerator}).', '',
		 '| program | ' + ' | '.join(f'server {server}, {net}' for server, net in columns) + ' |',
		 '|---' * (len(columns) + 1) + '|']
	for pair in rows.TABLE:
		if pair.name in names:
			cells = (cell(results, pair.name, *column) for column in columns)
			lines.append(f'| `{pair.name}` | ' + ' | '.join(cells) + ' |')
	return '\n'.join(lines)

#!/usr/bin/env python3
"""Checks docs/spec-map.md: every requirement id stands there once, and every file, function and test named there exists. The
same of the names in docs/hostile.md, and of the deliberate bugs there.
usage: spec_map.py SOURCE_DIR
"""

import os
import re
import subprocess
import sys

# How many requirements each family has, numbered from 1.
FAMILIES = {'SAN': 46, 'MSN': 47, 'RMP': 63, 'IPS': 126, 'MPT': 40, 'GSA': 42, 'X': 7, 'S': 60}
STATES = ('kept', 'in part', 'not yet')
UNITS = ('unit', 'wire', 'engine', 'abi', 'e2e')	# label/NOUN_test is tests/label/NOUN_test.c

root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
faults = []
page = 'docs/spec-map.md'	# that is being checked


def fault(line, text):
	faults.append(f'{page}:{line}: {text}')


def read(path):
	with open(os.path.join(root, path), encoding='utf-8') as f:
		return f.read()


def exists(path):
	return os.path.isfile(os.path.join(root, path))


def has_word(path, word):
	return re.search(rf'\b{re.escape(word)}\b', read(path)) is not None


def quoted(cell):
	return re.findall(r'`([^`]+)`', cell)


def rows(text):
	"""(line number, cells) of every table row, headings and rules left out."""
	for number, line in enumerate(text.splitlines(), 1):
		if not line.startswith('|'):
			continue
		cells = [c.strip() for c in line.strip('|').split('|')]
		if cells[0] not in ('id', 'clause', 'what') and set(cells[0]) != {'-'}:
			yield number, cells


def check_ids(line, cell, seen):
	match = re.fullmatch(r'([A-Z]+)-(\d+)(?:\.\.(\d+))?', cell)
	if not match or match[1] not in FAMILIES:
		fault(line, f'no requirement id: {cell}')
		return
	first, last = int(match[2]), int(match[3] or match[2])
	if first > last:
		fault(line, f'range runs backwards: {cell}')
	for n in range(first, last + 1):
		if n in seen[match[1]]:
			fault(line, f'{match[1]}-{n:02d} is also on line {seen[match[1]][n]}')
		seen[match[1]][n] = line


def check_complete(seen):
	for family, count in FAMILIES.items():
		missing = [n for n in range(1, count + 1) if n not in seen[family]]
		foreign = [n for n in seen[family] if not 1 <= n <= count]
		if missing or foreign:
			faults.append(f'docs/spec-map.md: {family}: missing {missing}, beyond the last {foreign}')


def check_code(line, cell):
	for name in quoted(cell):
		path, _, words = name.partition(':')
		if not exists(path):
			fault(line, f'no such file: {path}')
			continue
		for word in words.split():
			if not has_word(path, word):
				fault(line, f'{path} has no {word}')


def is_case(path, case):
	"""A cmocka test that is registered in main, or a row of a scenario table."""
	text = read(path)
	if re.search(rf'\bSCENARIO\({case}\b', text):
		return True
	registered = re.search(rf'\b[A-Za-z_]+\({case}\b', text.split('int main(')[-1])
	return registered is not None and f'static void {case}(void **state)' in text


def programs():
	"""Names of the tests of unmodified programs, without device and user."""
	run = [sys.executable, '-B', os.path.join(root, 'tests/abi/run.py'), '--list']
	names = subprocess.run(run, capture_output=True, text=True, check=True).stdout
	return {line.split()[0].split('@')[0] for line in names.splitlines()}


def check_test(line, name, programs):
	test, _, case = name.partition(':')
	label, _, rest = test.partition('/')
	path = f'tests/{label}/{rest}.c'
	if label in UNITS and exists(path):
		if case and not is_case(path, case):
			fault(line, f'{path} has no case {case}')
	elif case:
		fault(line, f'no such file: {path}')
	elif label == 'fuzz' and exists(f'fuzz/{rest}.c'):
		pass
	elif label == 'abi' and (rest in programs or rest == 'pyverbs'):
		pass
	elif label == 'e2e' and re.search(rf'\b{rest}\b', read('tests/e2e/CMakeLists.txt')):
		pass
	elif not has_word('tests/CMakeLists.txt', test):
		fault(line, f'no such test: {name}')


def check_requirement(line, cells, seen, known_programs):
	identity, what, state, code, tests, remark = cells
	check_ids(line, identity, seen)
	check_code(line, code)
	names = quoted(tests)
	for name in names:
		check_test(line, name, known_programs)
	for name in (n for n in quoted(remark) if '/' in n):
		check_test(line, name, known_programs)
	if state not in STATES:
		fault(line, f'no state: {state}')
	if state == 'kept' and not (quoted(code) and names):
		fault(line, f'{identity}: kept, but without code or test')
	if state == 'in part' and not (quoted(code) and remark):
		fault(line, f'{identity}: in part, but without code or what is missing')
	if state == 'not yet' and (quoted(code) or names):
		fault(line, f'{identity}: not yet, but with code or test')
	if not what:
		fault(line, f'{identity}: says not what')


def check_mutants(line, cell, tests):
	"""Each is there, and one of the row's tests kills it."""
	for name in cell.split(', '):
		path = f'tests/mutants/{name}.patch'
		if not exists(path):
			fault(line, f'no such file: {path}')
			continue
		killers = read(path).splitlines()[1].removeprefix('# tests: ')
		if not any(re.search(killers, name.partition(':')[0]) for name in tests):
			fault(line, f'{path} names none of the tests of its row: {killers}')


def check_hostile(line, cells):
	if len(cells) not in (4, 5):
		fault(line, f'{len(cells)} cells in a row')
		return
	what, writer, code, tests, *mutants = cells
	for cell in mutants:
		check_mutants(line, cell, quoted(tests))
	if not (what and writer and quoted(code) and quoted(tests)):
		fault(line, f'{what}: without writer, code or test')
	check_code(line, code)
	for name in quoted(tests):
		check_test(line, name, set())


def main():
	global page
	seen = {family: {} for family in FAMILIES}
	known_programs = programs()
	clauses = 0
	for line, cells in rows(read('docs/spec-map.md')):
		if len(cells) == 6:
			check_requirement(line, cells, seen, known_programs)
		elif len(cells) == 3:
			clauses += 1
			check_code(line, cells[2])
			if not quoted(cells[2]):
				fault(line, f'clause {cells[0]} is nowhere')
		else:
			fault(line, f'{len(cells)} cells in a row')
	check_complete(seen)
	page = 'docs/hostile.md'
	for line, cells in rows(read(page)):
		check_hostile(line, cells)
	print('\n'.join(faults) or f'{sum(len(s) for s in seen.values())} requirements and {clauses} clauses: every name exists')
	return 1 if faults else 0


if __name__ == '__main__':
	sys.exit(main())

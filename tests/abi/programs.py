"""The table of unmodified programs: what is started, what it must print, and how it ends.

In arguments, {port} is a free port, {dev} the device, {tmp} the test's folder; the element '@gid' becomes '-g 0' on Ethernet,
where the pingpongs need a GID, and nothing on InfiniBand.
"""

import glob
import os
import re
import subprocess
from dataclasses import dataclass, field

from qemu_migrate import MACHINE

ADDR = '127.0.0.1'
HEAP, HEAP_4K = ('--shared-heap',), ('--shared-heap=4k',)
# The peer's memory files come while the program runs: by weftd, to a thread that needs its turn beside those that poll.
LONG_ENOUGH = ('-D', '1')
REMAP = ('--remap=4k',)
BOTH = ('weft0', 'weft1')
IB = ('weft0',)
ETH = ('weft1',)


@dataclass
class Pair:
	"""A server and a client (or one program alone, when there is no server)."""
	name: str
	client: list
	server: list = None
	expect: str = ''		# in the client's output
	expect_server: str = ''
	ready: str = 'tcp'		# when the server takes clients: 'tcp', 'cm', or a pattern of its output
	server_ends: str = 'itself'	# or 'stopped': it would serve for ever on any device
	client_ends: str = 'itself'	# or 'stopped', once it has printed what is expected
	devices: tuple = BOTH
	long: bool = False
	timeout: int = 60
	env: dict = field(default_factory=dict)
	run: tuple = ()			# options of weft run
	env_by_device: bool = False	# the values of env contain {dev}
	files: tuple = ()		# two files of {tmp} that must be equal afterwards
	setup: str = ''			# shell, run in {tmp} before
	needs: tuple = ()		# programs that must be there besides the client
	own_race: str = ''		# what the client prints when it met its server too early: the programs' fault


TABLE = []


def installed(library):
	"""The numbers behind .so in the name of an installed library's file, which tell the release of what it came with; none
	when it is not there."""
	places = ('/usr/lib/*/', '/usr/lib64/', '/usr/lib/')
	found = [os.path.realpath(path) for place in places for path in glob.glob(place + library)]
	return tuple(int(n) for n in re.findall(r'\d+', found[0].rpartition('.so.')[2])) if found else ()


RDMA_CORE = (*installed('librdmacm.so.1'), 0, 0, 0)[2]		# librdmacm.so.1.3.44.0: 44
OPEN_MPI_5 = installed('libmpi.so.40') >= (40, 40)


def add(name, client, server=None, **more):
	TABLE.append(Pair(name, client, server, **more))


# ---- libibverbs' examples ------------------------------------------------------------------------------------------------------

def pingpong(kind, name, *options, **more):
	argv = [f'ibv_{kind}_pingpong', '-d', '{dev}', '-p', '{port}', '@gid', *options]
	expect = r'success' if kind == 'xsrq' else r'\d+ bytes in [\d.]+ seconds'
	add(f'pingpong/{kind}-{name}', argv + [ADDR], argv, expect=expect, **more)


add('examples/devices', ['ibv_devices'], expect=r'{dev}\s+[0-9a-f]{{16}}')
add('examples/devinfo', ['ibv_devinfo', '-v'], expect=r'(?s)hca_id:\s+{dev}.*PORT_ACTIVE')
add('examples/asyncwatch', ['ibv_asyncwatch', '-d', '{dev}'], expect=r'{dev}: async event FD \d+', client_ends='stopped')
add('examples/ibstatus', ['ibstatus'], expect=r"(?s)^Infiniband device 'weft0' .*4: ACTIVE(?!.*weft1)", devices=IB)
add('examples/ibstat', ['ibstat', '{dev}', '1'], expect=r'State: Active')

for name, profile in (('exchanged-msn', 'seed,start-msn=exchange'), ('process-ack', 'seed,ack-level=process'),
		      ('printed', 'printed'), ('by-descriptor', 'standard,complete=wqe')):
	pingpong('rc', name, devices=IB, env={'WEFT_PROFILE': profile})
MULTIPATH = {'WEFT_PROFILE': 'multipath'}
pingpong('rc', 'multipath', '-c', env=MULTIPATH)
pingpong('rc', 'multipath-events', '-e', '-s', '65536', '-n', '100', long=True,
	 env={'WEFT_PROFILE': 'multipath,paths=8,refuse=silent'})
for kind in ('rc', 'uc', 'ud', 'srq', 'xsrq'):
	pingpong(kind, 'plain')
	pingpong(kind, 'events', '-e')
	for size in (1, 63, 2000):
		pingpong(kind, f'size{size}', '-s', str(size), long=True)
	pingpong(kind, 'iters', '-n', '50' if kind == 'xsrq' else '5000', long=True)
for kind in ('rc', 'ud'):
	pingpong(kind, 'checked', '-c')
for kind in ('rc', 'uc', 'srq'):
	for mtu in (256, 512, 2048, 4096):
		pingpong(kind, f'mtu{mtu}', '-m', str(mtu), '-s', '10001', long=mtu != 256)
for kind in ('rc',):
	pingpong(kind, 'odp', '-o', '-c')
	pingpong(kind, 'implicit-odp', '-o', '-O', '-c')
	pingpong(kind, 'prefetch', '-o', '-P', '-c')
	pingpong(kind, 'timestamp', '-t')
	pingpong(kind, 'device-memory', '-j')
	pingpong(kind, 'new-send', '-N', '-c')
	pingpong(kind, 'new-send-events', '-N', '-e', '-s', '65536', '-c')
	pingpong(kind, 'one-megabyte', '-s', '1048576', '-n', '100', '-c')

# ---- perftest ------------------------------------------------------------------------------------------------------------------

RESULT = r'(?m)^ *\d+ +\d+ +(?!0\.00 +0\.00)[\d.]+ +[\d.]+'


def perftest(program, name, *options, **more):
	cm = '-R' in options
	argv = [program, '-d', '{dev}', '-p', '{port}', '-F', *options]
	add(f'perftest/{program}-{name}', argv + [ADDR], argv, ready='cm' if cm else 'tcp', expect=RESULT, **more)


BW = ('ib_write_bw', 'ib_send_bw', 'ib_read_bw', 'ib_atomic_bw')
LAT = ('ib_write_lat', 'ib_send_lat', 'ib_read_lat', 'ib_atomic_lat')

for program in BW + LAT:
	verb = program.split('_')[1]
	perftest(program, 'plain')
	perftest(program, 'cm', '-R')
	perftest(program, 'xrc', '-c', 'XRC')
	perftest(program, 'two-seconds', '-D', '2', long=program not in ('ib_write_bw', 'ib_read_lat'))
	perftest(program, 'multipath', env=MULTIPATH,
		 long=program not in ('ib_write_bw', 'ib_read_bw', 'ib_send_lat', 'ib_atomic_lat'))
	perftest(program, 'multipath-cm', '-R', env=MULTIPATH, long=True)
	if verb in ('write', 'send'):
		perftest(program, 'uc', '-c', 'UC')
		perftest(program, 'inline', '-I', '64', '-s', '64')
	if verb == 'send':
		perftest(program, 'ud', '-c', 'UD')
		perftest(program, 'ud-cm', '-c', 'UD', '-R')
		if program in BW:	# its server waits for each of them, and begins late
			for size, count in ((2, 1000000), (64, 1000000), (4096, 200000)):
				perftest(program, f'ud-many-{size}', '-c', 'UD', '-s', str(size), '-n', str(count), timeout=120)
		perftest(program, 'srq', '--use-srq')
		# whose receives go beyond their region since perftest 23
		perftest(program, 'srq-odd-size', '--use-srq', '-s', '20001', long=program != 'ib_send_bw')
		perftest(program, 'srq-events', '--use-srq', '-e', long=True)
		perftest(program, 'multicast', '-c', 'UD', '-g', '-x', '0', devices=ETH)
		perftest(program, 'multicast-gid', '-c', 'UD', '-g', '-x', '0', '-M', '255:1:0:0:0:2:201:133:0:0:0:0:0:0:0:0',
			 devices=ETH)
	if verb != 'send':
		perftest(program, 'shared-heap', *LONG_ENOUGH, run=HEAP)
		perftest(program, 'shared-heap-cm', '-R', *LONG_ENOUGH, run=HEAP, long=True)
	if verb in ('write', 'read'):
		perftest(program, 'shared-heap-large', '-s', '1048576', *LONG_ENOUGH, run=HEAP, long=program != 'ib_write_bw')
	if program in ('ib_write_lat', 'ib_read_bw', 'ib_atomic_bw'):
		perftest(program, 'remap', *LONG_ENOUGH, run=REMAP, long=program != 'ib_write_lat')
	if verb != 'atomic':
		perftest(program, 'all-sizes', '-a', '-n', '20', timeout=120, long=program != 'ib_write_bw')
		perftest(program, 'odp', '--odp')
		for mtu in (256, 4096):
			perftest(program, f'mtu{mtu}', '-m', str(mtu), '-s', '9999', long=True)
	else:
		perftest(program, 'compare', '-A', 'CMP_AND_SWAP')
	if verb != 'write':
		perftest(program, 'events', '-e')
	if program in BW:
		perftest(program, 'eight-qps', '-q', '8')
		perftest(program, 'eight-qps-cm', '-q', '8', '-R', long=True)
		perftest(program, 'both-ways', '-b')
		perftest(program, 'list', '-l', '8', '-q', '2', long=True)

# Ethernet frames: who has no receive or no room in its channel loses them, so no test has more under way than both hold.
def raw_ethernet(program, name, *options, **more):
	mine, theirs = '02:00:00:00:00:01', '02:00:00:00:00:02'
	argv = [f'raw_ethernet_{program}', '-d', '{dev}', '-F', '-r', '2048', *options]
	add(f'perftest/raw_ethernet_{program}-{name}', [*argv, '--client', '-B', theirs, '-E', mine],
	    [*argv, '--server', '-B', mine, '-E', theirs], ready=r'#bytes', expect=RESULT, devices=ETH, **more)


raw_ethernet('lat', 'plain')
raw_ethernet('lat', 'udp4', '-j', '10.1.1.1', '-J', '10.1.1.2', '-k', '7', '-K', '9')
raw_ethernet('lat', 'tcp6', '--raw_ipv6', '--tcp', '-j', 'fd01::1', '-J', 'fd01::2', '-k', '7', '-K', '9', long=True)
raw_ethernet('lat', 'promiscuous', '--promiscuous', long=True)
raw_ethernet('lat', 'mtu4096', '-m', '4096', '-s', '4000', long=True)
raw_ethernet('bw', 'plain', '-s', '1500', '-n', '500')
raw_ethernet('bw', 'inline', '-s', '64', '-I', '64', long=True)

# ---- librdmacm's examples ------------------------------------------------------------------------------------------------------

def cm(name, client, server, **more):
	add(f'rdmacm/{name}', client, server, **({'ready': 'cm'} | more))


def cm_alike(name, program, *options, **more):
	"""One program is both ends, and takes the same options as each."""
	cm(name, [program, '-s', ADDR, '-p', '{port}', *options], [program, '-p', '{port}', *options], **more)


def rping(name, *options, address=ADDR, **more):
	common = ['-a', address, '-p', '{port}', '-v', '-V', *options]
	cm(f'rping-{name}', ['rping', '-c', *common], ['rping', '-s', *common], expect=r'ping data: rdma-ping-9:', **more)


rping('plain', '-C', '10')
rping('multipath', '-C', '10', env=MULTIPATH)
rping('large', '-C', '100', '-S', '65535', long=True)
rping('own-qp', '-C', '10', '-q')
rping('ipv6', '-C', '10', address='::1')

cm_alike('ucmatose-tcp', 'ucmatose', expect=r'test complete')
cm_alike('ucmatose-ib', 'ucmatose', '-P', 'ib', expect=r'test complete')
cm_alike('ucmatose-many', 'ucmatose', '-c', '100', '-C', '3', expect=r'return status 0')
cm_alike('ucmatose-migrate', 'ucmatose', '-m', expect=r'return status 0')
cm('udaddy', ['udaddy', '-s', ADDR], ['udaddy'], expect=r'return status 0')
cm('udaddy-many', ['udaddy', '-s', ADDR, '-c', '20'], ['udaddy', '-c', '20'], expect=r'return status 0', long=True)
# udpong makes an address handle without GRH, which RoCE must refuse: it runs on InfiniBand alone, on real adapters too. Its
# client asks until the server is there. Its full run is left out: rpoll of librdmacm 44 never returns again once it timed out
# between two of its checks (a count that it forgets to take back), and udpong's timeouts are of 1 ms, so on busy CPUs it hangs,
# whatever the device.
cm('udpong-echo', ['udpong', '-s', ADDR, '-p', '{port}', '-T', 'e', '-C', '1000', '-S', '512'],
   ['udpong', '-p', '{port}', '-b', ADDR, '-T', 'e'], ready=r'', expect=r'512', server_ends='stopped', devices=IB)
cm('mckey', ['mckey', '-m', '239.2.3.4', '-b', ADDR, '-s'], ['mckey', '-m', '239.2.3.4', '-b', ADDR],
   ready=r'receiving data transfers', expect=r'return status 0',
   expect_server=r'receiving data transfers\n(?s:.*)return status 0')
cm('mckey-ipv6', ['mckey', '-m', 'ff0e::4:5:6', '-b', '::1', '-s'], ['mckey', '-m', 'ff0e::4:5:6', '-b', '::1'],
   ready=r'receiving data transfers', expect=r'return status 0', long=True)
# Its server serves on until rdma-core 52, where it was written anew.
cm_alike('cmtime', 'cmtime', '-c', '100', expect=r'(?m)^(full )?connect', server_ends='itself' if RDMA_CORE >= 52 else 'stopped')
cm('rdma-client', ['rdma_client', '-s', ADDR, '-p', '{port}'], ['rdma_server', '-p', '{port}'], expect=r'rdma_client: end 0',
   expect_server=r'rdma_server: end 0')
for kind in ('r', 'x'):
	cm(f'rdma-xclient-{kind}', ['rdma_xclient', '-s', ADDR, '-p', '{port}', '-c', kind],
	   ['rdma_xserver', '-p', '{port}', '-c', kind], expect=r'end 0', expect_server=r'end 0')
cm('rcopy', ['rcopy', '{tmp}/source', ADDR + ':{tmp}/copy', '-p', '{port}'], ['rcopy', '-p', '{port}'],
   ready=r'waiting for connection', expect=r'done', server_ends='stopped',
   setup='head -c 5000001 /dev/urandom >source', files=('source', 'copy'))
for program in ('rstream', 'riostream'):
	def stream(name, *options, **more):
		# A hundred thousand round trips and more. riostream's server says how many maps it has after it listens.
		cm_alike(f'{program}-{name}', program, *options, own_race=r'riomap: Cannot allocate memory',
			 **({'expect': r'64_lat(?s:.*)bw', 'timeout': 150} | more))
	stream('plain')
	stream('checked', '-T', 'v', '-S', '65536', '-C', '100', '-I', '20', expect=r'64k')
	stream('blocking', '-T', 'b', long=True)
	stream('nonblocking', '-T', 'n', long=True)
	stream('async', '-T', 'a', long=True)
cm_alike('rstream-resolve', 'rstream', '-T', 'r', expect=r'64_lat', timeout=150)	# as many round trips
cm_alike('rstream-fork', 'rstream', '-T', 'f', '-S', '4096', ready='tcp', expect=r'4k', long=True)  # which is plain TCP
cm('librspreload', ['rstream', '-s', ADDR, '-p', '{port}', '-T', 's', '-T', 'v', '-S', '4096', '-C', '1000'],
   ['rstream', '-p', '{port}', '-T', 's', '-T', 'v', '-S', '4096', '-C', '1000'], expect=r'4k',
   env={'LD_PRELOAD': '/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so'})

# ---- qperf, fio, libfabric -----------------------------------------------------------------------------------------------------

# Debian builds qperf without its XRC tests.
QPERF = ('rc_bi_bw', 'rc_bw', 'rc_lat', 'uc_bi_bw', 'uc_bw', 'uc_lat', 'ud_bi_bw', 'ud_bw', 'ud_lat',
	 'rc_rdma_read_bw', 'rc_rdma_read_lat', 'rc_rdma_write_bw', 'rc_rdma_write_lat', 'rc_rdma_write_poll_lat',
	 'uc_rdma_write_bw', 'uc_rdma_write_lat', 'uc_rdma_write_poll_lat',
	 'rc_compare_swap_mr', 'rc_fetch_add_mr', 'ver_rc_compare_swap', 'ver_rc_fetch_add')
# By LIDs alone qperf does not get through an Ethernet. With the connection manager it has no UC, and for UD its server makes an
# address handle of a request's event, which holds no GRH.
QPERF_CM = tuple(t for t in QPERF if not t.startswith(('uc', 'ud')))


def qperf(name, tests, *options, **more):
	# The server ends when the client's last test, `quit`, tells it to.
	expect = '(?s)' + '.*'.join(f'{t}:' for t in tests)
	add(f'qperf/{name}', ['qperf', '-lp', '{port}', '-t', '1', *options, ADDR, *tests, 'quit'], ['qperf', '-lp', '{port}'],
	    expect=expect, timeout=30 + 6 * len(tests), **more)


qperf('core', ('rc_lat', 'ud_lat', 'uc_bw', 'rc_rdma_write_bw', 'rc_rdma_read_bw', 'ver_rc_compare_swap', 'ver_rc_fetch_add'),
      devices=IB)
qperf('cm', ('rc_lat', 'rc_bw'), '-cm', '1')
qperf('all', QPERF, devices=IB, long=True)
qperf('all-cm', QPERF_CM, '-cm', '1', long=True)


def fio(verb):
	# To fio's engine --rw=read is the server; which way the data goes is the verb's to say. It connects without RNR retries,
	# so that sends need a receive for each from the start.
	common = ['fio', '--ioengine=rdma', '--port={port}', '--bs=64k', '--size=4m' if verb == 'send' else '--size=16m']
	server = common + ['--name=receiver', '--rw=read', '--iodepth=128' if verb == 'send' else '--iodepth=16']
	client = common + ['--name=sender', f'--hostname={ADDR}', f'--verb={verb}', '--rw=write', '--iodepth=8',
			   '--iodepth_batch_complete=1']
	add(f'fio/{verb}', client, server, ready='cm', expect=r'err= 0')


for verb in ('write', 'read', 'send'):
	fio(verb)


def fabric(name, *options, **more):
	add(f'libfabric/{name}', ['fi_pingpong', '-P', '{port}', '-c', *options, ADDR],
	    ['fi_pingpong', '-B', '{port}', '-c', *options], expect=r'(?m)^64 ', timeout=90, **more)


fabric('msg', '-p', 'verbs', '-e', 'msg')
fabric('rxm', '-p', 'verbs;ofi_rxm', '-e', 'rdm')
fabric('rxm-tagged', '-p', 'verbs;ofi_rxm', '-e', 'rdm', '-m', 'tagged', long=True)
fabric('dgram', '-p', 'verbs', '-e', 'dgram')
add('libfabric/info', ['fi_info', '-p', 'verbs'], expect=r'domain: {dev}')

# ---- UCX -----------------------------------------------------------------------------------------------------------------------

def ucx_perftest():
	"""The program without MPI, which a build that has it takes by itself."""
	try:
		usage = subprocess.run(['ucx_perftest', '-h'], capture_output=True, text=True, timeout=30).stdout
	except (OSError, subprocess.TimeoutExpired):
		usage = ''
	return ['ucx_perftest', *(['-P', '0'] if re.search(r'^ *-P ', usage, re.M) else [])]


UCX_PERFTEST = ucx_perftest()


def ucx(name, options, env, count='1000', **more):
	argv = [*UCX_PERFTEST, '-p', '{port}', '-n', count, '-w', '10', '-f', *options]
	add(f'ucx/{name}', argv + [ADDR], argv, expect=rf'(?m)^ *{count} +[\d.]+', env=env, timeout=90, **more)


def ucx_over(transports):
	return {'UCX_TLS': transports, 'UCX_NET_DEVICES': '{dev}:1'}


def uct(transport, test, layout, *options, **more):
	ucx(f'{transport}-{test}-{layout}', ['-t', test, '-D', layout, '-d', '{dev}:1', '-x', transport, *options], {}, **more)


# Left to itself UCX allocates by mmap, past any heap.
for test in ('put_lat', 'put_bw', 'get'):
	layout = 'zcopy' if test == 'put_bw' else 'bcopy'
	ucx(f'rc_verbs-{test}-{layout}-shared-heap', ['-t', test, '-D', layout, '-d', '{dev}:1', '-x', 'rc_verbs', '-s', '4096'],
	    {'UCX_RC_VERBS_ALLOC': 'heap'}, count='5000', run=HEAP_4K)
ucx('rc_verbs-put_bw-zcopy-remap', ['-t', 'put_bw', '-D', 'zcopy', '-d', '{dev}:1', '-x', 'rc_verbs'], {}, count='5000',
    run=REMAP)
for layout in ('short', 'bcopy', 'zcopy'):
	uct('rc_verbs', 'am_lat', layout)
	uct('rc_verbs', 'put_lat', layout)
	uct('rc_verbs', 'am_bw', layout, long=True)
	uct('rc_verbs', 'put_bw', layout, long=True)
	uct('ud_verbs', 'am_lat', layout)
	uct('ud_verbs', 'am_bw', layout, long=True)
for layout in ('bcopy', 'zcopy'):
	uct('rc_verbs', 'get', layout, '-s', '1024')
# No swap: verbs have none.
for test in ('fadd', 'cswap', 'add_mr'):
	uct('rc_verbs', test, 'short', long=test != 'fadd')

UCP = ('tag_lat', 'tag_bw', 'tag_sync_lat', 'ucp_put_lat', 'ucp_put_bw', 'ucp_get', 'ucp_am_lat', 'ucp_am_bw', 'stream_bw',
       'stream_lat', 'ucp_fadd', 'ucp_cswap')
# UCX's short names: rc_v is rc_verbs with ud_verbs to wire it up.
for transport in ('rc_v', 'ud_v'):
	for test in UCP:
		core = test in ('tag_lat', 'ucp_put_bw', 'ucp_get', 'ucp_am_bw')
		ucx(f'ucp-{transport}-{test}', ['-t', test], ucx_over(transport), env_by_device=True, long=not core)
	ucx(f'ucp-{transport}-tag-rendezvous', ['-t', 'tag_bw', '-s', '1000000'], ucx_over(transport), env_by_device=True)
	ucx(f'ucp-{transport}-sleeping', ['-t', 'tag_lat', '-E', 'sleep'], ucx_over(transport), env_by_device=True, long=True)

# ---- Open MPI ------------------------------------------------------------------------------------------------------------------

def mpi(name, *options, env=None, rounds=0, **more):
	argv = ['mpirun', '--allow-run-as-root', '--oversubscribe', '-n', '2', '--mca', 'btl_base_warn_component_unused', '0',
		*options, '{mpi_check}', str(rounds)]
	add(f'openmpi/{name}', argv, expect=r'all collectives agree', timeout=120, env=env or {}, env_by_device=True,
	    **more)


PML_UCX = ('--mca', 'pml', 'ucx', '--mca', 'osc', 'ucx', '--mca', 'pml_ucx_devices', 'any', '--mca', 'pml_ucx_tls', 'any')
for transport in ('rc_v', 'ud_v'):
	env = ucx_over(f'{transport},self')
	mpi(f'ucx-{transport}', *PML_UCX, env=env)
# Datagrams are packets. It takes some time, as weftd has to answer before a peer maps memory.
mpi('ucx-rc_v-shared-heap', *PML_UCX, env=ucx_over('rc_v,self'), run=HEAP, rounds=5000)
mpi('ucx-rc_v-remap', *PML_UCX, env=ucx_over('rc_v,self'), run=REMAP, rounds=5000, long=True)
# By libfabric's verbs provider; Open MPI 5 has no windows for mpi_check over an MTL.
if not OPEN_MPI_5:
	mpi('libfabric', '--mca', 'pml', 'cm', '--mca', 'mtl', 'ofi', '--mca', 'mtl_ofi_provider_include', 'verbs;ofi_rxm',
	    long=True)
OPENIB = ('--mca', 'pml', 'ob1', '--mca', 'btl', 'openib,self', '--mca', 'btl_openib_allow_ib', '1', '--mca',
	  'btl_openib_warn_no_device_params_found', '0', '--mca', 'btl_openib_if_include', '{dev}')
# On Ethernet btl openib needs the rdmacm way to connect, which Debian's has not. Open MPI 5 has no btl openib.
if not OPEN_MPI_5:
	mpi('openib-udcm', *OPENIB, '--mca', 'btl_openib_cpc_include', 'udcm', devices=IB)

# ---- Gloo ----------------------------------------------------------------------------------------------------------------------

def gloo(rank):
	return ['{gloo_check}', rank, '{dev}', '1', '0', '{tmp}/store']


add('gloo/ibverbs', gloo('1'), gloo('0'), ready=r'', expect=r'all results agree', expect_server=r'all results agree',
    setup='mkdir store', long=True)

# ---- MPICH ---------------------------------------------------------------------------------------------------------------------

# Debian's has UCX below it.
for transport in ('rc_v', 'ud_v'):
	add(f'mpich/ucx-{transport}', ['mpirun.mpich', '-n', '3', '{mpich_check}', '0'], expect=r'all collectives agree',
	    timeout=120, env=ucx_over(f'{transport},self'), needs=('{mpich_check}',), long=True)

# ---- DAPL ----------------------------------------------------------------------------------------------------------------------

# By sockets: the provider that connects by rdma_cm takes no address of the loopback interface.
DAPL_SERVER = """echo 'scm u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 "{dev} 1" ""' >{tmp}/dat.conf
exec dapltest -T S -D scm -n {port}"""
DAPL_CLIENT = f"""set -eu
tell() {{{{ what=$1; shift; dapltest -T "$what" -D scm -s {ADDR} -n {{port}} "$@"; }}}}
tell T -i 100 -t 2 -w 2 -R BE client SR 4096 2 server SR 4096 2 client RW 65536 server RR 32768 client SR 100 server SR 100
tell Q"""
add('dapl/dapltest', ['sh', '-c', DAPL_CLIENT], ['sh', '-c', DAPL_SERVER], ready='Service Point Ready', needs=('dapltest',),
    expect='Total RDMA Read  :      13.10 MB', expect_server='Transaction Test Finished',
    env={'DAT_OVERRIDE': '{tmp}/dat.conf', 'DAPL_SCM_NETDEV': 'lo'}, long=True)

# ---- QEMU's migration ----------------------------------------------------------------------------------------------------------

# A machine moves, once with its memory registered bit by bit, and once with all of it registered before.
for name, capabilities in (('migrate', []), ('migrate-pinned', ['rdma-pin-all'])):
	add(f'qemu/{name}', ['/usr/bin/python3', '-B', '{qemu_migrate}', '{tmp}', f'rdma:{ADDR}:{{port}}', *capabilities],
	    [*MACHINE, '-qmp', 'unix:{tmp}/to,server,nowait', '-incoming', f'rdma:{ADDR}:{{port}}'], ready='cm',
	    expect=r'migrated: \d+ MB', files=('from.memory', 'to.memory'), needs=(MACHINE[0],), timeout=150, long=True)

# ---- iSER ----------------------------------------------------------------------------------------------------------------------

# libiscsi's initiators with Debian's target. libiscsi 1.19 ends a connection by cancelling the thread that reads its CM events,
# perhaps in the midst of one, and frees what the thread uses without waiting for its end: one start in three of iscsi-test-cu,
# which connects again and again, crashes, and others hang as they leave. So each is killed when it has printed what it was
# asked. Nor has libiscsi room for more than 256 KB at once. tgtd asks for the initiators' names as well as their addresses.
ISER_DISK = 'iqn.2026-01.org.example:disk'
ISER = f"""set -eu
tell() {{{{ /usr/sbin/tgtadm --lld iser --mode "$@"; }}}}
tell target --op new --tid 1 --targetname {ISER_DISK}
tell logicalunit --op new --tid 1 --lun 1 --backing-store {{tmp}}/disk
tell target --op bind --tid 1 --initiator-address ALL
tell target --op bind --tid 1 --initiator-name iqn.2026-01.org.example:us
tell target --op bind --tid 1 --initiator-name iqn.2008-11.org.linux-kvm
until_said() {{{{
	pattern=$1
	shift
	stdbuf -oL "$@" >said 2>&1 &
	until grep -q "$pattern" said || ! kill -0 $!; do sleep 0.1; done
	kill -KILL $! || true
	cat said
	grep -q "$pattern" said
}}}}
disk=iser://{ADDR}:{{port}}/{ISER_DISK}/1
name=iqn.2026-01.org.example:us
until_said 'Target:{ISER_DISK} ' iscsi-ls -i $name iscsi://{ADDR}:{{port}}/?iser
until_said 'Device Type:DIRECT_ACCESS' iscsi-inq -i $name $disk
until_said 'Total size:8388608' iscsi-readcapacity16 -i $name $disk
until_said 'read 204800/204800' qemu-io -f raw -c "write -s {{tmp}}/news 0 256k" -c "write -P 7 1M 256k" -c flush \\
	-c "read -P 7 1M 256k" -c "read -P 0x5a 5M 256k" -c "read -P 0x5a 6M 200k" $disk
! grep 'verification failed' said"""
# The disk as it was, with what was written.
ISER_SETUP = """head -c 256k /dev/urandom >news; head -c 8M /dev/zero | tr '\\0' Z >disk; cp disk wanted
dd if=news of=wanted conv=notrunc status=none
head -c 256k /dev/zero | tr '\\0' '\\7' | dd of=wanted bs=1M seek=1 conv=notrunc status=none"""
add('iser/disk', ['sh', '-c', ISER], ['/usr/sbin/tgtd', '-f', '--iser', 'port={port}', '--iscsi', f'portal={ADDR}:{{port}}'],
    ready='cm', expect='read 204800/204800', server_ends='stopped', env={'TGT_IPC_SOCKET': '{tmp}/control'},
    needs=('/usr/sbin/tgtd', 'iscsi-ls', 'qemu-io'), setup=ISER_SETUP, files=('disk', 'wanted'), long=True)

# ---- Ceph ----------------------------------------------------------------------------------------------------------------------

# A monitor and its clients, by the messenger async+rdma. They exchange QP numbers over TCP.
CEPH_FSID = '8c7b2c5e-1f0a-4f7e-9d26-6f1f7f6f3b11'
CEPH_CONF = f"""[global]
fsid = {CEPH_FSID}
mon_host = v2:{ADDR}:{{port}}/0
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_type = async+rdma
ms_public_type = async+rdma
ms_cluster_type = async+rdma
ms_async_rdma_device_name = {{dev}}
run_dir = {{tmp}}
admin_socket = {{tmp}}/$name.asok
log_file = {{tmp}}/$name.log
mon_data = {{tmp}}/mon
"""
CEPH_MON = f"""set -eu
cat >ceph.conf <<'end'
{CEPH_CONF}end
monmaptool --create --fsid {CEPH_FSID} --addv a '[v2:{ADDR}:{{port}}]' monmap
mkdir mon
ceph-mon -c ceph.conf --mkfs -i a --monmap monmap
exec ceph-mon -c ceph.conf -i a -f"""
CEPH_CLIENT = """set -eu
tell() {{ ceph -c ceph.conf --connect-timeout 60 "$@"; }}
tell -s
tell config-key set data -i data
tell config-key get data -o copy"""
add('ceph/monitor', ['sh', '-c', CEPH_CLIENT], ['sh', '-c', CEPH_MON], expect=r'mon: 1 daemons, quorum a', server_ends='stopped',
    needs=('ceph-mon', 'ceph', 'monmaptool'),
    setup='head -c 60000 /dev/urandom | base64 -w 0 | head -c 60000 >data', files=('data', 'copy'),
    timeout=120, long=True)

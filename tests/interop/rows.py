"""The table of programs that run between weft and rdma_rxe, and what the network does meanwhile.

In arguments, {dev}, {gid} and {own} are the device, the GID's index and the address of the end that the program runs on, {mtu}
the path MTU, {server} the server's address, {tcp} its IPv4 address, {strict} 0 where the network duplicates or reorders, and
{checked}, {unreliable} and {faults} our own programs.
"""

import re
from dataclasses import dataclass, field

# ---- the network ---------------------------------------------------------------------------------------------------------------

MTUS = {1024: 1500, 4096: 4200}		# path MTU: MTU of the interface
# What each end does to the packets that it sends: netem in the guest, --impair in weft.
NETS = {
	'clean': ('', ''),
	'loss': ('loss 5%', 'loss=5%'),
	'reorder': ('delay 1ms reorder 25% 50%', 'reorder=5%'),
	'dup': ('duplicate 5%', 'dup=5%'),
}


@dataclass
class Pair:
	name: str
	server: str
	client: str = ''		# '': as the server, and {tcp} behind it
	ready: str = 'tcp'		# when the server takes clients: 'tcp' (port 18515), 'cm', or a pattern of its output
	expect: str = ''		# in the client's output
	expect_server: str = ''
	fails: bool = False		# the client must not end with 0, and the server ends however it likes
	families: tuple = (4, 6)
	nets: tuple = tuple(NETS)
	sides: tuple = ('weft', 'rxe')	# whose end the server may be
	server_ends: bool = True	# by itself, with 0
	patience: int = 40		# seconds, without loss
	device: str = 'rxe0'		# rxe's name for it
	needs: str = ''			# a file of this host without which it cannot run
	env: dict = field(default_factory=dict)
	options: tuple = ()		# of weft run; what leaves this host is watched then: watch.py
	sampled: bool = True		# among what --sample chooses from


OURS = ('checked', 'unreliable', 'faults')
TABLE = []
CLEAN = ('clean',)


def add(name, server, client='', **more):
	TABLE.append(Pair(name, server, client, **more))


# ---- our own: every byte is checked, as most of the others do not --------------------------------------------------------------

add('checked', '{checked} {dev} 300 1 {gid} 18515')
for service in ('uc', 'ud'):
	add(f'unreliable_{service}', f'{{unreliable}} {service} 200 {{strict}} {{dev}} {{gid}} 18515')
FAULTS = ('write-wrong-rkey write-old-rkey write-beyond-end write-before-begin write-no-right write-imm-wrong-rkey '
	  'write-not-enabled read-wrong-rkey read-beyond-end read-no-right read-not-enabled atomic-wrong-rkey atomic-no-right '
	  'atomic-beyond-end atomic-misaligned write-nothing read-nothing send-too-long send-too-long-later send-bad-receive '
	  'send-never-ready send-ready-later write-imm-ready-later send-nobody').split()
for case in FAULTS:
	nets = tuple(NETS) if case.endswith('later') else CLEAN
	# rxe refuses to post an atomic at such an address
	sides = ('rxe',) if case == 'atomic-misaligned' else ('weft', 'rxe')
	add(f'fault_{case.replace("-", "_")}', f'{{faults}} {case} {{dev}} {{gid}} 18515', nets=nets, sides=sides)

# ---- libibverbs' examples: addresses by TCP ------------------------------------------------------------------------------------

for kind, more in (('rc', '-n 200 -s 9000 -m {mtu} -c'), ('srq', '-n 100 -s 5000 -m {mtu}')):
	add(f'{kind}_pingpong', f'ibv_{kind}_pingpong -e -d {{dev}} -g {{gid}} {more}', expect='bytes in')
for kind, more in (('uc', '-n 200 -s 9000 -m {mtu}'), ('ud', '-n 200 -s 1000')):
	add(f'{kind}_pingpong', f'ibv_{kind}_pingpong -e -d {{dev}} -g {{gid}} {more}', expect='bytes in', nets=CLEAN)

# Each end of perftest wants as many READs under way as its own adapter can, which must not be more than the other's: hence -o.
# An emulated guest may answer late: -u 16 is an ACK timeout of 268 ms.
# ---- perftest ------------------------------------------------------------------------------------------------------------------

for name, more in (
		('write_bw', '-s 65536 -n 100'), ('write_lat', '-s 64 -n 200'), ('write_bw_odd', '-s 10007 -n 100'),
		('read_bw', '-o 16 -s 65536 -n 50'), ('read_lat', '-o 16 -s 64 -n 100'), ('read_bw_odd', '-o 16 -s 10007 -n 50'),
		('send_bw', '-s 65536 -n 100'), ('send_lat', '-s 64 -n 200'), ('send_bw_odd', '-s 1027 -n 200'),
		('send_bw_both', '-b -s 4096 -n 100'), ('write_bw_many', '-q 4 -s 8192 -n 100'),
		('atomic_lat', '-o 16 -n 100'), ('atomic_bw', '-o 16 -n 100'),
		('atomic_lat_cs', '-o 16 -n 100 -A CMP_AND_SWAP')):
	program = re.sub('_(odd|both|many|cs)$', '', name)
	add(name, f'ib_{program} -F -u 16 -d {{dev}} -x {{gid}} -m {{mtu}} {more}')
# for the goodput over loss: long enough that what is lost at its end does not decide
add('goodput', 'ib_write_bw -F -d {dev} -x {gid} -m {mtu} -s 65536 -n 500', nets=('clean', 'loss'), families=(4,), patience=120,
    sampled=False)
# Several paths are for peers of weft: rdma_rxe sees one, and nothing else.
for name, text in (
		('checked', '{checked} {dev} 300 1 {gid} 18515'),
		('write_bw', 'ib_write_bw -F -u 16 -d {dev} -x {gid} -m {mtu} -s 65536 -n 100'),
		('read_bw', 'ib_read_bw -F -u 16 -d {dev} -x {gid} -m {mtu} -o 16 -s 65536 -n 50')):
	add(f'{name}_paths', text, nets=('clean', 'loss'), options=('--profile=standard,paths=4',))
for name, more in (('send_bw_uc', '-c UC -s 9000 -n 100'), ('send_lat_uc', '-c UC -s 64 -n 200'),
		   ('write_bw_uc', '-c UC -s 65536 -n 50'), ('send_bw_ud', '-c UD -s 1000 -n 100'),
		   ('send_lat_ud', '-c UD -s 64 -n 200')):
	program = re.sub('_u[cd]$', '', name)
	mtu = '' if name.endswith('ud') else '-m {mtu}'
	add(name, f'ib_{program} -F -d {{dev}} -x {{gid}} {mtu} {more}', nets=CLEAN)
# perftest up to 6.06 asks getaddrinfo for IPv4 alone
for name, more in (('write_bw_cm', '-s 65536 -n 100'), ('read_bw_cm', '-o 16 -s 65536 -n 50'), ('send_lat_cm', '-s 64 -n 200'),
		   ('atomic_lat_cm', '-o 16 -n 100')):
	program = name.removesuffix('_cm')
	add(name, f'ib_{program} -R -F -u 16 -d {{dev}} {more}', ready='cm', families=(4,))

# ---- rdma_cm -------------------------------------------------------------------------------------------------------------------

add('rping', 'rping -s -a {server} -C 20 -V', 'rping -c -a {server} -C 20 -V', ready='cm')
add('rping_large', 'rping -s -a {server} -C 20 -V -S 20000', 'rping -c -a {server} -C 20 -V -S 20000', ready='cm')
add('ucmatose', 'ucmatose -b {server} -c 4 -C 10', 'ucmatose -s {server} -c 4 -C 10', ready='cm')
add('udaddy', 'udaddy -b {server} -c 4 -C 10', 'udaddy -s {server} -c 4 -C 10', ready='cm', nets=CLEAN)
# the server is the member who receives
add('mckey', 'mckey -m 239.1.2.3 -b {own} -C 20', 'mckey -m 239.1.2.3 -b {own} -C 20 -s', ready='joined dgid', expect='complete',
    expect_server='receiving data transfers\\s+data transfers complete', nets=CLEAN, families=(4,))
# its server listens at 0.0.0.0, which takes no IPv6
add('rdma_client', 'rdma_server', 'rdma_client -s {server}', ready='cm', families=(4,))
add('cmtime', 'cmtime -b {server} -c 50', 'cmtime -s {server} -c 50', ready='cm', server_ends=False)
# who listens at another port, so that weft has the port of RoCE open
add('cm_no_service', 'rping -s -a {server} -C 1', 'ucmatose -s {server} -c 1', ready='cm', expect='REJECTED, error: 8',
    fails=True, server_ends=False)
# the end of a process is told by the kernel, or by weftd, with a DREQ
add('cm_killed', 'rping -s -a {server} -C 1000000', 'timeout -s KILL 4 rping -c -a {server} -C 1000000', ready='cm', fails=True,
    expect_server='DISCONNECT EVENT')
add('rstream', 'rstream -b {server} -S 4096 -C 100', 'rstream -s {server} -S 4096 -C 100', ready='cm')
add('riostream', 'riostream -b {server} -S 4096 -C 100', 'riostream -s {server} -S 4096 -C 100', ready='cm')

# ---- UCX and libfabric ---------------------------------------------------------------------------------------------------------

# its client tells its server of its own device
for test, layout in (('am_lat', 'short'), ('am_bw', 'bcopy'), ('put_lat', 'short'), ('put_bw', 'zcopy'), ('get', 'zcopy'),
		     ('fadd', 'short')):
	size = 8 if layout == 'short' else 8000
	add(f'ucx_{test}', f'ucx_perftest -p 18515 -t {test} -D {layout} -d {{dev}}:1 -x rc_verbs -n 200 -w 10 -s {size}',
	    needs='ucx_perftest', device='weft1', env={'UCX_IB_GID_INDEX': '{gid}'})
# UCX's own choice: RC, wired up over UD. Over IPv4 it does not run on rxe, with any peer: docs/interop.md
add('ucx_tag', 'ucx_perftest -p 18515 -t tag_lat -n 200 -w 10 -s 8000', needs='ucx_perftest', nets=CLEAN, device='weft1',
    families=(6,), env={'UCX_TLS': 'rc_v', 'UCX_NET_DEVICES': '{dev}:1', 'UCX_IB_GID_INDEX': '{gid}'})
add('fi_pingpong', 'fi_pingpong -p verbs -e msg -I 50 -S 4096 -c',
    'fi_pingpong -p verbs -e msg -I 50 -S 4096 -c {server}',
    ready='tcp:47592', needs='fi_pingpong', families=(4,),
    sides=('rxe',))	# its client over rxe resolves no route to weft's server: ENODEV, from the guest's kernel

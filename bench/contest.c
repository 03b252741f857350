/* The tables. Foreign programs are used as their packages bring them; where there is none for a figure, ours is {bench}/NAME. */
#include "bench/contest.h"

#include "bench/parse.h"
#include "bench/wire.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { KB = 1024, MB = 1024 * KB, GB = 1024 * MB };
#define LATENCY_SIZES { 8, 64, 256, KB, 4 * KB, 64 * KB, MB }

const struct contest contests[] = {
	{ "send-latency", "Send latency, half a round trip", "us", true, true, LATENCY_SIZES, 2000, 2, false, NULL },
	{ "write-latency", "RDMA write latency, half a round trip", "us", true, true, LATENCY_SIZES, 1500, 2, false, NULL },
	{ "send-rate", "Messages a second", "M/s", false, true, { 8 }, 300, 1, false, NULL },
	{ "write-bandwidth", "Bandwidth of RDMA writes", "GB/s", false, true, { 4 * KB, 64 * KB, MB }, 500, 1, false, NULL },
	{ "write-rate", "RDMA writes a second, with their completions", "M/s", false, true, { 8 }, 100, 1, false, NULL },
	{ "atomic-latency", "A fetch-and-add to a line that the other end wrote, half a round trip", "us", true, false, { 8 },
	  1500, 2, false, NULL },
	{ "event-latency", "Send latency asleep, half a round trip", "us", true, true, { 8 }, 80000, 2, false, NULL },
	{ "datagram-rate", "Datagrams a second", "M/s", false, true, { 8 }, 300, 1, false, NULL },
	{ "shared-rate", "Messages a second to receives of a shared queue", "M/s", false, true, { 8 }, 300, 1, false, NULL },
	{ "queue-pairs", "A send of 8 B over queue pairs in turn", "us", true, false, { 1, 10, 100, 1000 }, 400, 0, false,
	  "queue pairs" },
	{ "peers", "An RDMA write of 8 B to processes in turn", "us", true, false, { 1, 2, 4, 8, 16, 32 }, 1000, 0, false,
	  "processes" },
	{ "registration", "Registering and deregistering memory", "us", true, false, { 4 * KB, GB }, 100000, 0, false, NULL },
	{ "connections", "Connections a second", "1/s", false, false, { 1 }, 0, 0, false, NULL },
	{ "transitions", "Transitions of a queue pair's state a second", "1/s", false, false, { 1 }, 40000, 0, false, NULL },
	{ "ucx-latency", "Tag latency of UCX over weft, half a round trip", "us", true, true, { 8 }, 3000, 2, false, NULL },
	{ "libfabric-latency", "Latency of libfabric over weft, half a round trip", "us", true, true, { 64 }, 6000, 2, false,
	  NULL },
	{ "mpi-latency", "Latency of Open MPI over weft, half a round trip", "us", true, true, { 8 }, 3000, 2, false, NULL },
	{ "mpi-allreduce", "Allreduce of Open MPI's two ranks over weft", "us", true, true, { 8 }, 6000, 2, false, NULL },
	{ "opening", "ibv_open_device in a new process", "ms", true, false, { 1 }, 2000000, 0, false, NULL },
	{ "start", "weft run -- true, more than true", "ms", true, false, { 1 }, 5000000, 0, false, NULL },
	/* a round trip over a wire, and a byte that is copied some six times, kernels' checks included */
	{ "wire-send-latency", "Send latency over a wire, half a round trip", "us", true, true, { 8 }, 8000, 6, true, NULL },
	{ "wire-event-latency", "Send latency over a wire, asleep", "us", true, true, { 8 }, 100000, 6, true, NULL },
	{ "wire-send-rate", "Messages a second over a wire", "M/s", false, true, { 64 }, 1000, 6, true, NULL },
	{ "wire-write-bandwidth", "Bandwidth of RDMA writes over a wire, path MTU 4096", "GB/s", false, true, { 64 * KB, MB },
	  1000, 6, true, NULL },
	{ "wire-qps", "Bandwidth of 1,000 queue pairs over a wire, writes of 64 KB", "GB/s", false, false, { 1 }, 30000, 0,
	  true, NULL },
};
const size_t contest_count = COUNT(contests);

#define RUN "{weft} run --device weft0 -- "
#define SHARED_RUN "{weft} run --device weft0 --shared-heap -- "
#define PERFTEST "-d weft0 -F -s {size} -n {rounds} -p {port}"
#define VERBS "{bench}/verbs "
#define LIMITS "{bench}/limits "
#define ARGUMENTS " {size} {rounds} {cpus}"
#define UCX "ucx_perftest -f -v -s {size} -n {rounds} -w {warm_up} -p {port} "
#define MPI_RUN "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " \
	"OMPI_MCA_btl_base_warn_component_unused=0 mpirun -n 2 --bind-to none "
#define MPI MPI_RUN "--mca pml ob1 --mca btl vader,self {bench}/mpi "
/* As tests/abi/programs.py has them. */
#define UCX_OVER_WEFT RUN "env UCX_TLS=rc_v,self UCX_NET_DEVICES=weft0:1 "
#define MPI_OVER_WEFT UCX_OVER_WEFT MPI_RUN "--mca pml ucx --mca osc ucx --mca pml_ucx_devices any --mca pml_ucx_tls any " \
	"{bench}/mpi "

#define WEFT_PERFTEST(binary) .side = SIDE_WEFT, .server = "", .client = "localhost", .ready = READY_TCP, \
	.program = binary, .package = "perftest"
#define WEFT_LOOP .side = SIDE_WEFT, .parse = parse_result, .program = "{bench}/verbs", .package = "weft"
#define WEFT_PERFTEST_AS_LIMIT(binary) .side = SIDE_LIMIT, .server = "", .client = "localhost", .ready = READY_TCP, \
	.program = binary, .package = "perftest"
#define ONE_OF_MANY .side = SIDE_LIMIT, .parse = parse_result, .program = "{bench}/verbs", .package = "weft"
#define MAPPED .is_mapped = true, .weft_option = "--shared-heap"
#define UCX_PEER .side = SIDE_PEER, .server = "", .client = "localhost", .ready = READY_TCP, \
	.program = "ucx_perftest", .package = "ucx-utils"
#define LIBFABRIC_PEER .side = SIDE_PEER, .parse = parse_result, .program = "{bench}/fabric", \
	.package = "libfabric-dev, then build weft again"
#define MPI_PROGRAM .parse = parse_result, .program = "{bench}/mpi", \
	.package = "openmpi-bin and libopenmpi-dev, then build weft again"
#define MPI_PEER .side = SIDE_PEER, MPI_PROGRAM
/* Between two hosts: the server's command line and the client's differ. */
#define WIRE_RUN "{weft} run --device weft1 -- "
#define WIRE_PERFTEST "-d weft1 -F -s {size} -n {rounds} -p {port}"
#define BY_PERFTEST(binary) .side = SIDE_WEFT, .server = "", .client = WIRE_SERVER, .ready = READY_TCP, \
	.program = binary, .package = "perftest"
#define BY_ENDS(port) .server = "listen " port, .client = WIRE_SERVER " " port, .ready = READY_TCP, .parse = parse_result
#define BY_LOOP .side = SIDE_WEFT, BY_ENDS("{port}"), .program = "{bench}/verbs", .package = "weft"
#define BY_SOCKETS .side = SIDE_LIMIT, BY_ENDS("{port}"), .program = "{bench}/sockets", .package = "weft"
#define SOCKETS "{bench}/sockets "
#define AMOUNT " {size} {rounds}"
#define SOCKPERF(kind, more) .side = SIDE_PEER, .server = "server -i 0.0.0.0 -p {port} " more, \
	.client = kind " -i " WIRE_SERVER " -p {port} -t 1 " more, .program = "sockperf", .package = "sockperf"
#define FI_PINGPONG(provider, endpoint) .side = SIDE_PEER, .command = "fi_pingpong -p " provider " -e " endpoint \
	" -I {rounds} -S {size}", .server = "-B {port}", .client = "-P {port} " WIRE_SERVER, .ready = READY_TCP, \
	.parse = parse_fi_pingpong, .program = "fi_pingpong", .package = "libfabric-bin"
#define UCX_TCP .side = SIDE_PEER, .server = "", .client = WIRE_SERVER, .ready = READY_TCP, \
	.program = "ucx_perftest", .package = "ucx-utils"
#define UCX_TCP_RUN "env UCX_TLS=tcp,self UCX_NET_DEVICES=" WIRE_DEVICE " " UCX

#define LIMIT .side = SIDE_LIMIT, .parse = parse_result, .program = "{bench}/limits", .package = "weft"

const struct contestant contestants[] = {
	{ "send-latency", "weft-perftest", "ib_send_lat over weft", WEFT_PERFTEST("ib_send_lat"),
	  .command = RUN "ib_send_lat " PERFTEST, .parse = parse_perftest_latency },
	{ "send-latency", "weft-loop", "verbs loop over weft", WEFT_LOOP, .command = RUN VERBS "send-latency" ARGUMENTS },
	{ "send-latency", "ucx-posix", "UCX tag_lat, posix", UCX_PEER,
	  .command = "env UCX_TLS=posix,self " UCX "-t tag_lat", .parse = parse_ucx_latency },
	{ "send-latency", "ucx-cma", "UCX tag_lat, posix and cma", UCX_PEER,
	  .command = "env UCX_TLS=posix,cma,self " UCX "-t tag_lat", .parse = parse_ucx_latency },
	{ "send-latency", "libfabric", "fi_pingpong, shm", .side = SIDE_PEER,
	  .command = "fi_pingpong -p shm -e rdm -I {rounds} -S {size}", .server = "-B {port}", .client = "-P {port} localhost",
	  .ready = READY_TCP, .parse = parse_fi_pingpong,
	  .program = "fi_pingpong", .package = "libfabric-bin" },
	{ "send-latency", "openmpi", "MPI_Send, vader", MPI_PEER, .command = MPI "latency" ARGUMENTS },
	{ "send-latency", "line", "a cache line to and fro", LIMIT, .command = LIMITS "line" ARGUMENTS, .only_size = 8 },

	{ "write-latency", "weft-perftest", "ib_write_lat over weft, private", WEFT_PERFTEST("ib_write_lat"),
	  .command = RUN "ib_write_lat " PERFTEST, .parse = parse_perftest_latency },
	{ "write-latency", "weft-loop", "verbs loop over weft, private", WEFT_LOOP,
	  .command = RUN VERBS "write-latency" ARGUMENTS },
	{ "write-latency", "weft-perftest-mapped", "ib_write_lat over weft, mapped", WEFT_PERFTEST("ib_write_lat"), MAPPED,
	  .command = SHARED_RUN "ib_write_lat " PERFTEST, .parse = parse_perftest_latency },
	{ "write-latency", "weft-loop-mapped", "verbs loop over weft, mapped", WEFT_LOOP, MAPPED,
	  .command = SHARED_RUN VERBS "write-latency" ARGUMENTS },
	{ "write-latency", "ucx-posix", "UCX put_lat, UCX's own memory", UCX_PEER,
	  .command = UCX "-x posix -d memory -D short -t put_lat", .parse = parse_ucx_latency },
	{ "write-latency", "libfabric", "libfabric fi_write, shm", LIBFABRIC_PEER,
	  .command = "{bench}/fabric write-latency" ARGUMENTS },
	{ "write-latency", "line", "a cache line to and fro", LIMIT, .command = LIMITS "line" ARGUMENTS, .only_size = 8 },
	{ "write-latency", "memcpy", "memcpy into mapped memory", LIMIT, .command = LIMITS "memcpy" ARGUMENTS },
	{ "write-latency", "mem-fd", "pwrite into /proc/PID/mem", LIMIT, .command = LIMITS "mem-fd" ARGUMENTS },
	{ "write-latency", "process-vm", "process_vm_writev", LIMIT, .command = LIMITS "process-vm" ARGUMENTS },

	{ "send-rate", "weft-perftest", "ib_send_bw over weft", WEFT_PERFTEST("ib_send_bw"),
	  .command = RUN "ib_send_bw " PERFTEST, .parse = parse_perftest_rate },
	{ "send-rate", "weft-loop", "verbs loop over weft", WEFT_LOOP, .command = RUN VERBS "send-rate" ARGUMENTS },
	{ "send-rate", "ucx-posix", "UCX tag_bw, posix", UCX_PEER,
	  .command = "env UCX_TLS=posix,self " UCX "-t tag_bw", .parse = parse_ucx_rate },
	{ "send-rate", "libfabric", "libfabric fi_send, shm", LIBFABRIC_PEER, .command = "{bench}/fabric rate" ARGUMENTS },
	{ "send-rate", "openmpi", "MPI_Isend, vader", MPI_PEER, .command = MPI "rate" ARGUMENTS },
	{ "send-rate", "ring", "a bare ring of cache lines", LIMIT, .command = LIMITS "ring-rate" ARGUMENTS, .only_size = 8 },

	{ "write-bandwidth", "weft-perftest", "ib_write_bw over weft, private", WEFT_PERFTEST("ib_write_bw"),
	  .command = RUN "ib_write_bw " PERFTEST, .parse = parse_perftest_bandwidth },
	{ "write-bandwidth", "weft-loop", "verbs loop over weft, private", WEFT_LOOP,
	  .command = RUN VERBS "write-bandwidth" ARGUMENTS },
	{ "write-bandwidth", "weft-perftest-mapped", "ib_write_bw over weft, mapped", WEFT_PERFTEST("ib_write_bw"), MAPPED,
	  .command = SHARED_RUN "ib_write_bw " PERFTEST, .parse = parse_perftest_bandwidth },
	{ "write-bandwidth", "weft-loop-mapped", "verbs loop over weft, mapped", WEFT_LOOP, MAPPED,
	  .command = SHARED_RUN VERBS "write-bandwidth" ARGUMENTS },
	{ "write-bandwidth", "ucx-posix", "UCX put_bw, UCX's own memory", UCX_PEER,
	  .command = UCX "-x posix -d memory -D short -t put_bw", .parse = parse_ucx_bandwidth },
	{ "write-bandwidth", "ucx-cma", "UCX tag_bw, posix and cma", UCX_PEER,
	  .command = "env UCX_TLS=posix,cma,self " UCX "-t tag_bw", .parse = parse_ucx_bandwidth },
	{ "write-bandwidth", "memcpy", "memcpy into mapped memory", LIMIT, .command = LIMITS "memcpy-bandwidth" ARGUMENTS },
	{ "write-bandwidth", "process-vm", "process_vm_writev", LIMIT, .command = LIMITS "process-vm-bandwidth" ARGUMENTS },

	{ "write-rate", "weft-perftest-mapped", "ib_write_bw over weft, mapped", WEFT_PERFTEST("ib_write_bw"), MAPPED,
	  .command = SHARED_RUN "ib_write_bw " PERFTEST, .parse = parse_perftest_rate },
	{ "write-rate", "weft-loop-mapped", "verbs loop over weft, mapped", WEFT_LOOP, MAPPED,
	  .command = SHARED_RUN VERBS "write-rate" ARGUMENTS },
	{ "write-rate", "ucx-posix", "UCX put_bw, UCX's own memory", UCX_PEER,
	  .command = UCX "-x posix -d memory -D short -t put_bw", .parse = parse_ucx_rate },

	{ "atomic-latency", "weft-loop-mapped", "verbs loop over weft, mapped", WEFT_LOOP, MAPPED,
	  .command = SHARED_RUN VERBS "atomic-latency" ARGUMENTS },
	{ "atomic-latency", "weft-loop", "verbs loop over weft, private", WEFT_LOOP,
	  .command = RUN VERBS "atomic-latency" ARGUMENTS },
	{ "atomic-latency", "add", "a lock-prefixed add", LIMIT, .command = LIMITS "add" ARGUMENTS },

	{ "event-latency", "weft-perftest", "ib_send_lat -e over weft", WEFT_PERFTEST("ib_send_lat"),
	  .command = RUN "ib_send_lat -e " PERFTEST, .parse = parse_perftest_latency },
	{ "event-latency", "weft-loop", "verbs loop over weft, events", WEFT_LOOP,
	  .command = RUN VERBS "event-latency" ARGUMENTS },
	{ "event-latency", "tcp", "TCP over the loopback, blocking", LIMIT, .command = LIMITS "tcp" ARGUMENTS },
	{ "event-latency", "eventfd", "eventfd, blocking", LIMIT, .command = LIMITS "eventfd" ARGUMENTS },

	{ "datagram-rate", "weft-perftest", "ib_send_bw -c UD over weft", WEFT_PERFTEST("ib_send_bw"),
	  .command = RUN "ib_send_bw -c UD " PERFTEST, .parse = parse_perftest_rate },
	{ "datagram-rate", "weft-rc", "ib_send_bw over weft, RC", WEFT_PERFTEST_AS_LIMIT("ib_send_bw"),
	  .command = RUN "ib_send_bw " PERFTEST, .parse = parse_perftest_rate },
	{ "shared-rate", "weft-perftest", "ib_send_bw --use-srq over weft", WEFT_PERFTEST("ib_send_bw"),
	  .command = RUN "ib_send_bw --use-srq " PERFTEST, .parse = parse_perftest_rate },
	{ "shared-rate", "weft-rc", "ib_send_bw over weft", WEFT_PERFTEST_AS_LIMIT("ib_send_bw"),
	  .command = RUN "ib_send_bw " PERFTEST, .parse = parse_perftest_rate },

	{ "queue-pairs", "weft-loop", "verbs loop over weft", WEFT_LOOP, .command = RUN VERBS "send-qps" ARGUMENTS },
	{ "queue-pairs", "weft-one", "verbs loop over weft, one queue pair", ONE_OF_MANY, .only_size = 1000,
	  .command = RUN VERBS "send-qps 1 {rounds} {cpus}" },
	{ "peers", "weft-loop", "verbs loop over weft, private", WEFT_LOOP, .command = RUN VERBS "write-peers" ARGUMENTS },
	{ "peers", "weft-one", "verbs loop over weft, one process", ONE_OF_MANY, .only_size = 32,
	  .command = RUN VERBS "write-peers 1 {rounds} {cpus}" },

	{ "registration", "weft-loop", "ibv_reg_mr and ibv_dereg_mr over weft", WEFT_LOOP,
	  .command = RUN VERBS "register" ARGUMENTS },

	{ "connections", "weft-cmtime", "cmtime over weft, 1,000 connections", .side = SIDE_WEFT,
	  .command = "{weft} run -- cmtime -p {port} -c 1000", .server = "", .client = "-s 127.0.0.1", .ready = READY_RDMA_CM,
	  .parse = parse_cmtime, .program = "cmtime", .package = "rdmacm-utils" },

	{ "transitions", "weft-loop", "ibv_modify_qp over weft", WEFT_LOOP, .command = RUN VERBS "transitions" ARGUMENTS },
	{ "ucx-latency", "weft", "UCX tag_lat over weft, rc_v", .side = SIDE_WEFT, .server = "", .client = "localhost",
	  .ready = READY_TCP, .command = UCX_OVER_WEFT UCX "-t tag_lat", .parse = parse_ucx_latency,
	  .program = "ucx_perftest", .package = "ucx-utils" },
	{ "ucx-latency", "ucx-posix", "UCX tag_lat, posix", UCX_PEER,
	  .command = "env UCX_TLS=posix,self " UCX "-t tag_lat", .parse = parse_ucx_latency },
	{ "libfabric-latency", "weft", "fi_pingpong over weft, verbs", .side = SIDE_WEFT,
	  .command = RUN "fi_pingpong -p verbs -e msg -I {rounds} -S {size}", .server = "-B {port}",
	  .client = "-P {port} localhost", .ready = READY_TCP, .parse = parse_fi_pingpong,
	  .program = "fi_pingpong", .package = "libfabric-bin" },
	{ "libfabric-latency", "libfabric", "fi_pingpong, shm", .side = SIDE_PEER,
	  .command = "fi_pingpong -p shm -e rdm -I {rounds} -S {size}", .server = "-B {port}", .client = "-P {port} localhost",
	  .ready = READY_TCP, .parse = parse_fi_pingpong, .program = "fi_pingpong", .package = "libfabric-bin" },
	{ "mpi-latency", "weft", "MPI_Send over weft, UCX rc_v", MPI_PROGRAM, .side = SIDE_WEFT,
	  .command = MPI_OVER_WEFT "latency" ARGUMENTS },
	{ "mpi-latency", "openmpi", "MPI_Send, vader", MPI_PEER, .command = MPI "latency" ARGUMENTS },
	{ "mpi-allreduce", "weft", "MPI_Allreduce over weft, UCX rc_v", MPI_PROGRAM, .side = SIDE_WEFT,
	  .command = MPI_OVER_WEFT "allreduce" ARGUMENTS },
	{ "mpi-allreduce", "openmpi", "MPI_Allreduce, vader", MPI_PEER, .command = MPI "allreduce" ARGUMENTS },
	{ "opening", "weft-loop", "ibv_open_device over weft", WEFT_LOOP, .command = RUN VERBS "open" ARGUMENTS },
	{ "start", "weft-run", "weft run -- true", .side = SIDE_WEFT, .parse = parse_result, .program = "{bench}/start",
	  .package = "weft", .command = "{bench}/start {rounds} {weft}" },

	{ "wire-send-latency", "weft-perftest", "ib_send_lat over weft", BY_PERFTEST("ib_send_lat"),
	  .command = WIRE_RUN "ib_send_lat " WIRE_PERFTEST, .parse = parse_perftest_latency },
	{ "wire-send-latency", "weft-loop", "verbs loop over weft", BY_LOOP, .command = WIRE_RUN VERBS "send-latency" AMOUNT },
	{ "wire-send-latency", "ucx-tcp", "UCX tag_lat, tcp", UCX_TCP, .command = UCX_TCP_RUN "-t tag_lat",
	  .parse = parse_ucx_latency },
	{ "wire-send-latency", "libfabric-tcp", "fi_pingpong, tcp", FI_PINGPONG("tcp", "msg") },
	{ "wire-send-latency", "libfabric-udp", "fi_pingpong, udp;ofi_rxd", FI_PINGPONG("udp;ofi_rxd", "rdm") },
	{ "wire-send-latency", "sockperf-udp", "sockperf, UDP, spinning, 14 B", .command = "sockperf", .ready = READY_UDP,
	  SOCKPERF("ping-pong -m 14", "--nonblocked"), .parse = parse_sockperf_latency },
	{ "wire-send-latency", "sockperf-tcp", "sockperf, TCP, spinning, 14 B", .command = "sockperf", .ready = READY_TCP,
	  SOCKPERF("ping-pong -m 14", "--tcp --nonblocked"), .parse = parse_sockperf_latency },
	{ "wire-send-latency", "tcp", "TCP sockets, spinning", BY_SOCKETS, .command = SOCKETS "tcp-spinning" AMOUNT },
	{ "wire-send-latency", "udp", "UDP sockets, spinning", BY_SOCKETS, .command = SOCKETS "udp-spinning" AMOUNT },

	{ "wire-event-latency", "weft-perftest", "ib_send_lat -e over weft", BY_PERFTEST("ib_send_lat"),
	  .command = WIRE_RUN "ib_send_lat -e " WIRE_PERFTEST, .parse = parse_perftest_latency },
	{ "wire-event-latency", "weft-loop", "verbs loop over weft, events", BY_LOOP,
	  .command = WIRE_RUN VERBS "event-latency" AMOUNT },
	{ "wire-event-latency", "sockperf-tcp", "sockperf, TCP, asleep, 14 B", .command = "sockperf", .ready = READY_TCP,
	  SOCKPERF("ping-pong -m 14", "--tcp"), .parse = parse_sockperf_latency },
	{ "wire-event-latency", "tcp", "TCP sockets, asleep", BY_SOCKETS, .command = SOCKETS "tcp-asleep" AMOUNT },
	{ "wire-event-latency", "udp", "UDP sockets, asleep", BY_SOCKETS, .command = SOCKETS "udp-asleep" AMOUNT },

	{ "wire-send-rate", "weft-perftest", "ib_send_bw over weft", BY_PERFTEST("ib_send_bw"),
	  .command = WIRE_RUN "ib_send_bw " WIRE_PERFTEST, .parse = parse_perftest_rate },
	{ "wire-send-rate", "weft-loop", "verbs loop over weft", BY_LOOP, .command = WIRE_RUN VERBS "send-rate" AMOUNT },
	{ "wire-send-rate", "ucx-tcp", "UCX tag_bw, tcp", UCX_TCP, .command = UCX_TCP_RUN "-t tag_bw", .parse = parse_ucx_rate },
	{ "wire-send-rate", "sockperf-udp", "sockperf throughput, UDP", .command = "sockperf", .ready = READY_UDP,
	  SOCKPERF("throughput -m {size}", ""), .parse = parse_sockperf_rate },

	{ "wire-write-bandwidth", "weft-perftest", "ib_write_bw over weft", BY_PERFTEST("ib_write_bw"),
	  .command = WIRE_RUN "ib_write_bw " WIRE_PERFTEST, .parse = parse_perftest_bandwidth },
	{ "wire-write-bandwidth", "weft-loop", "verbs loop over weft", BY_LOOP,
	  .command = WIRE_RUN VERBS "write-bandwidth-1" AMOUNT },
	{ "wire-write-bandwidth", "iperf3", "iperf3, TCP, one stream", .side = SIDE_PEER, .command = "iperf3 -p {port}",
	  .server = "-s -1", .client = "-c " WIRE_SERVER " -t 1 -f m -l {size}", .ready = READY_TCP, .parse = parse_iperf,
	  .program = "iperf3", .package = "iperf3" },
	{ "wire-write-bandwidth", "ucx-tcp", "UCX tag_bw, tcp", UCX_TCP, .command = UCX_TCP_RUN "-t tag_bw",
	  .parse = parse_ucx_bandwidth },
	{ "wire-write-bandwidth", "udp", "UDP, GSO and GRO, CRC and copy", BY_SOCKETS,
	  .command = SOCKETS "udp-bandwidth" AMOUNT },

	{ "wire-qps", "weft-loop", "verbs loop over weft, 1,000 QPs", BY_LOOP,
	  .command = WIRE_RUN VERBS "write-bandwidth-1000 65536 {rounds}" },
	{ "wire-qps", "weft-8", "verbs loop over weft, 8 QPs", .side = SIDE_LIMIT, BY_ENDS("{port}"),
	  .program = "{bench}/verbs", .package = "weft", .command = WIRE_RUN VERBS "write-bandwidth-8 65536 {rounds}" },
};
const size_t contestant_count = COUNT(contestants);

const struct goal goals[] = {
	{ "send-latency", 8, false, "ucx-posix", 0.7 },
	{ "send-latency", 8, false, "openmpi", 0.85 },
	{ "send-latency", 8, false, "line", 1.6 },
	{ "send-latency", 64, false, "ucx-posix", 1.0 },
	{ "send-latency", 64, false, "openmpi", 1.0 },
	{ "send-latency", 256, false, "ucx-posix", 1.0 },
	{ "send-latency", 256, false, "openmpi", 1.0 },
	{ "send-latency", KB, false, "ucx-posix", 1.0 },
	{ "send-latency", KB, false, "openmpi", 1.0 },
	{ "send-latency", 4 * KB, false, "ucx-posix", 1.0 },
	{ "send-latency", 4 * KB, false, "openmpi", 1.0 },
	{ "write-latency", 8, true, "ucx-posix", 1.0 },
	{ "write-latency", 8, true, "line", 1.2 },
	{ "write-latency", 8, false, "libfabric", 0.95 },
	{ "write-latency", 8, false, "mem-fd", 1.15 },
	{ "send-rate", 8, false, "ucx-posix", 1.5 },
	{ "send-rate", 8, false, "libfabric", 1.3 },
	{ "send-rate", 8, false, "ring", 0.1 },
	{ "write-bandwidth", 64 * KB, true, "ucx-posix", 1.0 },
	{ "write-bandwidth", 64 * KB, true, "memcpy", 0.95 },
	{ "write-bandwidth", MB, true, "ucx-posix", 1.0 },
	{ "write-bandwidth", MB, true, "memcpy", 0.95 },
	{ "write-bandwidth", 64 * KB, false, "ucx-cma", 1.1 },
	{ "write-bandwidth", 64 * KB, false, "process-vm", 0.95 },
	{ "write-bandwidth", MB, false, "ucx-cma", 1.1 },
	{ "write-bandwidth", MB, false, "process-vm", 0.95 },
	{ "event-latency", 8, false, "tcp", 0.9 },
	{ "event-latency", 8, false, "eventfd", 1.1 },
	{ "write-rate", 8, true, "ucx-posix", 0.5 },
	{ "datagram-rate", 8, false, "weft-rc", 0.5 },
	{ "shared-rate", 8, false, "weft-rc", 0.87 },	/* 1 / 1.15 */
	{ "queue-pairs", 1000, false, "weft-one", 1.5 },
	{ "peers", 32, false, "weft-one", 1.5 },
	{ "atomic-latency", 8, true, "add", 1.2 },
	{ "ucx-latency", 8, false, "ucx-posix", 1.3 },
	{ "mpi-latency", 8, false, "openmpi", 1.3 },
	{ "mpi-allreduce", 8, false, "openmpi", 1.3 },
	{ "connections", 1, false, NULL, 20000 },
	{ "transitions", 1, false, NULL, 50000 },
	{ "opening", 1, false, NULL, 1 },
	{ "start", 1, false, NULL, 3 },
	{ "wire-send-latency", 8, false, "tcp", 0.8 },
	{ "wire-send-latency", 8, false, "udp", 1.15 },
	{ "wire-event-latency", 8, false, "tcp", 1.1 },
	{ "wire-send-rate", 64, false, "sockperf-udp", 3.0 },
	{ "wire-write-bandwidth", 64 * KB, false, "iperf3", 3.0 },
	{ "wire-write-bandwidth", 64 * KB, false, "udp", 0.9 },
	{ "wire-write-bandwidth", MB, false, "iperf3", 3.0 },
	{ "wire-write-bandwidth", MB, false, "udp", 0.9 },
	{ "wire-qps", 1, false, "weft-8", 0.9 },
};
const size_t goal_count = COUNT(goals);

const struct contest *contest_find(const char *name)
{
	for (size_t i = 0; i < contest_count; i++)
		if (strcmp(contests[i].name, name) == 0)
			return &contests[i];
	return NULL;
}

unsigned contest_rounds(const struct contest *c, size_t size, double seconds)
{
	/* Our choice: 12 bytes in a nanosecond, which is what memory does; fewer rounds than 40 have no median worth the name. */
	double ns = c->round_ns + (double)size * c->passes / 12;
	double rounds = ns > 0 ? seconds * 1e9 / ns : 1;

	return rounds < 40 ? 40 : rounds > 1e7 ? 10000000 : (unsigned)rounds;
}

const char *size_text(size_t size, char text[SIZE_TEXT])
{
	static const char *const units[] = { "B", "KB", "MB", "GB" };
	int u = 0;

	for (; u < 3 && size >= 1024 && size % 1024 == 0; u++)
		size /= 1024;
	snprintf(text, SIZE_TEXT, "%zu %s", size, units[u]);
	return text;
}

const char *contest_size_text(const struct contest *c, size_t size, char text[SIZE_TEXT])
{
	if (c->counted)
		snprintf(text, SIZE_TEXT, "%zu", size);
	else if (size > 1)
		return size_text(size, text);
	else
		text[0] = '\0';
	return text;
}

const char *goal_text(const struct goal *g, char text[GOAL_TEXT])
{
	char size[SIZE_TEXT];
	const char *of_size = contest_size_text(contest_find(g->contest), g->size, size);

	snprintf(text, GOAL_TEXT, "%s%s%s%s", g->contest, *of_size ? ", " : "", of_size, g->is_mapped ? ", mapped" : "");
	return text;
}

const char *goal_bound_text(const struct goal *g, char text[GOAL_TEXT])
{
	const struct contest *c = contest_find(g->contest);
	const char *most = c->is_lower_better ? "at most" : "at least";

	if (g->against)
		snprintf(text, GOAL_TEXT, "%s %.2f", most, g->bound);
	else
		snprintf(text, GOAL_TEXT, "%s %.*f %s", most, g->bound < 10 ? 2 : 0, g->bound, c->unit);
	return text;
}

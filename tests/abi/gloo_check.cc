// gloo_check RANK DEVICE PORT_OF_DEVICE GID_INDEX DIRECTORY: one of two ranks of Gloo over its ibverbs transport, which meet in
// DIRECTORY. Sums, copies and barriers of several lengths, each compared with what it must be. Nothing is destroyed: Gloo calls
// it an error when a buffer goes before the completion of its last send was seen, and has no way to wait for that.
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

enum { RANKS = 2, ROUNDS = 20 };

static std::shared_ptr<gloo::rendezvous::Context> context;

static void expect(bool right, const char *what, size_t count)
{
	if (right)
		return;
	fprintf(stderr, "gloo_check: wrong result of %s of %zu\n", what, count);
	exit(1);
}

static void check_sum(size_t count)
{
	auto &values = *new std::vector<int>(count), &chunked = *new std::vector<int>(count);
	auto &sum = *new gloo::AllreduceRing<int>(context, {values.data()}, count);
	auto &sum_chunked = *new gloo::AllreduceRingChunked<int>(context, {chunked.data()}, count);

	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < count; i++)
			values[i] = chunked[i] = (context->rank + 1) * (int)(i + round);
		sum.run();
		sum_chunked.run();
		for (size_t i = 0; i < count; i++) {
			expect(values[i] == 3 * (int)(i + round), "allreduce", count);
			expect(chunked[i] == 3 * (int)(i + round), "chunked allreduce", count);
		}
	}
}

static void check_broadcast(size_t count)
{
	auto &values = *new std::vector<int>(count);
	auto &broadcast = *new gloo::BroadcastOneToAll<int>(context, {values.data()}, count, 1);

	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < count; i++)
			values[i] = context->rank == 1 ? (int)i - round : -1;
		broadcast.run();
		for (size_t i = 0; i < count; i++)
			expect(values[i] == (int)i - round, "broadcast", count);
	}
}

int main(int argc, char **argv)
{
	if (argc != 6) {
		fprintf(stderr, "usage: gloo_check RANK DEVICE PORT_OF_DEVICE GID_INDEX DIRECTORY\n");
		return 2;
	}

	gloo::transport::ibverbs::attr where = {argv[2], atoi(argv[3]), atoi(argv[4])};
	auto device = gloo::transport::ibverbs::CreateDevice(where);
	gloo::rendezvous::FileStore store(argv[5]);

	context = std::make_shared<gloo::rendezvous::Context>(atoi(argv[1]), RANKS);
	context->connectFullMesh(store, device);
	for (size_t count : {1, 100, 4099, 300000}) {
		check_sum(count);
		check_broadcast(count);
	}
	(new gloo::BarrierAllToAll(context))->run();
	printf("gloo_check: all results agree\n");
	fflush(stdout);
	_Exit(0);
}
